"""`manyheads neighbours MODEL cat`, `manyheads analogy MODEL man king woman`, `manyheads export-vectors MODEL`"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.cli.flags import Device, Json, holding_vectors
from manyheads.cli.lines import print_json, refuse_other_text

Vectors = Annotated[
    Path,
    typer.Argument(
        help="A run or model directory of word vectors, or a file of word2vec or GloVe, plain, .gz or .xz.",
        metavar="MODEL",
        callback=holding_vectors,
    ),
]
Word = Annotated[str, typer.Argument(help="A word.", metavar="WORD")]
Count = Annotated[int, typer.Option(help="How many words to print.", min=1)]


def neighbours(model: Vectors, word: Word, count: Count = 10, as_json: Json = False, device: Device = "auto") -> None:
    """Print the words nearest to a word: cosine, tab and word, the nearest first."""
    _print(model, device, as_json, "neighbours", (word,), count)


def analogy(
    model: Vectors,
    first: Annotated[str, typer.Argument(help="As this word …", metavar="FIRST")],
    second: Annotated[str, typer.Argument(help="… is to this one, so …", metavar="SECOND")],
    third: Annotated[str, typer.Argument(help="… is this one to what is printed.", metavar="THIRD")],
    count: Count = 10,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Print what is to a third word as a second is to a first: man king woman, words nearest to king − man + woman."""
    _print(model, device, as_json, "analogy", (first, second, third), count)


def export_vectors(
    model: Vectors,
    out: Annotated[
        Path,
        typer.Option(
            help="word2vec's format: text as .txt or .vec, binary as .bin.", metavar="FILE", show_default=False
        ),
    ],
    glove: Annotated[
        bool, typer.Option("--glove", help="GloVe's text in place of word2vec's, without a header.")
    ] = False,
) -> None:
    """Write word vectors as a file that gensim and others open; of a file, the same in another format."""
    from manyheads.core.files import refuse_unwritable
    from manyheads.data.readers.vectors import ENDINGS, write_vectors

    refuse_unwritable(out, *ENDINGS)
    from manyheads.core.log import say
    from manyheads.tasks.vectors.use import WordVectors

    found = WordVectors.load(model, device="cpu")
    write_vectors(out, found.words, found.vectors.numpy(), glove=glove)
    say(f"{out} is written: {len(found):,} words of {found.vectors.shape[1]} numbers")


def _print(model: Path, device: str, as_json: bool, asked: str, words: tuple[str, ...], count: int) -> None:
    for word in words:
        refuse_other_text(word)
    from manyheads.tasks.vectors.use import WordVectors

    vectors: Any = WordVectors.load(model, device=device)
    for each in getattr(vectors, asked)(*words, count):
        print_json(asdict(each)) if as_json else print(f"{each.cosine:.4f}\t{each.word}")
