"""What a tokenizer.json from elsewhere could do to whoever opens it, and does not; one string is no list of texts."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import tokenizers

from manyheads.core.errors import ConfigError

MOST_GROWTH = 1000  # characters that a normalizer or decoder may make of one
MOST_STEPS = 1000
PROBES = ("", "a", " ")
_STDERR = 2
_muting = Lock()


@contextmanager
def library_errors(what: str, then: str) -> Iterator[None]:
    """Makes a sentence of whatever the library cannot do, and of its panics, which are no Exception."""
    try:
        with _muted():
            yield
    except BaseException as error:
        # It raises bare Exception for everything; all else, such as a key pressed, is not its own.
        if type(error) is Exception or type(error).__name__ == "PanicException":
            raise ConfigError(f"{what} ({error}); {then}") from None
        raise


def refuse_one_string(texts: Any) -> None:
    """One string would be taken for a list of its letters."""
    if isinstance(texts, str):
        raise ConfigError("a tokenizer takes a list of texts, not one string")


@contextmanager
def _muted() -> Iterator[None]:
    """Keeps a panic's own report, pages long, away from standard error; of several threads only the first is muted."""
    if not _muting.acquire(blocking=False):
        yield
        return
    try:
        kept = os.dup(_STDERR)
    except OSError:  # it is closed
        kept = None
    try:
        if kept is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, _STDERR)
            os.close(nowhere)
        yield
    finally:
        if kept is not None:
            os.dup2(kept, _STDERR)
            os.close(kept)
        _muting.release()


def refuse_growth(model: tokenizers.Tokenizer, file: Any) -> None:
    """Refuses replacements that, one after the other, make very much of very little."""
    for what in ("normalizer", "decoder"):
        part = getattr(model, what)
        steps = _flat(json.loads(part.__getstate__())) if part is not None else []
        replaced = [step for step in steps if step["type"] in ("Replace", "Prepend")]
        if len(replaced) > MOST_STEPS:
            raise ConfigError(f"the {what} of {file} replaces {len(replaced):,} times; at most {MOST_STEPS:,} are done")
        for probe in {*PROBES, *(step["pattern"].get("String", "") for step in replaced if "pattern" in step)}:
            if _grown(probe, replaced) > MOST_GROWTH * max(len(probe), 1):
                raise ConfigError(
                    f"the {what} of {file} makes more than {MOST_GROWTH:,} characters of one; use another tokenizer"
                )


def _flat(part: dict[str, Any]) -> list[dict[str, Any]]:
    parts = part.get("normalizers") or part.get("decoders") if part["type"] == "Sequence" else None
    return [part] if parts is None else [each for inner in parts for each in _flat(inner)]


def _grown(text: str, steps: list[dict[str, Any]]) -> int:
    """How long a text becomes; a pattern that is no plain string is taken to match every character."""
    most = MOST_GROWTH * max(len(text), 1)
    for step in steps:
        if step["type"] == "Prepend":
            text = step["prepend"] + text
        elif step["pattern"].get("String"):
            if text.count(step["pattern"]["String"]) * len(step["content"]) > most:
                return most + 1
            text = text.replace(step["pattern"]["String"], step["content"])
        elif len(step["content"]) > 1:
            if len(step["content"]) * len(text) > most:
                return most + 1
            text = step["content"] * len(text)
        if len(text) > most:
            return len(text)
    return len(text)
