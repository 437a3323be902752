"""Scores on files of examples: which ones follows from what the model is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from manyheads.core.errors import ConfigError, DataError, MissingExtra
from manyheads.core.log import say, warn
from manyheads.data.columns import TaggedSentence, read_columns
from manyheads.data.examples import ExampleFile, read_examples
from manyheads.data.questions import read_questions
from manyheads.interop.directory import kind_of
from manyheads.interop.encoders import is_embedder
from manyheads.look.reliability import reliability
from manyheads.models.bert import BertAnswerer, BertClassifier, BertTagger, MaskedBert
from manyheads.models.classifier import DecoderClassifier
from manyheads.tasks.answer import Answerer, score_questions
from manyheads.tasks.answer_data import asked_in
from manyheads.tasks.answer_scores import answer_table
from manyheads.tasks.classify import Classifier
from manyheads.tasks.classify_data import as_number, refuse_unknown
from manyheads.tasks.masked import Filler, score_masked
from manyheads.tasks.scores import (
    LabelScores,
    entity_table,
    label_scores,
    label_table,
    number_scores,
    number_table,
)
from manyheads.tasks.similarity import Embedder, score_pairs
from manyheads.tasks.tag import Tagger, score_tags
from manyheads.tasks.tag_data import refuse_unknown as refuse_unknown_tags


def evaluate_data(
    model: Path, files: Sequence[Path], columns: tuple[str, ...] = (), *, plot: Path | None = None, device: str = "auto"
) -> str:
    """The scores of a model on files of the kind that it is trained on, as a table to print."""
    kind = kind_of(model)
    if kind in (BertClassifier, DecoderClassifier):
        found = [examples_in(path, columns) for path in files]
        return _classes(Classifier.load(model, device=device), found, plot, _usual_plot(model))
    if plot:
        raise ConfigError("--plot draws how far a classifier's probabilities can be trusted; this is no classifier")
    if kind is BertTagger:
        return _tags(Tagger.load(model, device=device), files, columns)
    if kind is BertAnswerer:
        return _answers(Answerer.load(model, device=device), files, columns)
    if is_embedder(model):
        return _similarity(Embedder.load(model, device=device), [examples_in(path, columns) for path in files])
    if kind is MaskedBert:
        raise ConfigError(f"{model} guesses hidden words; score it with --text")
    raise ConfigError(f"{model} is not scored with --data; a translator takes --source and --target, others --text")


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


def _usual_plot(model: Path) -> Path | None:
    """Where reliability is drawn if nobody says where: in the run directory, if it is one."""
    return model / "reliability.png" if (model / "recipe.toml").is_file() else None


def examples_in(path: Path, columns: tuple[str, ...] = ()) -> ExampleFile:
    """The examples of a file, or of the dev part of a folder; those without a text are left out, and counted."""
    file = read_examples(path, columns, "dev")
    if file.empty:
        warn(f"{file.path}: {len(file.empty):,} examples with an empty text are left out")
    return file


def labelled(classifier: Classifier, files: list[ExampleFile]) -> tuple[list[Any], list[Any]]:
    """What a classifier takes of examples, and their labels as it numbers them, or the numbers that they are."""
    for file in files:
        if file.form != classifier.form and not (classifier.form == "either" and file.form != "choice"):
            raise DataError(f"{file.path} is of the form {file.form}, but the model takes the form {classifier.form}")
        refuse_unknown(file, classifier.names, classifier.numbers)
    examples = [(file.form, example) for file in files for example in file.examples]
    if classifier.form == "choice":
        return [(each.texts[0], each.texts[1:]) for _, each in examples], [int(each.label) for _, each in examples]
    inputs: list[Any] = [each.texts[0] if form == "text" else each.texts for form, each in examples]
    if classifier.numbers:
        return inputs, _numbers(files)
    return inputs, [classifier.names.index(each.label) for _, each in examples]


def _classes(classifier: Classifier, files: list[ExampleFile], plot: Path | None, usual_plot: Path | None) -> str:
    inputs, truth = labelled(classifier, files)
    if plot and not classifier.names:
        raise ConfigError("--plot draws how far the probabilities of labels can be trusted; this model has no labels")
    if classifier.form == "choice":
        return _choices(classifier, inputs, truth)
    if classifier.numbers:
        return number_table(number_scores(classifier.scores(inputs)[:, 0].numpy(), truth))
    scores = label_scores(classifier.probabilities(inputs).numpy(), truth, classifier.names)
    _draw(scores, plot, usual_plot)
    return label_table(scores, classifier.names)


def _choices(classifier: Classifier, inputs: list[Any], truth: list[int]) -> str:
    right = int((classifier.probabilities(inputs).argmax(dim=1).numpy() == truth).sum())
    return f"accuracy  {100 * right / len(truth):6.2f} %   of {len(truth):,} questions"


def _numbers(files: list[ExampleFile]) -> list[float]:
    return [as_number(each.label, f"{file.path}, line {each.line}") for file in files for each in file.examples]


def _draw(scores: LabelScores, plot: Path | None, usual_plot: Path | None) -> None:
    drawing = plot or usual_plot
    if not drawing:
        return
    try:
        reliability(scores.bins, scores.calibration_error, drawing, "How far the probabilities can be trusted")
        say(f"reliability is drawn in {drawing}")
    except (MissingExtra, OSError) as reason:
        if plot:
            raise
        say(f"no reliability plot: {reason}")  # nobody asked for the picture


def tagged(tagger: Tagger, files: Sequence[Path], columns: tuple[str, ...] = ()) -> list[TaggedSentence]:
    """The sentences of files whose labels the tagger has."""
    found = {path: read_columns(path, columns) for path in files}
    for path, sentences in found.items():
        refuse_unknown_tags(path, sentences, tagger.names, "the model")
    return [sentence for sentences in found.values() for sentence in sentences]


def _tags(tagger: Tagger, files: Sequence[Path], columns: tuple[str, ...]) -> str:
    return entity_table(score_tags(tagger, tagged(tagger, files, columns)))


def _answers(answerer: Answerer, files: Sequence[Path], columns: tuple[str, ...]) -> str:
    if columns:
        raise ConfigError("--columns are of tables; questions in the layout of SQuAD have none")
    questions = [question for path in files for question in asked_in(read_questions(path))]
    return answer_table(score_questions(answerer, questions))


def scored_pairs(files: list[ExampleFile]) -> tuple[list[tuple[str, str]], list[float]]:
    """Pairs of texts and their numbers."""
    for file in files:
        if file.form != "pair":
            raise DataError(f"{file.path} is of the form {file.form}; similarity is scored on two texts and a number")
    return [(each.texts[0], each.texts[1]) for file in files for each in file.examples], _numbers(files)


def _similarity(embedder: Embedder, files: list[ExampleFile]) -> str:
    scores = score_pairs(embedder, *scored_pairs(files))
    return number_table(scores, error=False)  # a cosine is on no scale of scores
