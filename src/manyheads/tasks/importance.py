"""How much each head matters: what is lost without it (Michel et al. 2019; Voita et al. 2019)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from manyheads.core.errors import ConfigError
from manyheads.core.log import counting
from manyheads.data.pairs import pair_batches, pair_store
from manyheads.data.readers.corpus import read_pairs
from manyheads.data.readers.documents import find_texts, read_documents
from manyheads.data.readers.questions import read_questions
from manyheads.interop.directory import kind_of
from manyheads.look.grid import Grid, shades_of
from manyheads.look.heads import heads_off
from manyheads.look.parts import attentions
from manyheads.models.bert import BertAnswerer, BertClassifier, BertTagger, MaskedBert
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT
from manyheads.models.llama import Llama
from manyheads.models.transformer import Transformer
from manyheads.tasks.answer import Answerer, score_questions
from manyheads.tasks.answer_data import asked_in
from manyheads.tasks.classify import Classifier
from manyheads.tasks.evaluation import examples_in, labelled, scored_pairs, tagged
from manyheads.tasks.language import LanguageModel
from manyheads.tasks.language_evaluation import score_text
from manyheads.tasks.masked import Filler, score_masked
from manyheads.tasks.similarity import Embedder, score_pairs
from manyheads.tasks.tag import Tagger, score_tags
from manyheads.tasks.translate import Translator, score
from manyheads.train.objectives import translation_loss

TOKENS_AT_ONCE = 4000


@dataclass(frozen=True)
class HeadImportance:
    """One head, the score of the model without it, and how much worse that is."""

    kind: str
    layer: int
    head: int
    score: float
    lost: float

    @property
    def name(self) -> str:
        """How the head is written: 0.3, or cross.0.3 of a translator."""
        return f"{self.layer}.{self.head}" if self.kind == "self" else f"{self.kind}.{self.layer}.{self.head}"


@dataclass(frozen=True)
class Measure:
    """A score of a model, as it stands, on the same data each time."""

    name: str
    network: nn.Module
    score: Callable[[], float]
    more_is_better: bool = False


@dataclass(frozen=True)
class Importance:
    """The heads of a model, the one most missed first."""

    measure: str
    whole: float
    """The score with all heads."""
    heads: list[HeadImportance]

    def table(self) -> Grid:
        """The same to be shown."""
        rows = [head.name for head in self.heads]
        cells = [[f"{head.score:.4f}", f"{head.lost:+.4f}"] for head in self.heads]
        shades = shades_of(np.array([[0.0, head.lost] for head in self.heads]))
        note = f"{self.measure} with all heads: {self.whole:.4f}"
        columns = [f"{self.measure} without it", "lost"]
        return Grid("What each head is worth", cells, rows, columns, shades, note=note)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def rank_heads(measure: Measure) -> Importance:
    """Switches off one head after the other, and says what each is worth."""
    with counting("heads switched off, one at a time") as show:
        whole, found = measure.score(), []
        if not math.isfinite(whole):
            raise ConfigError(f"the model's {measure.name} is {whole} with all its heads; there is nothing to lose")
        for part in attentions(measure.network):
            for head in part.module.numbers:
                where = (part.layer, head) if part.kind == "self" else (part.kind, part.layer, head)
                with heads_off(measure.network, {where}):
                    without = measure.score()
                lost = whole - without if measure.more_is_better else without - whole
                found.append(HeadImportance(part.kind, part.layer, head, without, lost))
                show(len(found))
    return Importance(measure.name, whole, sorted(found, key=lambda each: -each.lost))


def measure_of(
    model: Path,
    *,
    by: str | None = None,
    sources: Sequence[Path] = (),
    targets: Sequence[Path] = (),
    pairs: Sequence[Path] = (),
    texts: Sequence[str] = (),
    data: Sequence[Path] = (),
    device: str = "auto",
) -> Measure:
    """What a model is scored by: a translator by its loss or BLEU, a language model by its loss, others as evaluated.

    Without any data, a translator's run directory is scored on its own validation set.
    """
    kind = kind_of(model)
    _refuse_others(kind, {"--source": sources, "--target": targets, "--pairs": pairs, "--text": texts, "--data": data})
    if by not in (None, "loss", "bleu") or (by == "bleu" and kind is not Transformer):
        raise ConfigError(f"heads are not ranked by {by}; a translator's are by loss or bleu, others' have one score")
    if kind is Transformer:
        own = [model / "valid.jsonl"] if not (sources or pairs) and (model / "valid.jsonl").is_file() else pairs
        found = list(read_pairs(sources=sources, targets=targets, pairs=own, fields=None))
        if not found:
            raise ConfigError("there is nothing to rank heads on; give --source and --target, or --pairs")
        return _translations(Translator.load(model, device=device), found, by or "loss")
    if kind in (MaskedBert, GPT, Llama):
        if not texts:
            raise ConfigError("there is nothing to rank heads on; give --text")
        return _texts(model, kind, texts, device)
    if not data:
        raise ConfigError("there is nothing to rank heads on; give --data, a file as the model is trained on")
    return _examples(model, kind, data, device)


def _refuse_others(kind: type, given: dict[str, Sequence[Any]]) -> None:
    """Data that this model is not scored on is refused."""
    taken = "--source and --target, or --pairs" if kind is Transformer else "--data"
    taken = "--text" if kind in (MaskedBert, GPT, Llama) else taken
    for name, value in given.items():
        if value and name not in taken:
            raise ConfigError(f"this model's heads are not ranked on {name}; give {taken}")


def _translations(translator: Translator, pairs: list[tuple[str, str]], by: str) -> Measure:
    model, tokenizer = translator.model, translator.tokenizer
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    if by == "bleu":
        score_of = lambda: score(translator.translate(sources, beam=1), targets).bleu  # noqa: E731
        return Measure("BLEU", model, score_of, more_is_better=True)
    store = pair_store(tokenizer.encode(sources), tokenizer.encode(targets))
    batches = pair_batches(store, tokens=TOKENS_AT_ONCE, pad=tokenizer.pad, seed=0, shuffle=False)
    device = next(model.parameters()).device

    @torch.inference_mode()
    def loss() -> float:
        losses = [translation_loss(model, batch.to(device)) for batch in batches.epoch(0)]
        return sum(float(each.likelihood) for each in losses) / sum(each.tokens for each in losses)

    return Measure("loss", model, loss)


def _texts(model: Path, kind: type, names: Sequence[str], device: str) -> Measure:
    paths = find_texts(names)
    if kind is MaskedBert:
        filler = Filler.load(model, device=device)
        return Measure("loss", filler.model, lambda: score_masked(filler, names)["loss"])
    language = LanguageModel.load(model, device=device, precision="float32")

    documents = list(read_documents(paths, None))

    def loss() -> float:
        scores = score_text(language, documents)
        return scores.nats / scores.tokens

    return Measure("loss", language.model, loss)


def _examples(model: Path, kind: type, files: Sequence[Path], device: str) -> Measure:
    if kind in (BertClassifier, DecoderClassifier):
        return _labels(Classifier.load(model, device=device), files)
    if kind is BertTagger:
        tagger = Tagger.load(model, device=device)
        sentences = tagged(tagger, files)
        accuracy = lambda: 100 * score_tags(tagger, sentences).accuracy  # noqa: E731
        return Measure("accuracy", tagger.model, accuracy, more_is_better=True)
    if kind is BertAnswerer:
        answerer = Answerer.load(model, device=device)
        questions = [question for path in files for question in asked_in(read_questions(path))]
        return Measure("F1", answerer.model, lambda: score_questions(answerer, questions).f1, more_is_better=True)
    embedder, pairs = Embedder.load(model, device=device), scored_pairs([examples_in(path) for path in files])
    spearman = lambda: 100 * score_pairs(embedder, *pairs).spearman  # noqa: E731
    return Measure("Spearman", embedder.model, spearman, more_is_better=True)


def _labels(classifier: Classifier, files: Sequence[Path]) -> Measure:
    """The loss of a classifier: of labels their negative log-likelihood, of numbers the squared error."""
    inputs, truth = labelled(classifier, [examples_in(path) for path in files])

    def loss() -> float:
        if classifier.numbers:
            return float(((classifier.scores(inputs)[:, 0].numpy() - np.array(truth)) ** 2).mean())
        right = classifier.probabilities(inputs)[torch.arange(len(truth)), torch.tensor(truth)]
        return float(-right.clamp(min=1e-12).log().mean())

    return Measure("loss", classifier.model, loss)
