"""`evaluate --data` as a person types it: what it prints is what the libraries make of the models' own predictions."""

import gzip
import json
import math
import random
import re
import shutil
import string
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import manyheads
from manyheads.interop.directory import save_model
from manyheads.models.bert import Bert, BertAnswerer, BertConfig, BertEmbedder, MaskedBert
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.heads import EncoderClassifier, EncoderTagger
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.tasks.classify.data import with_marks
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.text.tokenizer import Tokenizer

from .conftest import called, files_in, refused, taught, typed, without_header

metrics = pytest.importorskip("sklearn.metrics")
stats = pytest.importorskip("scipy.stats")
sequences = pytest.importorskip("seqeval.metrics.sequence_labeling")
pytest.importorskip("matplotlib")

WORDS = ["the", "film", "story", "actor", "scene", "song", "is", "dull", "warm", "cold", "bright", "lovely", "bleak"]
TWO, THREE = ("bad", "good"), ("0", "1", "2")
ENTITIES, PARTS = ("O", "B-person", "I-person", "B-place", "I-place"), ("NOUN", "VERB", "X")
SIZES = {"context": 48, "width": 16, "layers": 1, "heads": 2}
KINDS: dict[str, Callable[[BertConfig], Any]] = {
    "texts": lambda config: EncoderClassifier(Bert(config), TWO),
    "pairs": lambda config: EncoderClassifier(Bert(config), THREE, "pair"),
    "choices": lambda config: EncoderClassifier(Bert(config), (), "choice"),
    "numbers": lambda config: EncoderClassifier(Bert(config)),
    "entities": lambda config: EncoderTagger(Bert(config, pooler=False), ENTITIES),
    "parts": lambda config: EncoderTagger(Bert(config, pooler=False), PARTS),
    "sentences": lambda config: BertEmbedder(Bert(config, pooler=False), "cls"),
    "bert": lambda config: Bert(config),
    "answers": lambda config: BertAnswerer(Bert(config, pooler=False)),
    "unsure": lambda config: BertAnswerer(Bert(config, pooler=False), impossible=True),
    "masked": lambda config: MaskedBert(config),
}


