"""Parsers that write trees: a model directory in, the tree of a sentence out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from manyheads.core.errors import CheckpointError
from manyheads.core.grouping import grouped
from manyheads.data.batches import padded
from manyheads.data.trees import Tree
from manyheads.generate.beam import refuse_search, refuse_wide, search
from manyheads.generate.steps import SpecialIds, refuse_many_rows
from manyheads.generate.trees import TreeSteps
from manyheads.interop.directory import find_model
from manyheads.models.transformer import Transformer
from manyheads.tasks.brackets.data import Symbols
from manyheads.tasks.brackets.recipe import Evaluation
from manyheads.tasks.inside.forward import ForwardPass, one_row, refuse_second
from manyheads.tasks.metrics import Scores
from manyheads.tasks.parse.data import text_of
from manyheads.tasks.parse.use import TreePredictor
from manyheads.tasks.proofs.selfcheck import Finding, same_logits, same_translations
from manyheads.tasks.translate.use import decode_all, writes_trees
from manyheads.text.tokenizer import Tokenizer

BEAM, ALPHA = 4, 0.6
CELLS_AT_ONCE = 8000  # ids of trees that are written together


def limit_of(words: int) -> int:
    """The most ids of a tree over so many words: in the Penn Treebank the mean is 2.6 a word."""
    return 5 * words + 20


@torch.inference_mode()
def written_trees(
    model: Transformer,
    symbols: Symbols,
    rows: Sequence[list[int]],
    words: Sequence[Sequence[str]],
    *,
    beam: int = BEAM,
    alpha: float = ALPHA,
) -> list[Tree]:
    """The best tree of each sentence, given as ids and as words."""
    refuse_search(beam, alpha)
    refuse_wide(beam)
    device, config = next(model.parameters()).device, model.config
    does, special = symbols.does(config.vocabulary), SpecialIds(stop_ids=(config.end,), banned=(config.pad,))
    limits = [limit_of(len(each)) for each in words]
    refuse_many_rows(model, beam, max(limits, default=0), beam)
    found: list[Tree] = [Tree("TOP", ())] * len(rows)
    for places in grouped([beam * limit for limit in limits], CELLS_AT_ONCE, longest_first=True):
        source, _ = padded([rows[place] for place in places], config.pad)
        memory, mask = model.encode(source.to(device))
        limits_N, words_N = (torch.tensor([each[place] for place in places]) for each in (limits, [*map(len, words)]))
        steps = TreeSteps(model, memory, mask, beam, does_V=does, words_N=words_N, limits_N=limits_N)
        for place, beams in zip(places, search(steps, limits_N, special, beams=beam, alpha=alpha, scored=False)):
            found[place] = symbols.tree(beams[0].ids, words[place])
    return found


class BracketParser(TreePredictor):
    """A Transformer that parses by writing trees, ready to use: every output is a tree over exactly the words."""

    what = "a parser that writes trees"
    kinds = (Transformer,)
    scored_on = Evaluation
    commands = ('parse {model} "The cat danced ."',)

    @classmethod
    def opens(cls, path: Path) -> bool:
        return writes_trees(Tokenizer.load(find_model(path)))

    def __init__(self, model: Transformer, tokenizer: Tokenizer):
        super().__init__(model, tokenizer)
        symbols = Symbols.of(tokenizer)
        if symbols is None:
            raise CheckpointError("this is a translator, whose tokenizer has no brackets of trees; train one with "
                                  "manyheads train brackets")  # fmt: skip
        self.symbols = symbols

    def evaluate(self, asked: Evaluation) -> Scores:  # type: ignore[override]
        return self.scored(asked, beam=asked.beam, alpha=asked.alpha)

    def _trees(self, sentences: list[list[str]], **how: Any) -> list[Tree]:
        rows = self.tokenizer.encode([text_of(words) for words in sentences])
        return written_trees(self.model, self.symbols, rows, sentences, **how)

    def forward(self, text: str, second: str | None, tokens: int) -> ForwardPass:
        refuse_second(second, "a parser reads one text")
        (row,), words = self.tokenizer.encode([text_of(text.split())]), text.split()
        tree = written_trees(self.model, self.symbols, [row], [words])[0]
        written = self.symbols.row(tree)
        before = [self.model.config.start, *written[:-1]]
        ids = {"encoder": row, "decoder": before}

        def run() -> torch.Tensor:
            return self.model(one_row(self.model, row), one_row(self.model, before))

        return ForwardPass((text,), ids, run, written, str(tree))

    def selfcheck(self, sentences: int, beam: int) -> list[Finding]:
        return [*same_logits(self.model), *same_translations(self.model, decode_all, sentences, beam)]


PREDICTOR = BracketParser
