"""Ids one by one into text that can be shown at once."""

from collections.abc import Sequence

from manyheads.text.tokenizer import FileTokenizer

REPLACEMENT = "\ufffd"  # what decoding shows for bytes that are no character, or not yet
CONTEXT = 4  # ids kept before a new one: no character has more bytes, and every id has at least one
LONGEST_RUN = 64  # single bytes that wait for their run to end, some twenty letters of a script without tokens


class TextStream:
    """The text of ids that arrive one by one, up to the first stop string to be complete.

    What is given out holds no half of a character and no beginning of a stop string; joined, it is what the tokenizer
    decodes from all ids at once.  One exception: a tokenizer with byte fallback turns a whole run of single bytes into
    U+FFFD if any is wrong, while those that came 64 bytes before it have been shown here as the characters they were.
    """

    def __init__(self, tokenizer: FileTokenizer, stops: Sequence[str] = ()):
        self.stopped = False
        self._tokenizer = tokenizer
        self._stops = [stop for stop in stops if stop]
        self._longest = max(map(len, self._stops), default=1)
        self._window: list[int] = []  # the last ids, enough to decode the next one as it would be behind all of them
        self._emitted = 0  # characters of the window's text that no later id changes; they have been passed on
        self._held = ""  # characters passed on that may begin a stop string

    def push(self, token_id: int) -> str:
        """The text that can be shown now that this id has come."""
        if self.stopped or self._tokenizer.writes_nothing(token_id):
            return ""
        self._window.append(token_id)
        return self._before_stops(self._advance())

    def finish(self) -> str:
        """The text that was still held back."""
        rest = "" if self.stopped else self._before_stops(self._decode(self._window)[self._emitted :]) + self._held
        self._window, self._emitted, self._held = [], 0, ""
        return rest

    def _advance(self) -> str:
        """The characters that no later id changes; of the window, only what the next id needs is kept."""
        run = self._run()
        if not run:
            # Of bytes that are no character, the next id may only complete those at the end: one U+FFFD.
            text = self._decode(self._window).removesuffix(REPLACEMENT)
            context = self._window[-CONTEXT:]
            emitted = len(self._decode(context).removesuffix(REPLACEMENT))
        else:
            evidence = _evidence(run)
            if evidence is None:
                return ""
            text = self._decode(self._window)
            context = self._window[-len(run) :][evidence]
            emitted = len(self._decode(context))
        new = text[self._emitted :]
        self._window, self._emitted = context, emitted
        return new

    def _run(self) -> bytes:
        """The bytes that the last ids stand for, where byte fallback joins them."""
        run: list[int] = []
        for token_id in reversed(self._window):
            byte = self._tokenizer.byte(token_id)
            if byte is None:
                break
            run.append(byte)
        return bytes(reversed(run))

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode([ids])[0]

    def _before_stops(self, text: str) -> str:
        """What of the held and the new text can be shown; the rest is held, or dropped behind a stop string."""
        text = self._held + text
        found = [(text.index(stop) + len(stop), text.index(stop)) for stop in self._stops if stop in text]
        if found:
            # The first to be complete, so that it does not matter how many characters came at once.
            _, cut = min(found)
            self.stopped = True
        else:
            nearest = range(max(0, len(text) - self._longest + 1), len(text))
            cut = next((at for at in nearest if self._may_stop(text[at:])), len(text))
        self._held = "" if found else text[cut:]
        return text[:cut]

    def _may_stop(self, text: str) -> bool:
        return any(stop.startswith(text) for stop in self._stops)


def _evidence(run: bytes) -> slice | None:
    """The bytes that show how a run is to be decoded, whatever follows; None while that is open.

    A wrong byte makes all of its run U+FFFD.  A long run counts as right so far: its last character stands for it.
    """
    try:
        text = run.decode()
    except UnicodeDecodeError as error:
        return None if error.reason == "unexpected end of data" else slice(error.start, error.end + 1)
    return slice(len(run) - len(text[-1].encode()), None) if len(run) >= LONGEST_RUN else None