def told_apart(model: torch.nn.Module) -> torch.nn.Module:
    """An untrained model that does not say the same of everything."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.7)
    return model


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """A model directory of each kind."""
    made = tmp_path_factory.mktemp("models")
    torch.manual_seed(4)
    texts = [" ".join(WORDS)] * 9
    tokenizer = EncoderTokenizer.train(texts, 90)
    for name, build in KINDS.items():
        config = BertConfig(vocabulary=len(tokenizer), separator=tokenizer.separator, **SIZES)
        save_model(made / name, told_apart(build(config)), tokenizer, "")
    plain = LanguageTokenizer.train(texts, 270)
    marked = with_marks(plain)
    body = GPT(GPTConfig(vocabulary=len(marked), end=marked.end, **SIZES))
    save_model(made / "decoder", told_apart(DecoderClassifier(body, THREE)), marked, "")
    save_model(made / "language", GPT(GPTConfig(vocabulary=len(plain), end=plain.end, **SIZES)), plain, "")
    pieces = Tokenizer.train(texts, 270)
    ends = {"pad": pieces.pad, "start": pieces.start, "end": pieces.end}
    translator = Transformer(TransformerConfig(vocabulary=len(pieces), width=16, layers=1, heads=2, inner=20, **ends))
    save_model(made / "translator", translator, pieces, "")
    return made


# Examples


def sentence(source: random.Random, longest: int = 8) -> str:
    return " ".join(source.choices(WORDS, k=source.randint(1, longest)))


def labelled(form: str, names: tuple[str, ...], seed: int, count: int = 70) -> list[tuple[Any, str]]:
    """What a classifier takes, and labels that have nothing to do with it."""
    source, found = random.Random(seed), []
    for _ in range(count):
        first, second = sentence(source), sentence(source)
        choices = [sentence(source, 3) for _ in range(source.randint(2, 4))]
        given = {"text": first, "pair": (first, second), "choice": (first, choices)}[form]
        label = source.choice(names) if names else f"{source.uniform(0, 5):.2f}"
        found.append((given, str(source.randrange(len(choices))) if form == "choice" else label))
    return found


def tagged(names: tuple[str, ...], seed: int, count: int = 40) -> list[tuple[list[str], list[str]]]:
    source = random.Random(seed)
    rows = [sentence(source).split() for _ in range(count)]
    return [(words, source.choices(names, k=len(words))) for words in rows]


def asked(seed: int, impossible: float, count: int = 60) -> list[dict]:
    """Paragraphs of SQuAD with one question each, whose right answers are any words of the context."""
    source, found = random.Random(seed), []
    for number in range(count):
        context, answers = sentence(source, 5).capitalize() + ".", []
        words = list(re.finditer(r"\w+", context))
        for _ in range(0 if source.random() < impossible else source.randint(1, 3)):
            first = source.randrange(len(words))
            last = source.randrange(first, len(words))
            start, end = words[first].start(), words[last].end()
            answers.append({"text": context[start:end], "answer_start": start})
        question = {"id": f"{seed}-{number}", "question": sentence(source, 4) + "?", "answers": answers}
        found.append({"context": context, "qas": [question]})
    return found


EXAMPLES: dict[str, Callable[[int], list]] = {
    "texts": lambda seed: labelled("text", TWO, seed),
    "decoder": lambda seed: labelled("text", THREE, seed),
    "pairs": lambda seed: labelled("pair", THREE, seed),
    "choices": lambda seed: labelled("choice", THREE, seed),
    "numbers": lambda seed: labelled("text", (), seed),
    "entities": lambda seed: tagged(ENTITIES, seed),
    "parts": lambda seed: tagged(PARTS, seed),
    "sentences": lambda seed: labelled("pair", (), seed),
    "bert": lambda seed: labelled("pair", (), seed),
    "answers": lambda seed: asked(seed, 0.0),
    "unsure": lambda seed: asked(seed, 0.4),
}


def written(folder: Path, kind: str, examples: list, name: str = "data") -> Path:
    """The examples of a kind in a file as it is trained on."""
    if kind in ("answers", "unsure"):
        path, text = folder / f"{name}.json", json.dumps({"data": [{"title": "t", "paragraphs": examples}]})
    elif kind in ("entities", "parts"):
        blocks = ("".join(f"{word}\t{label}\n" for word, label in zip(*each)) for each in examples)
        path, text = folder / f"{name}.conll", "\n".join(blocks)
    elif kind == "choices":
        lines = ({"context": one, "choices": others, "answer": int(label)} for (one, others), label in examples)
        path, text = folder / f"{name}.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines)
    else:
        rows = ([given] if isinstance(given, str) else given for given, _ in examples)
        lines = ["\t".join([*texts, label]) for texts, (_, label) in zip(rows, examples)]
        names = "sentence" if isinstance(examples[0][0], str) else "sentence1\tsentence2"
        path, text = folder / f"{name}.tsv", "".join(f"{line}\n" for line in [f"{names}\tlabel", *lines])
    path.write_text(text, encoding="utf-8")
    return path


def evaluated(model: Path, *flags) -> str:
    result = called("evaluate", model, "--data", *flags)
    assert (result.code, without_header(result.err)) == (0, "")
    return result.out


# What is printed


def printed(out: str, name: str) -> float:
    """The number behind a name at the beginning of a line."""
    [line] = [line for line in out.splitlines() if line.startswith(name)]
    found = re.match(r"\s*(-?\d+\.\d+)", line.removeprefix(name))
    assert found, line
    return float(found[1])


def near(value: float, places: int) -> Any:
    """What a number can be that is printed with so many digits behind the point."""
    return pytest.approx(value, abs=0.50001 * 10**-places)


def printed_confusion(out: str) -> tuple[list[str], list[list[int]]]:
    lines = out.splitlines()
    first = lines.index("truth in rows, predictions in columns") + 1
    names = lines[first].split()
    rows = [line.split() for line in lines[first + 1 : first + 1 + len(names)]]
    assert [row[0] for row in rows] == names
    return names, [[0 if cell == "·" else int(cell) for cell in row[1:]] for row in rows]


def printed_bins(out: str) -> list[list[float]]:
    """The low, the high, the examples, the mean confidence and the accuracy of each bin."""
    lines = out.splitlines()
    head = "confidence            examples   mean confidence   accuracy"
    rows = [re.findall(r"[\d.]+", line) for line in lines[lines.index(head) + 1 :]]
    return [[float(cell) for cell in row] for row in rows]


def bins(confidence: list[float], right: list[bool]) -> dict[int, list[tuple[float, bool]]]:
    """The examples in each fifteenth of confidence that has any, counted from 0."""
    found: dict[int, list[tuple[float, bool]]] = {}
    for each in zip(confidence, right):
        found.setdefault(math.ceil(15 * each[0]) - 1, []).append(each)
    return dict(sorted(found.items()))


@pytest.mark.parametrize("kind", ["texts", "pairs", "decoder"])
def test_labels_are_scored_as_scikit_learn_scores_what_the_classifier_says(models, tmp_path, kind):
    examples = EXAMPLES[kind](1)
    out = evaluated(models / kind, written(tmp_path, kind, examples))
    classifier = manyheads.Classifier.load(models / kind, device="cpu")
    found = classifier([given for given, _ in examples])
    said, truth, names = [each.name for each in found], [label for _, label in examples], list(classifier.names)
    counted = {"pos_label": "good"} if kind == "texts" else {"average": "macro"}
    assert len(set(said)) == len(names)  # and the test can tell
    assert printed(out, "accuracy") == near(100 * metrics.accuracy_score(truth, said), 2)
    assert printed(out, "F1") == near(100 * metrics.f1_score(truth, said, **counted), 2)
    assert printed(out, "Matthews correlation") == near(metrics.matthews_corrcoef(truth, said), 4)
    assert f"of {len(examples)} examples" in out.splitlines()[0]
    assert ("of good" if kind == "texts" else "macro mean") in out.splitlines()[1]
    assert printed_confusion(out) == (names, metrics.confusion_matrix(truth, said, labels=names).tolist())
    # Calibration, over fifteen bins of the classifier's probabilities.
    parts = bins([each.probability for each in found], [one == other for one, other in zip(said, truth)])
    means = {place: [sum(column) / len(rows) for column in zip(*rows)] for place, rows in parts.items()}
    error = sum(len(parts[place]) * abs(sure - met) for place, (sure, met) in means.items()) / len(examples)
    assert len(parts) > 2
    assert printed(out, "calibration error") == near(100 * error, 2)
    for row, (place, (sure, met)) in zip(printed_bins(out), means.items(), strict=True):
        assert row[:2] == [near(100 * place / 15, 1), near(100 * (place + 1) / 15, 1)]
        assert row[2:] == [len(parts[place]), near(100 * sure, 2), near(100 * met, 2)]


def test_of_choices_the_accuracy_is_that_of_the_choices_made(models, tmp_path):
    examples = EXAMPLES["choices"](1)
    out = evaluated(models / "choices", written(tmp_path, "choices", examples))
    found = manyheads.Classifier.load(models / "choices", device="cpu")([given for given, _ in examples])
    said, truth = [each.index for each in found], [int(label) for _, label in examples]
    assert [each.name for each in found] == [given[1][place] for (given, _), place in zip(examples, said)]
    assert len(set(said)) == 4
    assert printed(out, "accuracy") == near(100 * metrics.accuracy_score(truth, said), 2)
    assert out.splitlines()[0].endswith("of 70 questions")


def assert_correlations(out: str, found: Any, truth: list[float]) -> None:
    assert printed(out, "Pearson correlation") == near(stats.pearsonr(found, truth)[0], 4)
    assert printed(out, "Spearman correlation") == near(stats.spearmanr(found, truth)[0], 4)
    assert out.splitlines()[0].endswith(f"of {len(truth)} examples")
    assert np.std(found) > 0.05  # and the test can tell


def test_numbers_are_scored_as_scipy_scores_what_the_classifier_says(models, tmp_path):
    examples = EXAMPLES["numbers"](1)
    out = evaluated(models / "numbers", written(tmp_path, "numbers", examples))
    found = manyheads.Classifier.load(models / "numbers", device="cpu")([given for given, _ in examples])
    truth = [float(label) for _, label in examples]
    assert_correlations(out, found, truth)
    assert printed(out, "mean squared error") == near(metrics.mean_squared_error(truth, found), 4)


@pytest.mark.parametrize("kind", ["sentences", "bert"])
def test_similarity_is_scored_as_scipy_scores_the_cosines_of_the_vectors(models, tmp_path, kind):
    assert (models / kind / "modules.json").exists() == (kind == "sentences")
    examples = EXAMPLES[kind](1)
    out = evaluated(models / kind, written(tmp_path, kind, examples))
    embedder = manyheads.Embedder.load(models / kind, device="cpu")
    assert embedder.model.pooling == ("cls" if kind == "sentences" else "mean")
    first, second = (embedder([given[side] for given, _ in examples]).astype(np.float64) for side in (0, 1))
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    assert_correlations(out, (first * second).sum(axis=1) / lengths, [float(label) for _, label in examples])
    assert "error" not in out  # a cosine is on no scale of scores


def told_tags(model: Path, examples: list[tuple[list[str], list[str]]]) -> list[list[str]]:
    found = manyheads.Tagger.load(model, device="cpu")([words for words, _ in examples])
    return [[tag.label for tag in tags] for tags in found]


def test_entities_are_scored_as_seqeval_finds_them_in_what_the_tagger_says(models, tmp_path):
    examples = EXAMPLES["entities"](1)
    out = evaluated(models / "entities", written(tmp_path, "entities", examples))
    said, truth = told_tags(models / "entities", examples), [labels for _, labels in examples]
    found, right = set(sequences.get_entities(said)), set(sequences.get_entities(truth))

    def three(kinds: tuple[str, ...]) -> list[float]:
        """Precision, recall and F1 of entities of some types."""
        some, others = ({each for each in both if each[0] in kinds} for both in (found, right))
        hits = len(some & others)
        return [100 * hits / len(some), 100 * hits / len(others), 200 * hits / (len(some) + len(others))]

    words = [(one, other) for row, labels in zip(said, truth) for one, other in zip(row, labels)]
    assert printed(out, "accuracy") == near(100 * sum(one == other for one, other in words) / len(words), 2)
    assert out.splitlines()[0].endswith(f"of {len(words)} words in 40 sentences")
    assert [printed(out, name) for name in ("precision", "recall", "F1")] == [
        near(each, 2) for each in three(("person", "place"))
    ]
    assert f"of the {len(right)} entities in truth" in out
    rows = [line.split() for line in out.splitlines()[-2:]]
    assert [row[0] for row in rows] == ["person", "place"]
    for kind, *cells in rows:
        *scores, count = [float(cell) for cell in cells if cell != "%"]
        assert scores == [near(each, 2) for each in three((kind,))]
        assert min(scores) > 0
        assert count == sum(each[0] == kind for each in right)


def test_labels_of_words_that_are_no_entities_have_an_accuracy_alone(models, tmp_path):
    examples = EXAMPLES["parts"](1)
    out = evaluated(models / "parts", written(tmp_path, "parts", examples))
    said = [label for row in told_tags(models / "parts", examples) for label in row]
    truth = [label for _, labels in examples for label in labels]
    assert set(said) == set(PARTS)
    assert printed(out, "accuracy") == near(100 * metrics.accuracy_score(truth, said), 2)
    assert len(out.splitlines()) == 1


def squad_words(text: str) -> list[str]:
    """An answer as the published evaluation of SQuAD compares it."""
    text = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def squad_scores(said: str, golds: list[str]) -> tuple[float, float]:
    """Exact match and F1 with the nearest right answer, as the published evaluation of SQuAD 2.0 counts them."""
    found, pairs = squad_words(said), []
    for right in [words for words in map(squad_words, golds) if words] or [[]]:
        common = (Counter(found) & Counter(right)).total()
        f1 = 2 * common / (len(found) + len(right)) if found and right else float(found == right)
        pairs.append((float(found == right), f1))
    return max(exact for exact, _ in pairs), max(f1 for _, f1 in pairs)


@pytest.mark.parametrize("impossible", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("kind", ["answers", "unsure"])
def test_answers_are_scored_as_squad_scores_what_the_answerer_says(models, tmp_path, kind, impossible):
    examples = asked(1, impossible)
    out = evaluated(models / kind, written(tmp_path, kind, examples))
    pairs = [(each["qas"][0]["question"], each["context"]) for each in examples]
    found = [span.text for span in manyheads.Answerer.load(models / kind, device="cpu")(pairs)]
    golds = [[answer["text"] for answer in each["qas"][0]["answers"]] for each in examples]
    scores = [squad_scores(said, right) for said, right in zip(found, golds)]
    exact, f1 = 100 * np.mean(scores, axis=0)
    assert (printed(out, "exact match"), printed(out, "F1")) == (near(exact, 2), near(f1, 2))
    assert out.splitlines()[0].endswith("of 60 questions")
    assert 0 < found.count("") < 60 if kind == "unsure" else "" not in found  # and the test can tell
    assert ("without an answer" in out) == (impossible > 0)
    assert ("with an answer" in out) == (impossible == 0.4)
    if impossible:
        unanswered = [exact for (exact, _), right in zip(scores, golds) if not right]
        assert printed(out, "without an answer, and said so") == near(100 * np.mean(unanswered), 2)
    if impossible == 0.4:
        exact, f1 = 100 * np.mean([each for each, right in zip(scores, golds) if right], axis=0)
        assert 0 < exact < f1 < 100
        last = out.splitlines()[-1]
        assert printed(out, "with an answer: exact match") == near(exact, 2)
        assert float(last.rpartition("F1")[2]) == near(f1, 2)


# Files


@pytest.mark.parametrize("kind", EXAMPLES)
def test_several_files_are_scored_as_one(models, tmp_path, kind):
    one, other = EXAMPLES[kind](1), EXAMPLES[kind](2)
    files = [written(tmp_path, kind, examples, name) for examples, name in ((one, "one"), (other, "other"))]
    together = evaluated(models / kind, *files)
    assert together == evaluated(models / kind, written(tmp_path, kind, one + other, "both"))
    assert together == evaluated(models / kind, files[0], "--data", files[1])
    assert together != evaluated(models / kind, files[0])


@pytest.mark.parametrize(("kind", "texts"), [("texts", "a"), ("pairs", "ab"), ("numbers", "a"), ("sentences", "ab")])
def test_columns_are_named_or_numbered_with_the_label_last(models, tmp_path, kind, texts):
    examples = EXAMPLES[kind](1)
    wanted = evaluated(models / kind, written(tmp_path, kind, examples))
    rows = [[label, "x", *([given] if isinstance(given, str) else given)] for given, label in examples]
    header, numbers = ["stars", "note", *texts], ["3", "4"][: len(texts)]
    for named, top in (([*texts, "stars"], [header]), ([*numbers, "1"], [])):  # numbers need no header
        (tmp_path / "columns.tsv").write_text("".join("\t".join(row) + "\n" for row in [*top, *rows]))
        assert evaluated(models / kind, tmp_path / "columns.tsv", "--columns", *named) == wanted


def test_the_columns_of_words_and_their_labels_are_numbered(models, tmp_path):
    examples = EXAMPLES["entities"](1)
    wanted = evaluated(models / "entities", written(tmp_path, "entities", examples))
    blocks = ("".join(f"{label} x {word} O\n" for word, label in zip(*each)) for each in examples)
    (tmp_path / "four.conll").write_text("\n".join(blocks))
    assert evaluated(models / "entities", tmp_path / "four.conll", "--columns", "3", "1") == wanted
    assert evaluated(models / "entities", tmp_path / "four.conll", "--columns", "3", "4") != wanted


@pytest.mark.parametrize("kind", ["texts", "pairs", "numbers", "sentences"])
def test_a_folder_of_glue_means_its_dev_tsv(models, tmp_path, kind):
    folder = tmp_path / "glue"
    folder.mkdir()
    train, dev = (written(folder, kind, EXAMPLES[kind](seed), name) for seed, name in ((1, "train"), (2, "dev")))
    wanted = evaluated(models / kind, dev)
    assert evaluated(models / kind, folder) == wanted
    assert evaluated(models / kind, train) != wanted
    (folder / "dev.tsv.gz").write_bytes(gzip.compress(dev.read_bytes()))
    dev.unlink()
    assert evaluated(models / kind, folder) == wanted


def test_examples_with_an_empty_text_are_left_out_and_counted(models, tmp_path):
    for kind, more, count in (("texts", "\tgood\n  \tbad\n", 2), ("sentences", "\tthe film\t3\n", 1)):
        path = written(tmp_path, kind, EXAMPLES[kind](1))
        wanted = evaluated(models / kind, path)
        path.write_text(path.read_text() + more)
        result = called("evaluate", models / kind, "--data", path)
        assert (result.code, result.out) == (0, wanted)
        assert without_header(result.err).startswith(f"warning: {path}: {count} ")
        assert "with an empty text" in result.err


@pytest.mark.parametrize(
    ("change", "said"),
    [({"answers": [{"text": "zebra", "answer_start": 0}]}, "stands nowhere"), ({"question": " "}, "empty")],
)
def test_questions_without_words_or_whose_answer_stands_nowhere_are_left_out(models, tmp_path, change, said):
    examples = asked(1, 0.0)
    examples[3]["qas"][0].update(change)
    result = called("evaluate", models / "answers", "--data", written(tmp_path, "answers", examples))
    assert (result.code, "of 59 questions" in result.out) == (0, True)
    assert said in result.err


def test_a_sentence_transformers_directory_is_an_embedder_whatever_head_its_encoder_kept(models, tmp_path):
    shutil.copytree(models / "masked", tmp_path / "model")
    for name in ("modules.json", "1_Pooling", "2_Normalize", "sentence_bert_config.json"):
        source = models / "sentences" / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / "model" / name)
    assert len(manyheads.Embedder.load(tmp_path / "model", device="cpu")(["the film"])) == 1
    assert "Pearson" in evaluated(tmp_path / "model", written(tmp_path, "sentences", EXAMPLES["sentences"](1)))


# Pictures


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """The run directory of a classifier that has hardly learned."""
    folder = tmp_path_factory.mktemp("run")
    examples = written(folder, "texts", EXAMPLES["texts"](1))
    sizes = [f"model.{name}={size}" for name, size in SIZES.items()]
    settings = [*sizes, "data.vocabulary=90", "train.steps=2", "train.device=cpu", "train.learning_rate=0.01"]
    taught("classify", folder / "mine", "--train", examples, settings=settings)
    return folder / "mine"


def test_reliability_is_drawn_into_a_run_or_where_it_is_asked_for_and_nowhere_else(models, run, tmp_path):
    examples, asked_for = written(tmp_path, "texts", EXAMPLES["texts"](2)), tmp_path / "mine.svg"
    for model, flags, drawn in (
        (run, [], run / "reliability.png"),
        (run, ["--plot", asked_for], asked_for),
        (models / "texts", ["--plot", asked_for], asked_for),
        (run / "model", [], None),
    ):
        (run / "reliability.png").unlink(missing_ok=True)
        before = files_in(model)
        result = called("evaluate", model, "--data", examples, *flags)
        assert (result.code, without_header(result.err)) == (0, f"reliability is drawn in {drawn}\n" if drawn else "")
        if drawn == asked_for:
            found = re.search(r"ECE ([\d.]+) %", asked_for.read_text())
            assert found
            assert float(found[1]) == pytest.approx(printed(result.out, "calibration error"), abs=0.056)
            asked_for.unlink()
        elif drawn:
            assert drawn.read_bytes().startswith(b"\x89PNG")
        after = files_in(model)
        after.pop(run / "reliability.png", None)
        assert after == before
        assert list(tmp_path.iterdir()) == [examples]


@pytest.mark.parametrize("kind", ["texts", "decoder", "choices", "numbers", "entities", "bert", "answers"])
def test_a_bare_model_directory_is_left_as_it_is(models, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    examples = written(tmp_path, kind, EXAMPLES[kind](1))
    before = files_in(models)
    evaluated(models / kind, examples)
    assert files_in(models) == before
    assert list(tmp_path.iterdir()) == [examples]


# What is absent


LIBRARIES = {"texts": "sklearn", "decoder": "sklearn", "numbers": "sklearn", "bert": "scipy", "entities": "seqeval"}


@pytest.mark.parametrize("kind", LIBRARIES)
def test_without_the_libraries_of_scores_it_is_one_sentence_with_the_command(models, tmp_path, monkeypatch, kind):
    monkeypatch.setitem(sys.modules, LIBRARIES[kind], None)
    needed = "seqeval" if kind == "entities" else "scikit-learn"
    sentence = refused("evaluate", models / kind, "--data", written(tmp_path, kind, EXAMPLES[kind](1)))
    assert f"needs {needed}, which is not installed: pip install 'manyheads[metrics]'" in sentence


@pytest.mark.parametrize("kind", ["answers", "choices"])
def test_what_needs_no_library_of_scores_is_scored_without(models, tmp_path, monkeypatch, kind):
    examples = written(tmp_path, kind, EXAMPLES[kind](1))
    wanted = evaluated(models / kind, examples)
    for package in ("sklearn", "scipy", "seqeval", "matplotlib"):
        monkeypatch.setitem(sys.modules, package, None)
    assert evaluated(models / kind, examples) == wanted


def test_without_matplotlib_a_picture_that_is_asked_for_is_one_sentence_and_scores_need_none(
    models, run, tmp_path, monkeypatch
):
    examples = written(tmp_path, "texts", EXAMPLES["texts"](1))
    wanted = evaluated(models / "texts", examples)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert evaluated(models / "texts", examples) == wanted
    sentence = refused("evaluate", models / "texts", "--data", examples, "--plot", tmp_path / "mine.png")
    assert sentence.startswith("A picture needs matplotlib")
    assert "pip install 'manyheads[look]'" in sentence
    assert list(tmp_path.iterdir()) == [examples]
    (run / "reliability.png").unlink(missing_ok=True)
    result = called("evaluate", run, "--data", examples)  # a run is scored all the same
    assert ("calibration error" in result.out, result.err.count("manyheads[look]")) == (True, 1)


# What cannot be


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A file of each kind, and others that are wrong somewhere."""
    made = tmp_path_factory.mktemp("data")
    for kind in EXAMPLES:
        written(made, kind, EXAMPLES[kind](1), kind)
    contents = {
        "strange.tsv": "sentence\tlabel\nthe film\tgood\nthe song\tsplendid\n",
        **{"strange.conll": "film\tO\n\nthe\tO\nsong\tB-animal\n", "short.conll": "film\tO\nsong\n"},
        "short.tsv": "sentence\tlabel\nthe film\tgood\nthe song\n",
        "short-pair.tsv": "sentence1\tsentence2\tlabel\na film\tthe song\t1\nthe song\t2\n",
        "short.jsonl": '{"text": "the film", "label": "good"}\n{"text": "the song"}\n',
        "short.json": '{"data": [{"title": "t", "paragraphs": [{"qas": []}]}]}',
        "unlabelled.tsv": "sentence\tlabel\nthe film\tgood\nthe song\t\n",
        "words.tsv": "sentence1\tsentence2\tlabel\na film\tthe song\t1\nthe film\ta song\thigh\n",
        "beyond.jsonl": '{"context": "the film", "choices": ["a", "b"], "answer": 2}\n',
        **{"empty.tsv": "", "empty.conll": "\n", "text.txt": "the film is warm\n"},
    }
    for name, content in contents.items():
        (made / name).write_text(content)
    return made


