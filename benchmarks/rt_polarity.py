"""Sentences of movie reviews by tenfold cross-validation, as Kim (2014): accuracy of each preset of `train classify`.

    python benchmarks/rt_polarity.py $MANYHEADS_DATA/rt_polarity                   all arms, about 3 minutes on 2 cores
    python benchmarks/rt_polarity.py $MANYHEADS_DATA/rt_polarity --arms bag
    python benchmarks/rt_polarity.py $MANYHEADS_DATA/rt_polarity --validation --arm "mine=--preset bag …"

The folder has one file .pos and one .neg. The sentences are shuffled once, those of each label alike, and dealt out to
ten folds. Each fold is tested once by a model that learned from the nine others, of which a tenth chose the kept step.
With --validation the test folds stay closed, and the accuracy on those tenths is printed: what choices are made by.
"""

import argparse
import json
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from common import describe_machine

from manyheads.data.readers.examples import read_examples

FOLDS = 10
SEED = 2014
ARMS = {
    "lexicon": "--preset lexicon",
    "bag": "--preset bag",
    "bag, counts of words": "--preset bag --set model.weighting=counts model.ngrams=1",
    "bag, tf-idf of words": "--preset bag --set model.ngrams=1",
    "bag, 1 hidden layer": "--preset bag --set model.layers=1",
}

Examples = list[dict[str, str]]


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
    done = subprocess.run(
        [sys.executable, "-m", "manyheads", *map(str, arguments), "--quiet"], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"manyheads {shlex.join(map(str, arguments))} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def accuracies(flags: str, dealt: list[Examples], numbers: range, part: str, folder: Path) -> Iterator[float]:
    """In percent, of a model for each of the folds."""
    for number in numbers:
        files = {name: folder / f"{name}.jsonl" for name in ("train", "valid", "test")}
        for name, examples in parts(dealt, number).items():
            files[name].write_text("".join(f"{json.dumps(each)}\n" for each in examples), encoding="utf-8")
        data = ["--train", files["train"], "--valid", files["valid"]]
        manyheads("train", "classify", *data, "--out", folder / "run", "--overwrite", *shlex.split(flags))
        scores = json.loads(manyheads("evaluate", folder / "run", "--data", files[part], "--json"))
        yield 100 * scores["accuracy"]


def main() -> None:
    parser = argparse.ArgumentParser(description="tenfold cross-validation on rt_polarity")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arms", nargs="+", choices=ARMS, metavar="NAME", help=f"of {', '.join(ARMS)}; none: all")
    parser.add_argument(
        "--arm", action="append", default=[], metavar="NAME=FLAGS", help="one more, alone or with --arms"
    )
    parser.add_argument("--folds", type=int, default=FOLDS, help="only the first so many are tested")
    parser.add_argument("--validation", action="store_true", help="score what was held out of the training folds")
    asked = parser.parse_args()
    describe_machine()
    arms = {name: ARMS[name] for name in asked.arms or (() if asked.arm else ARMS)}
    arms |= {name: flags for name, _, flags in (each.partition("=") for each in asked.arm)}
    dealt, part = folds(asked.folder), "valid" if asked.validation else "test"
    width = max(map(len, arms))
    for name, flags in arms.items():
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            found = list(accuracies(flags, dealt, range(min(asked.folds, FOLDS)), part, Path(folder)))
        seconds = (time.perf_counter() - began) / len(found)
        deviation = f" ± {statistics.stdev(found):.2f}" if len(found) > 1 else ""
        print(f"{name:{width}}  {part} {statistics.mean(found):6.2f}{deviation}  ({seconds:.0f} s a fold)  {flags}")
        print(f"{'':{width}}  {' '.join(f'{each:.1f}' for each in found)}", flush=True)


if __name__ == "__main__":
    main()
