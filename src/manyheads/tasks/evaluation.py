"""Scores of encoders on files of examples: which ones follows from what the model is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.log import say, warn
from manyheads.data.columns import read_columns
from manyheads.data.examples import ExampleFile, read_examples
from manyheads.data.questions import read_questions
from manyheads.interop.directory import kind_of
from manyheads.look.figures import reliability
from manyheads.models.bert import Bert, BertAnswerer, BertClassifier, BertTagger, MaskedBert
from manyheads.models.classifier import DecoderClassifier
from manyheads.tasks.answer import Answerer, score_questions
from manyheads.tasks.answer_scores import answer_table
from manyheads.tasks.classify import Classifier
from manyheads.tasks.classify_data import as_number, refuse_unknown
from manyheads.tasks.masked import Filler, score_masked
from manyheads.tasks.scores import (
    LabelScores,
    NumberScores,
    entity_table,
    label_scores,
    label_table,
    number_scores,
    number_table,
)
from manyheads.tasks.similarity import Embedder, score_pairs
from manyheads.tasks.tag import Tagger, score_tags


def evaluate_data(
    model: Path, files: Sequence[Path], columns: tuple[str, ...] = (), *, plot: Path | None = None, device: str = "auto"
) -> str:
    """The scores of a model on files of the kind that it is trained on, as a table to print."""
    kind = kind_of(model)
    if plot and kind not in (BertClassifier, DecoderClassifier):
        raise ConfigError("--plot draws how far a classifier's probabilities can be trusted; this is no classifier")
    if kind is BertTagger:
        return _tags(Tagger.load(model, device=device), files, columns)
    if kind is BertAnswerer:
        return _answers(Answerer.load(model, device=device), files)
    if kind is Bert:
        return _similarity(Embedder.load(model, device=device), files, columns)
    if kind is MaskedBert:
        raise ConfigError(f"{model} guesses hidden words; score it with --text")
    classifier = Classifier.load(model, device=device)
    return _classes(classifier, [read_examples(path, columns, "dev") for path in files], _drawing(model, plot))


def hides_words(model: Path) -> bool:
    """Whether a model guesses hidden words, not next ones."""
    return kind_of(model) is MaskedBert


def evaluate_hidden(model: Path, names: Sequence[str], field: str | None, *, device: str = "auto") -> str:
    """How well a model guesses hidden words of texts, as a table to print."""
    scores = score_masked(Filler.load(model, device=device), names, field)
    lines = [
        f"hidden words guessed  {scores['accuracy']:7.2f} %",
        f"loss                  {scores['loss']:7.4f}   nats by hidden word",
    ]
    if "next_accuracy" in scores:
        lines.append(f"what follows, told    {scores['next_accuracy']:7.2f} %   half of all do")
    return "\n".join(lines)


def _drawing(model: Path, plot: Path | None) -> Path | None:
    """Where reliability is drawn: where asked, or in the run directory, if it is one."""
    return plot or (model / "reliability.png" if (model / "recipe.toml").is_file() else None)


def _classes(classifier: Classifier, files: list[ExampleFile], drawing: Path | None) -> str:
    for file in files:
        if file.form != classifier.form:
            raise DataError(f"{file.path} is of the form {file.form}, but the model takes the form {classifier.form}")
        refuse_unknown(file, classifier.names, classifier.numbers)
        if file.empty:
            warn(f"{file.path}: {len(file.empty):,} examples with an empty text are left out")
    examples = [example for file in files for example in file.examples]
    inputs: list[Any] = [
        example.texts[0] if file.form == "text" else example.texts for file in files for example in file.examples
    ]
    if classifier.form == "choice":
        inputs = [(texts[0], texts[1:]) for texts in inputs]
        truth = [int(example.label) for example in examples]
        return _choices(classifier, inputs, truth)
    if classifier.numbers:
        return number_table(_numbers(classifier, inputs, files))
    truth = [classifier.names.index(example.label) for example in examples]
    scores = label_scores(classifier.probabilities(inputs).numpy(), truth, classifier.names)
    if drawing:
        _draw(scores, drawing)
    return label_table(scores, classifier.names)


def _choices(classifier: Classifier, inputs: list[Any], truth: list[int]) -> str:
    right = int((classifier.probabilities(inputs).argmax(dim=1).numpy() == truth).sum())
    return f"accuracy  {100 * right / len(truth):6.2f} %   of {len(truth):,} questions"


def _numbers(classifier: Classifier, inputs: list[Any], files: list[ExampleFile]) -> NumberScores:
    truth = [as_number(each.label, f"{file.path}, line {each.line}") for file in files for each in file.examples]
    return number_scores(classifier.scores(inputs)[:, 0].numpy(), truth)


def _draw(scores: LabelScores, drawing: Path) -> None:
    reliability(scores.bins, scores.calibration_error, drawing, "How far the probabilities can be trusted")
    say(f"reliability is drawn in {drawing}")


def _tags(tagger: Tagger, files: Sequence[Path], columns: tuple[str, ...]) -> str:
    sentences = [sentence for path in files for sentence in read_columns(path, columns)]
    return entity_table(score_tags(tagger, sentences, path=str(files[0])))


def _answers(answerer: Answerer, files: Sequence[Path]) -> str:
    questions = [question for path in files for question in read_questions(path).questions]
    return answer_table(score_questions(answerer, questions))


def _similarity(embedder: Embedder, files: Sequence[Path], columns: tuple[str, ...]) -> str:
    found = [read_examples(path, columns, "dev") for path in files]
    for file in found:
        if file.form != "pair":
            raise DataError(f"{file.path} has single texts; similarity is scored on two texts and a number")
    scores = [as_number(each.label, f"{file.path}, line {each.line}") for file in found for each in file.examples]
    pairs = [(each.texts[0], each.texts[1]) for file in found for each in file.examples]
    return number_table(score_pairs(embedder, pairs, scores), error=False)  # a cosine is on no scale of scores