@pytest.mark.parametrize(
    ("kind", "files", "said"),
    [
        # A label that the model does not know
        ("texts", "strange.tsv", "strange.tsv, line 3: the label 'splendid' is not among those of"),
        ("decoder", "strange.tsv", "not among those of the training examples (0, 1, 2); mend the line or add examples"),
        ("entities", "strange.conll", "strange.conll, in the sentence from line 3 on: the label 'B-animal' of 'song'"),
        ("entities", "entities.conll strange.conll", "strange.conll, in the sentence"),
        ("parts", "entities.conll", "entities.conll, in the sentence from line 1 on: the label"),
        ("numbers", "strange.tsv", "strange.tsv, line 2: 'good' is not a number"),
        ("bert", "words.tsv", "words.tsv, line 3: 'high' is not a number"),
        ("choices", "beyond.jsonl", "beyond.jsonl, line 1: answer is 2; it must be the number of the right choice"),
        # A file of another form
        ("texts", "pairs.tsv", "pairs.tsv is of the form pair, but the model takes the form text"),
        ("texts", "texts.tsv pairs.tsv", "pairs.tsv is of the form pair"),
        ("decoder", "pairs.tsv", "pairs.tsv is of the form pair, but the model takes the form text"),
        ("texts", "choices.jsonl", "choices.jsonl is of the form choice, but the model takes the form text"),
        ("numbers", "bert.tsv", "bert.tsv is of the form pair, but the model takes the form text"),
        ("pairs", "decoder.tsv", "decoder.tsv is of the form text, but the model takes the form pair"),
        ("choices", "texts.tsv", "texts.tsv is of the form text, but the model takes the form choice"),
        ("sentences", "numbers.tsv", "numbers.tsv is of the form text; similarity is scored on two texts and a number"),
        ("answers", "texts.tsv", "texts.tsv: not JSON"),
        ("answers", "short.json", "short.json, data[0].paragraphs[0]: no key 'context'"),
        ("texts", "entities.conll", "entities.conll is of no kind that is read as examples"),
        ("texts", "answers.json", "answers.json is of no kind that is read as examples"),
        ("entities", "text.txt", "the label 'warm' of 'the'"),
        ("texts", "text.txt", "text.txt, line 1: 1 column and none named label"),
        ("texts", "empty.tsv", "empty.tsv holds no example"),
        ("entities", "empty.conll", "empty.conll holds no sentence"),
        ("bert", "empty.tsv", "empty.tsv holds no example"),
        ("answers", "empty.tsv", "empty.tsv: not JSON"),
        # A missing column
        ("texts", "short.tsv", "short.tsv, line 3: 1 column where there must be 2"),
        ("pairs", "short-pair.tsv", "short-pair.tsv, line 3: 2 columns where there must be 3"),
        ("bert", "short-pair.tsv", "short-pair.tsv, line 3: 2 columns where there must be 3"),
        ("texts", "short.jsonl", "short.jsonl, line 2: no field 'label'"),
        ("texts", "unlabelled.tsv", "unlabelled.tsv, line 3: the label is empty"),
        ("entities", "short.conll", "short.conll, line 2: 1 column, where there must be a word and its label"),
        ("entities", "entities.conll --columns 1 4", "entities.conll, line 1: 2 columns, but column 4 is asked for"),
        ("texts", "texts.tsv --columns 1 4", "texts.tsv, line 2: 2 columns, but column 4 is asked for"),
        ("texts", "texts.tsv --columns review label", "texts.tsv: no column is named 'review'"),
        ("texts", "texts.tsv --columns sentence", "1 column is named; name one text or two, and the label last"),
        ("texts", "texts.tsv --columns sentence sentence", "names a column twice"),
        ("entities", "entities.conll --columns word label", "write two numbers from 1, of the word and of its label"),
        # A file that is not there, and a folder without a dev.tsv
        *((kind, "nowhere.tsv", "nowhere.tsv is not there") for kind in EXAMPLES),
        *((kind, ".", "the folder . holds no dev.tsv") for kind in ("texts", "decoder", "choices", "numbers", "bert")),
        *((kind, ".", ". cannot be read: Is a directory") for kind in ("entities", "answers")),
        # A model of another kind, or other flags than it takes
        ("masked", "texts.tsv", "not scored with --data; it takes --text"),
        ("translator", "pairs.tsv", "a translator, which is not scored with --data; it takes --source, --target"),
        ("language", "texts.tsv", "a language model, which is not scored with --data; it takes --text"),
        ("nowhere", "texts.tsv", "nowhere does not exist"),
        (".", "texts.tsv", "holds no config.json"),
        ("texts", "texts.tsv --text text.txt", "not scored with --text"),
        ("texts", "texts.tsv --choices choices.jsonl", "not scored with --choices"),
        ("texts", "texts.tsv --pairs pairs.tsv", "not scored with --pairs"),
        ("texts", "texts.tsv --source text.txt", "not scored with --source"),
        ("entities", "entities.conll --text text.txt", "not scored with --text; it takes --data"),
        ("bert", "bert.tsv --pairs pairs.tsv", "not scored with --pairs; it takes --data"),
        ("texts", "texts.tsv --plot mine.pdf", "mine.pdf must end in .png or .svg"),
        ("texts", "texts.tsv --plot no/mine.png", "there is no folder"),
        ("choices", "choices.jsonl --plot mine.svg", "this model has no labels"),
        ("numbers", "numbers.tsv --plot mine.svg", "this model has no labels"),
        ("entities", "entities.conll --plot mine.png", "not scored with --"),
        ("bert", "bert.tsv --plot mine.png", "not scored with --"),
        ("answers", "answers.json --plot mine.png", "not scored with --"),
        ("translator", "pairs.tsv --plot mine.png", "not scored with --"),
    ],
)
def test_what_cannot_be_evaluated_is_one_sentence_and_leaves_nothing(models, folder, monkeypatch, kind, files, said):
    monkeypatch.chdir(folder)
    before = files_in(folder)
    assert said in refused("evaluate", models / kind, "--data", *files.split())
    assert files_in(folder) == before


# Python


def test_what_uses_a_model_can_be_had_from_the_package(models):
    names = {"classify": "Classifier", "tag": "Tagger", "similarity": "Embedder", "answer": "Answerer"}
    for task, name in {**names, "masked": "Filler"}.items():
        assert name in manyheads.__all__
        assert getattr(manyheads, name) is getattr(sys.modules[f"manyheads.tasks.{task}.use"], name)
    filler = manyheads.Filler.load(models / "masked", device="cpu")
    [[guesses]] = filler([f"the {filler.mask} is warm"], count=3)
    assert len(guesses) == 3
    assert [each.probability for each in guesses] == sorted((each.probability for each in guesses), reverse=True)


def test_a_run_is_evaluated_in_a_process_of_its_own(run, tmp_path):
    examples = written(tmp_path, "texts", EXAMPLES["texts"](2))
    result = typed("evaluate", run, "--data", examples, "--plot", "here.png", "--device", "cpu", cwd=tmp_path)
    assert (result.code, without_header(result.err)) == (0, "reliability is drawn in here.png\n")
    assert result.out == called("evaluate", run / "model", "--data", examples).out
    assert (tmp_path / "here.png").read_bytes().startswith(b"\x89PNG")
