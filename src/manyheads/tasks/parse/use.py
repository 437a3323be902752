"""Parsers: a model directory in, the tree of a sentence out; how that is scored and looked into."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.files import write_result
from manyheads.core.grouping import grouped
from manyheads.data.batches import padded
from manyheads.data.sample_trees import sample_trees
from manyheads.data.trees import Span, Tree, Word, tree_of
from manyheads.models.parser import SpanParser
from manyheads.ops.chart import best_trees, inside_outside
from manyheads.tasks.inside.forward import ForwardPass, one_row, refuse_long, refuse_second
from manyheads.tasks.inside.importance import Measure
from manyheads.tasks.labelled import EncoderPredictor
from manyheads.tasks.metrics import Scores
from manyheads.tasks.parse.data import SPANS_AT_ONCE, Row, rows_of, trees_in
from manyheads.tasks.parse.evalb import ParseScores, by_length, evalb
from manyheads.tasks.parse.recipe import Evaluation
from manyheads.tasks.task import Predictor
from manyheads.tasks.texts import listed
from manyheads.text.encoder import EncoderTokenizer

ASKED = 0.4  # of a constituent's chance to be right; F1 is highest at half of what it then is (Lipton et al. 2014)


def expected_gains(scores: Tensor, words: Tensor) -> Tensor:
    """How likely each label of each span is right among all trees, less what is asked of it; of no label 0.

    The tree with the highest sum of these is the one with the most constituents right that can be expected (Goodman
    1996). The likeliest binary tree has too many: where spans need no label, the chance is shared by several trees.
    """
    _, likely = inside_outside(scores.logsumexp(dim=-1), words)
    gains = likely[..., None] * scores.softmax(dim=-1) - ASKED
    gains[..., 0] = 0
    return gains


def best_spans(scores: Tensor, words: Tensor, names: Sequence[str]) -> list[list[Span]]:
    """The labelled spans of the tree with the highest sum, of scores [batch, fenceposts, fenceposts, 1 + labels]."""
    chosen = best_trees(scores.amax(dim=-1), words)[1]
    labels = scores[chosen].argmax(dim=-1)
    told = torch.cat([chosen.nonzero(), labels[:, None]], dim=1)[labels > 0]
    numbers: list[list[int]] = told.T.cpu().numpy().tolist()  # torch's own lists take far longer
    found: list[list[Span]] = [[] for _ in range(len(scores))]
    for sentence, first, behind, label in zip(*numbers):
        found[sentence].append(Span(first, behind, names[int(label) - 1]))
    return found


class TreePredictor(Predictor):
    """What models that find the tree of a sentence have in common."""

    ranked_by = ("f1",)

    def __call__(self, sentences: Iterable[str | Iterable[str]], **how: Any) -> list[Tree]:
        """The tree of each sentence; many sentences at a time give each what it would get alone.

        A string is split at white space, a list is taken as words; marks of punctuation are words of their own.
        """
        return self._trees([_words_of(sentence) for sentence in listed(sentences, self.what, "sentences")], **how)

    def _trees(self, sentences: list[list[str]], **how: Any) -> list[Tree]:
        """Those of words that are checked."""
        raise NotImplementedError

    def evaluate(self, asked: Evaluation) -> Scores:
        return self.scored(asked)

    def scored(self, asked: Evaluation, **how: Any) -> Scores:
        """Labelled precision, recall and F1 as EVALB counts them, in all and by the length of sentences."""
        gold = _gold(asked)
        found = self._trees([tree.texts for tree in gold], **how)
        if asked.out:
            write_result(Path(asked.out), "".join(f"{tree}\n" for tree in found))
        scores, parts = evalb(gold, found), by_length(gold, found)
        numbers = {**asdict(scores), "by_length": {name: asdict(each) for name, each in parts}}
        return Scores(numbers, _table(scores, parts))

    def measure(self, asked: Evaluation, by: str | None) -> Measure:
        gold = _gold(asked)
        return Measure(
            "F1", self.model, lambda: evalb(gold, self._trees([tree.texts for tree in gold])).f1, more_is_better=True
        )


class Parser(TreePredictor, EncoderPredictor):
    """A parser that is ready to use: the constituents of a sentence and the tags of its words."""

    what = "a parser"
    kinds = (SpanParser,)
    scored_on = Evaluation
    commands = ('parse {model} "The cat danced ."',)

    def __init__(self, model: SpanParser, tokenizer: EncoderTokenizer):
        super().__init__(model, tokenizer)
        self.names, self.tags = model.names, model.tags

    def _trees(self, sentences: list[list[str]]) -> list[Tree]:  # type: ignore[override]
        rows = rows_of(sentences, self.tokenizer)
        for words, row in zip(sentences, rows):
            refuse_long(" ".join(words), row.ids, self.model.config.context)
        found: list[Tree] = [Tree("TOP", ())] * len(rows)
        for places in grouped([len(row.ids) ** 2 for row in rows], SPANS_AT_ONCE):
            for place, (spans, tags) in zip(places, self._told([rows[place] for place in places])):
                leaves = [Word(self.tags[tag], text) for tag, text in zip(tags, sentences[place])]
                found[place] = tree_of(leaves, spans)
        return found

    @torch.inference_mode()
    def _told(self, rows: Sequence[Row]) -> list[tuple[list[Span], list[int]]]:
        """The spans of each sentence, and the number of each word's tag."""
        ids, lengths = padded([row.ids for row in rows])
        before, posts = padded([row.before for row in rows])
        behind, _ = padded([row.behind for row in rows])
        before, behind = before.to(self.device), behind.to(self.device)
        states = self.model.states(ids.to(self.device), lengths.to(self.device))
        scores = self.model.span_scores(states, before, behind).float()
        tags = self.model.tag_scores(states, behind).argmax(dim=-1).tolist()
        lengths = posts.to(self.device) - 1
        return list(zip(best_spans(expected_gains(scores, lengths), lengths, self.names), tags))

    def forward(self, text: str, second: str | None, tokens: int) -> ForwardPass:
        refuse_second(second, "a parser reads one text")
        row = rows_of([text.split()], self.tokenizer)[0]
        refuse_long(text, row.ids, self.model.config.context)
        ids, lengths = one_row(self.model, row.ids), one_row(self.model, [len(row.ids)])[0]
        return ForwardPass((text,), {"self": row.ids}, lambda: self.model.states(ids, lengths))


def _gold(asked: Evaluation) -> list[Tree]:
    return trees_in(asked.trees) if asked.trees else sample_trees("test")


def _words_of(sentence: Any) -> list[str]:
    words = sentence.split() if isinstance(sentence, str) else sentence
    words = list(words) if isinstance(words, Iterable) else [words]
    if not words:
        raise DataError("a sentence has no words; leave it away")
    for word in words:
        if not isinstance(word, str) or not word.strip() or len(word.split()) > 1:
            raise ConfigError(f"{word!r:.60} is given where a parser takes a word; a sentence is a string or words")
    return words


def _table(scores: ParseScores, parts: list[tuple[str, ParseScores]]) -> str:
    heads = ("sentences", "precision", "recall", "F1", "exact", "crossing", "none crossing", "tagging")
    lines = [" " * 20 + "".join(f"{head:>15}" for head in heads)]
    for name, each in [("all", scores), *parts]:
        numbers = (each.precision, each.recall, each.f1, each.exact, each.crossing, each.no_crossing, each.tagging)
        lines.append(f"{name:20}{each.sentences:15,}" + "".join(f"{number:15.2f}" for number in numbers))
    return "\n".join(lines)


PREDICTOR = Parser
