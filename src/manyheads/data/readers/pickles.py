"""Pickles of plain values and arrays, as CIFAR's "python version" has them, read without running what they name."""

import mmap
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.core.errors import DataError
from manyheads.data.readers.pixels import reason_of

PROTOCOL, STOP = b"\x80", b"."
CONSTANTS = {b"N": None, b"\x88": True, b"\x89": False}
EMPTY: dict[bytes, Callable[[], Any]] = {b"}": dict, b"]": list, b")": tuple}
NUMBERS = {b"K": "<B", b"M": "<H", b"J": "<i", b"G": ">d"}
BYTES = {b"U": "<B", b"T": "<i", b"C": "<B", b"B": "<I", b"\x8e": "<Q", b"\x96": "<Q"}  # and how their length is told
TEXTS = {b"\x8c": "<B", b"X": "<I", b"\x8d": "<Q"}
TUPLES = {b"\x85": 1, b"\x86": 2, b"\x87": 3}
KEPT, GIVEN_AGAIN = {b"q": "<B", b"r": "<I"}, {b"h": "<B", b"j": "<I"}
LARGE = 2**16  # bytes, from which on they stay in the file
KIND = re.compile(r"[biuf][1248]|[SU]\d+")
DAMAGED = (EOFError, IndexError, KeyError, ValueError, TypeError, AttributeError, struct.error, OverflowError)


class Refused(Exception):  # noqa: N818 it says what is the matter
    """What a pickle holds beside plain values and arrays."""


class Kind:
    """A type of numbers, which a pickle makes in two steps."""

    def __init__(self, code: Any, *_: Any):
        if not KIND.fullmatch(_text(code)):
            raise Refused(f"an array of the type {_text(code)!r}")
        self.dtype = np.dtype(_text(code))

    def build(self, state: tuple[Any, ...]) -> None:
        self.dtype = self.dtype.newbyteorder(_text(state[1]))  # type: ignore


