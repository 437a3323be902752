"""Trees as rows of ids, as Vinyals et al. (2015) wrote them, with tags for words: `⟨S ⟨NP ⟨DT⟩ ⟨NN⟩ ⟩ ⟨VP … ⟩ ⟩`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from manyheads.data.trees import CLOSING, OPENS_WITH, TOP, Tree, Word, steps
from manyheads.generate.trees import CLOSES, ENDS, OPENS, OTHER, WORD
from manyheads.tasks.parse.data import text_of
from manyheads.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Symbols:
    """The ids of what a tree is written in; a text has none of them."""

    opening: dict[str, int]
    """By the label of the constituent."""
    tags: dict[str, int]
    """What stands for a word with this tag."""
    closing: int
    end: int

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self | None:
        """Those of a tokenizer, or None where it has none."""
        names = tokenizer.symbols()
        if CLOSING not in names:
            return None
        tags = {name[1:-1]: number for name, number in names.items() if name[:1] == OPENS_WITH and name[-1:] == CLOSING}
        opening = {name[1:]: number for name, number in names.items() if name[:1] == OPENS_WITH}
        opening = {name: number for name, number in opening.items() if number not in tags.values()}
        return cls(opening, tags, names[CLOSING], tokenizer.end)

    def does(self, vocabulary: int) -> Tensor:
        """[vocabulary]: what each id does to a tree."""
        found = torch.full((vocabulary,), OTHER)
        found[[*self.opening.values()]], found[[*self.tags.values()]] = OPENS, WORD
        found[self.closing], found[self.end] = CLOSES, ENDS
        return found

    def row(self, tree: Tree) -> list[int]:
        """A tree below its root, and the end; a label that is not known is left out, a tag taken for another one."""
        usual, row = next(iter(self.tags.values())), []
        for node, entering in list(steps(tree))[1:-1]:
            if isinstance(node, Word):
                row.append(self.tags.get(node.tag, usual))
            elif node.label in self.opening:
                row.append(self.opening[node.label] if entering else self.closing)
        return [*row, self.end]

    def tree(self, row: Iterable[int], words: Iterable[str]) -> Tree:
        """The reverse, of what TreeSteps let through."""
        labels = {number: label for label, number in self.opening.items()}
        tags = {number: tag for tag, number in self.tags.items()}
        unfinished: list[tuple[str, list[Tree | Word]]] = [(TOP, [])]
        left = iter(words)
        for each in row:
            if each in labels:
                unfinished.append((labels[each], []))
            elif each in tags:
                unfinished[-1][1].append(Word(tags[each], next(left)))
            else:
                label, children = unfinished.pop()
                unfinished[-1][1].append(Tree(label, tuple(children)))
        return Tree(TOP, tuple(unfinished[0][1]))


def train_tokenizer(trees: Sequence[Tree], vocabulary: int) -> Tokenizer:
    """Byte-level BPE of the sentences, and a token for each bracket with its label and each tag."""
    nodes = [node for tree in trees for node, entering in steps(tree) if entering]
    tags = sorted({f"{OPENS_WITH}{node.tag}{CLOSING}" for node in nodes if isinstance(node, Word)})
    labels = sorted({OPENS_WITH + node.label for node in nodes if isinstance(node, Tree)} - {OPENS_WITH + TOP})
    texts = (text_of(tree.texts) for tree in trees)
    return Tokenizer.train(texts, vocabulary, symbols=[CLOSING, *labels, *tags])
