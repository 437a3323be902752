"""Errors a user can do something about: one sentence that says what was found, what the limit is and what to do."""


class ManyheadsError(Exception):
    """The base of every error that the command line prints as one sentence, without a traceback."""


class ConfigError(ManyheadsError):
    """A recipe, a preset or a field that cannot be."""


class DataError(ManyheadsError):
    """A file of examples that cannot be used; the message names the file and the line."""


class CheckpointError(ManyheadsError):
    """A model directory or checkpoint that is missing, damaged or of a kind that is not known."""


class MissingExtra(ManyheadsError):  # noqa: N818 it says what is the matter
    """An optional part that is not installed."""

    def __init__(self, package: str, extra: str, purpose: str):
        super().__init__(f"{purpose} needs {package}, which is not installed: pip install 'manyheads[{extra}]'")


class Stopped(ManyheadsError):  # noqa: N818
    """Training was asked to stop by a signal, and did so after saving."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code
