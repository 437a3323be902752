"""The data of a parser: sentences as rows of ids, with fenceposts between their words, and spans with labels."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import lgamma
from pathlib import Path
from typing import Any

import numpy as np
import torch

from manyheads.core.errors import DataError
from manyheads.core.log import say, warn
from manyheads.core.words import counted
from manyheads.data.batches import Batch, Batches, by_count, padded, shuffling
from manyheads.data.examples import NOTHING
from manyheads.data.ragged import Ragged, Store
from manyheads.data.readers.trees import read_trees
from manyheads.data.sample_trees import sample_trees
from manyheads.data.trees import Tree, spans, steps, tree_of
from manyheads.tasks.labelled import Split, split
from manyheads.tasks.parse.recipe import ParseData
from manyheads.text.encoder import EncoderTokenizer

SPANS_AT_ONCE = 100_000  # whose scores are in memory together
WRITTEN = {
    "-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]", "``": '"', "''": '"',
}  # fmt: skip
"""How treebanks spell what has another meaning in their files, or once had no key."""


def as_written(word: str) -> str:
    """A treebank's word as everybody else writes it."""
    return WRITTEN.get(word, word.replace("\\/", "/").replace("\\*", "*"))


def read_all(data: ParseData, seed: int = 1) -> Split[Tree]:
    """Reads every tree; a label or tag that only validation has could never be told, which is said."""
    if data.trees:
        train, valid = trees_in(data.trees), trees_in(data.valid)
        train, valid = (train, valid) if valid else split(train, "trees", seed)
    else:
        train, valid = sample_trees("train"), sample_trees("valid")
    labels = Counter(span.label for tree in train for span in spans(tree))
    tags = {word.tag for tree in train for word in tree.words}
    if not labels:
        raise DataError(f"{', '.join(data.trees)}: no tree has a constituent below its root; check the files")
    only = {
        "labels": {span.label for tree in valid for span in spans(tree)} - labels.keys(),
        "tags": {word.tag for tree in valid for word in tree.words} - tags,
    }
    for what, names in only.items():
        if names:
            say(f"{what} that only validation has, which are never told: {', '.join(sorted(names))}")
    # Those that are not told come last, so that truth can be spelt with them.
    return Split(
        train,
        valid,
        {
            "names": [name for name, _ in labels.most_common()],
            "tags": sorted(tags),
            "names, valid": sorted(only["labels"]),
            "tags, valid": sorted(only["tags"]),
        },
    )


def trees_in(files: Iterable[str]) -> list[Tree]:
    """The trees of all files."""
    return [each.tree for name in files for each in read_trees(Path(name))]


@dataclass(frozen=True)
class Row:
    """A sentence as a model reads it."""

    ids: list[int]
    """[CLS] pieces [SEP]."""
    before: list[int]
    """Where the last piece before each fencepost stands."""
    behind: list[int]
    """Where the first piece behind it stands."""


def rows_of(sentences: Sequence[Sequence[str]], tokenizer: EncoderTokenizer) -> list[Row]:
    """The rows of sentences of words."""
    found = []
    for pieces in tokenizer.encode_words([[as_written(word) for word in words] for words in sentences]):
        ends = np.cumsum([0, *map(len, pieces)]).tolist()  # of words; [CLS] is before them
        ids = tokenizer.wrapped([each for word in pieces for each in word])
        found.append(Row(ids, ends, [end + 1 for end in ends]))
    return found


def store_trees(found: Split[Tree], tokenizer: EncoderTokenizer, context: int, directory: Path) -> None:
    """Lays the sentences down that the model can read; others are counted."""
    train, valid = ([*_fitting(trees, tokenizer, context)] for trees in (found.train, found.valid))
    Split(train, valid, found.about).save(directory, lambda fitting: _store(fitting, found.about))
    labels, tags = (counted(len(found.about[each]), what) for each, what in (("names", "label"), ("tags", "tag")))
    count = counted(len(train), "tree")
    say(f"{count} to learn from, {len(valid):,} to validate on, {labels} of spans, {tags} of words")
    if long := len(found.train) + len(found.valid) - len(train) - len(valid):
        warn(f"{counted(long, 'sentence')} of more than {context:,} tokens, the model's context, left out")