class Array:
    """An array, likewise."""

    array = np.empty(0)

    def __init__(self, *_: Any):
        pass

    def build(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, columns_first, content = state
        self.array = np.frombuffer(content, kind.dtype).reshape(shape, order="F" if columns_first else "C")


def _array_of(content: Any, kind: Kind, shape: tuple[int, ...], order: str) -> Array:
    made = Array()
    made.build((1, shape, kind, order == "F", content))
    return made


# All that a pickle may name, and what is done instead of calling it.
INERT: dict[str, Callable[..., Any]] = {
    "numpy ndarray": Array,
    "numpy dtype": Kind,
    "numpy.core.multiarray _reconstruct": Array,
    "numpy.core.numeric _frombuffer": _array_of,
    "numpy.core.multiarray scalar": lambda kind, content: np.frombuffer(content, kind.dtype)[0].item(),
    "_codecs encode": lambda text, code: text.encode({"latin1": "latin-1"}[_text(code)]),  # bytes, as for Python 2
}


def read_pickle(path: Path) -> dict[str, Any]:
    """The table in a file: numbers, texts, lists of them, and arrays, whose numbers stay in the file until asked for.

    A pickle is a program for a machine with a stack.  This one knows the instructions of protocols 2 to 5 by which such
    tables are made; a pickle that names anything else, which another machine would import and call, is refused.
    """
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise DataError(f"{path} cannot be read: {reason_of(error)}; copy it again") from error
    if data[:1] != PROTOCOL:
        raise DataError(f"{path} is no pickle of protocol 2 or higher; copy it again, or write an .npz instead")
    try:
        found = _Machine(memoryview(data)).run()
        if not isinstance(found, dict):
            raise Refused("no table")
        return {name: _plain(value) for name, value in found.items()}
    except Refused as held:
        raise DataError(
            f"{path} is a pickle that holds {held}; only tables of numbers, texts, lists and arrays are read, since "
            "others could run code; write an .npz instead"
        ) from None
    except DAMAGED as error:
        raise DataError(
            f"{path} is a pickle that is damaged or cut off ({type(error).__name__}: {error}); copy it again"
        ) from error


class _Machine:
    def __init__(self, data: memoryview):
        self._data, self._place = data, 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        while (code := bytes(self.taken(1))) != STOP:
            self.step(code)
        return self.stack.pop()

    def step(self, code: bytes) -> None:
        if code in NUMBERS:
            self.stack.append(self.number(NUMBERS[code]))
        elif code in BYTES:
            self.stack.append(self.bytes(self.number(BYTES[code])))
        elif code in TEXTS:
            self.stack.append(str(self.taken(self.number(TEXTS[code])), "utf-8", "surrogatepass"))
        elif code in CONSTANTS:
            self.stack.append(CONSTANTS[code])
        elif code in EMPTY:
            self.stack.append(EMPTY[code]())
        elif code in TUPLES:
            self.stack.append(tuple(self.popped(TUPLES[code])))
        elif code in KEPT:
            self.memo[self.number(KEPT[code])] = self.stack[-1]
        elif code in GIVEN_AGAIN:
            self.stack.append(self.memo[self.number(GIVEN_AGAIN[code])])
        elif code in OTHERS:
            OTHERS[code](self)
        else:
            raise Refused(f"the instruction {code!r}")

    # What is read from the file

    def taken(self, count: int) -> memoryview:
        piece = self._data[self._place : self._place + count]
        if len(piece) != count:
            raise EOFError(f"{count:,} bytes from {self._place:,} on, where there are {len(self._data):,}")
        self._place += count
        return piece

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.taken(struct.calcsize(form)))[0]

    def bytes(self, count: int) -> bytes | memoryview:
        piece = self.taken(count)
        return piece if count >= LARGE else bytes(piece)

    def long(self) -> int:
        return int.from_bytes(self.taken(self.number("<B")), "little", signed=True)

    def line(self) -> str:
        start = self._place
        while self.taken(1) != b"\n":
            pass
        return str(self._data[start : self._place - 1], "utf-8")

    # What takes from the stack

    def popped(self, count: int) -> list[Any]:
        start = len(self.stack) - count
        if start < max([0, *self.marks[-1:]]):
            raise IndexError("a value is missing")
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def marked(self) -> list[Any]:
        return self.popped(len(self.stack) - self.marks.pop())

    def update(self, values: list[Any]) -> None:
        # Python would look into a tuple in a tuple in a tuple without end, and fall over.
        self.stack[-1].update(zip(map(_text, values[::2]), values[1::2], strict=True))

    def name(self, module: Any, name: Any) -> None:
        module, name = _text(module), _text(name)
        known = f"{module.replace('numpy._core', 'numpy.core')} {name}"
        if known not in INERT:
            raise Refused(f"what is called {f'{module}.{name}'!r}")
        self.stack.append(INERT[known])

    def call(self, function: Any, values: Any) -> None:
        if function not in INERT.values():
            raise TypeError("a value is called")
        self.stack.append(function(*values))


OTHERS: dict[bytes, Callable[[_Machine], Any]] = {
    PROTOCOL: lambda machine: machine.taken(1),
    b"\x95": lambda machine: machine.taken(8),  # how long the part is that begins here
    b"\x94": lambda machine: machine.memo.update({len(machine.memo): machine.stack[-1]}),
    b"\x8a": lambda machine: machine.stack.append(machine.long()),
    b"(": lambda machine: machine.marks.append(len(machine.stack)),
    b"t": lambda machine: machine.stack.append(tuple(machine.marked())),
    b"a": lambda machine: machine.stack[-2].extend(machine.popped(1)),
    b"e": lambda machine: machine.stack[machine.marks[-1] - 1].extend(machine.marked()),
    b"s": lambda machine: machine.update(machine.popped(2)),
    b"u": lambda machine: machine.update(machine.marked()),
    b"c": lambda machine: machine.name(machine.line(), machine.line()),
    b"\x93": lambda machine: machine.name(*machine.popped(2)),
    b"R": lambda machine: machine.call(*machine.popped(2)),
    b"b": lambda machine: machine.stack[-2].build(*machine.popped(1)),
}


def _text(value: Any) -> str:
    """A text, of which Python 2 made bytes."""
    if not isinstance(value, str | bytes | memoryview):
        raise TypeError("no text")
    return value if isinstance(value, str) else str(value, "latin-1")


def _plain(value: Any) -> Any:
    if isinstance(value, Array):
        return value.array
    if isinstance(value, list):
        return [_text(each) if isinstance(each, bytes | memoryview) else each for each in value]
    return _text(value) if isinstance(value, bytes | memoryview) else value
