"""Sentences of movie reviews by tenfold cross-validation, as Kim (2014): accuracy of each preset of `train classify`.

    python benchmarks/rt_polarity.py --data $MANYHEADS_DATA/rt_polarity --jobs 16 --vectors glove.txt --out rt.json
    python benchmarks/rt_polarity.py --data $MANYHEADS_DATA/rt_polarity --models bag lexicon --folds 2
    python benchmarks/rt_polarity.py --data $MANYHEADS_DATA/rt_polarity --validation --model "mine=--preset bag …"

The folder has one file .pos and one .neg. The sentences are shuffled once, those of each label alike, and dealt out to
ten folds, the same for all models. Each fold is tested once, by a model that learned from the nine others; a tenth of
these, drawn anew for each fold, chose the step that was kept, so that no choice was made by a test fold. With
--validation the test folds stay closed, and the accuracy on those tenths is printed: what settings are compared by,
though it flatters the best step of each run. Models with word vectors are run where --vectors names them.
"""

import argparse
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, fields
from pathlib import Path

from common import describe_machine

from manyheads.data.readers.examples import read_examples
from manyheads.tasks.classify.recipe import ExampleData
from manyheads.tasks.inside.info import info

FOLDS = 10
SEED = 2014
# GloVe's words are whole: with more pieces of its own, the tokenizer knows more words as one.
WORDS, LSTM, TRANSFORMER = "data.vocabulary=16000", "--preset lstm_tiny --set model.dropout=0.5", "--preset bert_tiny"
MODELS = {
    "lexicon": "--preset lexicon",
    "bag": "--preset bag",
    "bag, counts of words": "--preset bag --set model.weighting=counts model.ngrams=1",
    "bag, tf-idf": "--preset bag --set model.weighting=tfidf model.least=2",
    "bag, 1 hidden layer": "--preset bag --set model.weighting=tfidf model.least=2 model.layers=1",
    "LSTM": LSTM,
    "BiLSTM": "--preset bilstm_tiny",
    "Transformer": f"{TRANSFORMER} --set fine_tune.epochs=8",
}
WITH_VECTORS = {  # of 50 numbers: what has no embedding of another width than its own is made so narrow
    "LSTM, vectors": f"{LSTM} {WORDS} model.width=50",
    "BiLSTM, vectors": f"--preset bilstm_tiny --set {WORDS} model.embedding_width=50",
    "Transformer, vectors": f"{TRANSFORMER} --set {WORDS} fine_tune.epochs=8 model.width=50",
}
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")

Examples = list[dict[str, str]]


@dataclass
class Tested:
    """What is known of a model so far."""

    flags: str
    accuracies: dict[int, float] = field(default_factory=dict)
    """In percent, by fold."""
    seconds: dict[int, float] = field(default_factory=dict)
    parameters: int = 0


def folds(folder: Path) -> list[Examples]:
    """The examples, dealt out so that each fold has its share of each label."""
    by_label: dict[str, Examples] = {}
    for example in read_examples(folder, (), "train").examples:
        by_label.setdefault(example.label, []).append({"text": example.texts[0], "label": example.label})
    found: list[Examples] = [[] for _ in range(FOLDS)]
    for label in sorted(by_label):
        random.Random(SEED).shuffle(by_label[label])
        for number, example in enumerate(by_label[label]):
            found[number % FOLDS].append(example)
    return found


def parts(dealt: list[Examples], tested: int) -> dict[str, Examples]:
    """What a fold is learned from, what its choices are made by, and the fold itself."""
    others = [example for number, fold in enumerate(dealt) if number != tested for example in fold]
    random.Random(SEED + tested).shuffle(others)
    held = len(others) // FOLDS
    return {"train": others[held:], "valid": others[:held], "test": dealt[tested]}