def _fitting(trees: list[Tree], tokenizer: EncoderTokenizer, context: int) -> list[tuple[Tree, Row]]:
    """The trees whose sentences the model can read, each with its row."""
    rows = rows_of([tree.texts for tree in trees], tokenizer)
    found = [(tree, row) for tree, row in zip(trees, rows) if len(row.ids) <= context]
    if not found:
        raise DataError(f"every sentence has more than {context:,} tokens, the model's context; use a longer one")
    return found


def _store(fitting: list[tuple[Tree, Row]], about: dict[str, Any]) -> Store:
    names, tags = (about[each] + about[f"{each}, valid"] for each in ("names", "tags"))
    labels = {name: number for number, name in enumerate(names, start=1)}
    trees, rows = zip(*fitting)
    columns = {
        **{name: Ragged.of([getattr(row, name) for row in rows]) for name in ("ids", "before", "behind")},
        "tags": Ragged.of([[tags.index(word.tag) for word in tree.words] for tree in trees]),
        "spans": Ragged.of([_numbers(tree, labels) for tree in trees]),
        "ways": np.array([log_ways(_known(tree, about["names"])) for tree in trees], dtype=np.float32),
    }
    return Store(columns)


def log_ways(tree: Tree) -> float:
    """The logarithm of how many binary trees have this tree's constituents, and others without a label: with c parts
    there are as many ways to take two at a time as Catalan's number of c - 1."""
    parts = [len(node.children) for node, entering in steps(tree) if entering and isinstance(node, Tree)]
    return sum(lgamma(2 * count - 1) - lgamma(count + 1) - lgamma(count) for count in parts)


def _known(tree: Tree, names: list[str]) -> Tree:
    """The tree with no other labels than these."""
    found = spans(tree)
    kept = [span for span in found if span.label in names]
    return tree if len(kept) == len(found) else tree_of(tree.words, kept)


def _numbers(tree: Tree, label_numbers: dict[str, int]) -> list[int]:
    """First, behind and label of each span, end to end."""
    return [number for span in spans(tree) for number in (span.first, span.behind, label_numbers[span.label])]


def tree_batches(store: Store, *, size: int, seed: int, shuffle: bool = True) -> Batches:
    """Batches of `size` sentences of about one length, fewer where they are long, with the labels of all spans,
    [B, I, I], 0 for none; a label or tag that is never told counts as none."""
    labels_told, tags_told = len(store.about["names"]), len(store.about["tags"])

    def collate(numbers: np.ndarray) -> Batch:
        rows = [store["spans"][number].reshape(-1, 3) for number in numbers]
        tags, words = padded([store["tags"][number] for number in numbers], NOTHING)
        posts = int(words.max()) + 1
        labels = torch.zeros(len(numbers), posts, posts, dtype=torch.int64)
        for place, each in enumerate(rows):
            first, behind, label = torch.from_numpy(each.astype(np.int64)).T
            labels[place, first, behind] = label.where(label <= labels_told, 0)
        columns = {name: [store[name][number] for number in numbers] for name in ("ids", "before", "behind")}
        ids, lengths = padded(columns["ids"])
        return Batch(
            int(words.sum()),
            ids=ids,
            lengths=lengths,
            before=padded(columns["before"])[0],
            behind=padded(columns["behind"])[0],
            labels=labels,
            tags=tags.where(tags < tags_told, NOTHING),
            words=words,
            ways=torch.from_numpy(store["ways"][numbers]),
        )

    def plan(epoch: int) -> list[np.ndarray]:
        groups = by_count(store["tags"].lengths, size, shuffling(seed, epoch, shuffle))
        return [part for group in groups for part in _in_parts(group, store["before"].lengths)]

    return Batches(plan, collate)


def _in_parts(group: np.ndarray, posts: np.ndarray) -> list[np.ndarray]:
    """A batch in parts that have so many spans at most, which are in memory together."""
    most = max(SPANS_AT_ONCE // int(posts[group].max()) ** 2, 1)
    return [group[first : first + most] for first in range(0, len(group), most)]


def text_of(words: Sequence[str]) -> str:
    """A sentence as its words are usually written, with spaces between."""
    return " ".join(map(as_written, words))
