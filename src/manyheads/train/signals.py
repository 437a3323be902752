"""Ctrl-C and SIGTERM: the first asks training to stop after the step, the second stops at once."""

import signal
import threading

from manyheads.core.errors import Stopped


class StopSignals:
    """While open, remembers that a signal asked to stop."""

    def __init__(self):
        self.asked: int | None = None
        self._previous = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._remember)
        return self

    def __exit__(self, *_) -> None:
        self._restore()

    def stop(self, message: str) -> None:
        """Ends the run as the shell expects: 130 after Ctrl-C, 143 after SIGTERM."""
        raise Stopped(message, 128 + (self.asked or signal.SIGINT))

    def _remember(self, number: int, _) -> None:
        self.asked = number
        self._restore()  # a second one does what it does anywhere: stops at once

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