def manyheads(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "manyheads", *map(str, arguments), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ONE_THREAD})
    if done.returncode:
        raise SystemExit(f"manyheads {shlex.join(map(str, arguments))} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def accuracy(flags: str, examples: dict[str, Examples], part: str) -> tuple[float, float, int]:
    """In percent, of a model for one fold; the seconds that it took, and its parameters."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for each, lines in examples.items():
            text = "".join(f"{json.dumps(line)}\n" for line in lines)
            (folder / f"{each}.jsonl").write_text(text, encoding="utf-8")
        data = ["--train", folder / "train.jsonl", "--valid", folder / "valid.jsonl", "--device", "cpu"]
        manyheads("train", "classify", *data, "--out", folder / "run", *shlex.split(flags))
        seconds, parameters = time.perf_counter() - began, info(folder / "run").parameters
        scores = json.loads(manyheads("evaluate", folder / "run", "--data", folder / f"{part}.jsonl", "--json"))
    return 100 * scores["accuracy"], seconds, parameters


def tested(
    models: dict[str, str], dealt: list[Examples], count: int, part: str, jobs: int
) -> Iterator[dict[str, Tested]]:
    """All folds of all models, so many at a time; what is known each time one more is finished."""
    known = {name: Tested(flags) for name, flags in models.items()}
    with ThreadPoolExecutor(jobs) as pool:
        pending = {
            pool.submit(accuracy, flags, parts(dealt, fold), part): (name, fold)
            for fold in range(count)
            for name, flags in models.items()
        }
        try:
            for done in as_completed(pending):
                name, fold = pending[done]
                found = known[name]
                found.accuracies[fold], found.seconds[fold], found.parameters = done.result()
                told = f"{found.accuracies[fold]:.2f} in {found.seconds[fold]:.0f} s"
                print(f"fold {fold + 1} of {count}  {name}: {told}", flush=True)
                yield known
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def table(known: dict[str, Tested], part: str) -> str:
    """Mean and standard deviation over folds."""
    width = max(map(len, known))
    lines = [f"{'':{width}}  {part:>6}  deviation  folds  parameters  s a fold"]
    for name, found in known.items():
        values = list(found.accuracies.values())
        deviation = f"{statistics.stdev(values):.2f}" if len(values) > 1 else "-"
        lines.append(
            f"{name:{width}}  {statistics.mean(values):6.2f}  {deviation:>9}  {len(values):5}  {found.parameters:10,}  "
            f"{statistics.mean(found.seconds.values()):8.0f}"
        )
    return "\n".join(lines)


def chosen(asked: argparse.Namespace) -> dict[str, str]:
    """The models that are asked for, with their flags."""
    models = dict(MODELS)
    if asked.vectors and "vectors" not in {each.name for each in fields(ExampleData)}:
        print("train classify takes no vectors here: models with vectors are left out", flush=True)
    elif asked.vectors:
        for name, flags in WITH_VECTORS.items():
            preset, _, settings = flags.partition(" --set ")
            given = f"{preset} --vectors {shlex.quote(str(asked.vectors))}"
            models[name] = f"{given} --set {settings}"
            models[f"{name} frozen"] = f"{given} --freeze-vectors --set {settings}"
    unknown = [name for name in asked.models if name not in models]
    if unknown:
        raise SystemExit(f"there is no model called {unknown[0]!r}; there are {', '.join(models)}")
    own = {name: flags for name, _, flags in (each.partition("=") for each in asked.model)}
    return {name: models[name] for name in asked.models or ([] if own else models)} | own


def main() -> None:
    parser = argparse.ArgumentParser(description="tenfold cross-validation on rt_polarity")
    parser.add_argument("--data", type=Path, required=True, help="the folder with one file .pos and one .neg")
    parser.add_argument("--models", nargs="+", default=[], metavar="NAME", help=f"of {', '.join(MODELS)}; none: all")
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FLAGS", help="one more")
    few = {"choices": range(1, FOLDS + 1), "metavar": "N", "help": "only the first so many are tested"}
    parser.add_argument("--folds", type=int, default=FOLDS, **few)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each on one thread")
    parser.add_argument("--vectors", type=Path, help="word vectors of 50 numbers, for models that begin with them")
    parser.add_argument("--out", type=Path, help="a JSON file for what was found, written after each fold")
    parser.add_argument("--validation", action="store_true", help="score what was held out of the training folds")
    asked = parser.parse_args()
    models, part = chosen(asked), "valid" if asked.validation else "test"
    describe_machine()
    known: dict[str, Tested] = {}
    for known in tested(models, folds(asked.data), asked.folds, part, asked.jobs):
        if asked.out:
            found = {name: vars(each) for name, each in known.items()}
            asked.out.write_text(json.dumps({"part": part, "models": found}, indent=1) + "\n", encoding="utf-8")
    print(f"\n{table(known, part)}")


if __name__ == "__main__":
    main()
