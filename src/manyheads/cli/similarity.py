"""`manyheads embed MODEL [FILE]… > out.npy` and `manyheads similar MODEL [FILE]… --to TEXT`"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from manyheads.cli.flags import Device, Json, holding_model
from manyheads.cli.lines import Files, all_lines, print_json

Model = Annotated[
    Path,
    typer.Argument(
        help="A run directory, a sentence-transformers directory, or any BERT.", metavar="MODEL", callback=holding_model
    ),
]
Pooling = Annotated[
    str | None, typer.Option(help="mean, cls or max, for a BERT that does not say itself; none: mean.", metavar="NAME")
]


def embed(
    model: Model,
    files: Files = None,
    out: Annotated[Path | None, typer.Option(help="Write here in place of standard output.", metavar="FILE")] = None,
    pooling: Pooling = None,
    device: Device = "auto",
) -> None:
    """Give each line of files or of standard input a vector: a .npy file on standard output, float32, a row a line."""
    from manyheads.core.errors import ConfigError
    from manyheads.core.files import refuse_unwritable

    if out is not None:
        refuse_unwritable(out)
    elif sys.stdout.isatty():
        raise ConfigError("vectors are no text for a terminal; end the line with > vectors.npy, or give --out")
    from numpy.lib.format import write_array_header_1_0

    from manyheads.core.log import counting, warn
    from manyheads.tasks.similarity.use import Embedder

    embedder = Embedder.load(model, device=device, pooling=pooling)
    # How many rows there are stands before the first of them.
    lines = all_lines(files)
    with _opened(out) as file, counting("embedding lines") as show:
        shape = (len(lines), embedder.width)
        write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        done = 0
        for vectors in embedder.in_chunks(lines):
            file.write(vectors.astype("<f4", copy=False).tobytes())
            done += len(vectors)
            show(done)
    empty = sum(not line.strip() for line in lines)
    if empty:
        warn(f"lines that are empty, with the vector of an empty text: {empty:,}")


@contextmanager
def _opened(out: Path | None) -> Iterator[BinaryIO]:
    """Standard output as bytes, or a file that is there only when it is whole."""
    from manyheads.core.files import written_atomically

    if out is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with written_atomically(out) as file:
        yield file


def similar(
    model: Model,
    to: Annotated[str, typer.Option(help="The text that others are compared with.", metavar="TEXT")],
    files: Files = None,
    top: Annotated[int, typer.Option(help="How many are printed.")] = 10,
    pooling: Pooling = None,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Print the lines of files or of standard input most similar to a text: cosine, tab and line, the best first."""
    from manyheads.core.errors import ConfigError

    if not to.strip():
        raise ConfigError("--to is empty; give the text that the lines are compared with")
    if top < 1:
        raise ConfigError(f"--top is {top}; it must be at least 1")
    from manyheads.core.log import counting, warn
    from manyheads.tasks.similarity.use import Embedder

    embedder = Embedder.load(model, device=device, pooling=pooling)
    read = all_lines(files)
    texts = [line for line in read if line.strip()]
    with counting("comparing lines") as show:
        found = embedder.nearest(to, texts, top, show=show)
    for cosine, place in found:
        if as_json:
            print_json({"cosine": cosine, "text": texts[place]})
        else:
            print(f"{cosine:.4f}\t{texts[place]}")
    if len(texts) < len(read):
        warn(f"lines that are empty and left out: {len(read) - len(texts):,}")
