"""The trees of some of the sample corpus' English sentences, in Penn Treebank brackets, written by `tools/sample`."""

from pathlib import Path

from manyheads.core.errors import ConfigError
from manyheads.data.readers.corpus import read_lines
from manyheads.data.readers.trees import trees_of
from manyheads.data.trees import Tree

FILE = Path(__file__).with_name("trees.txt.xz")
PARTS = ("train", "valid", "test")


def sample_trees(part: str) -> list[Tree]:
    """The trees of a part, "train", "valid" or "test": those of the sentences with which the corpus' set begins.

    They are the grammar's own, so that no one had to guess, and cleaned. As in the treebank, marks, the genitive's
    ending and the `not` of `cannot` are words of their own; some sentences end without a mark, as in the corpus.
    """
    if part not in PARTS:
        raise ConfigError(f"the sample has no trees for {part!r}; name one of {', '.join(PARTS)}")
    rows = (line.partition("\t") for line in read_lines(FILE))
    return trees_of((brackets for name, _, brackets in rows if name == part), FILE)
