"""Word vectors on a CPU: skip-gram by manyheads and by gensim's word2vec with 2 workers, same words, same evaluation.

    python benchmarks/vectors.py $MANYHEADS_DATA                                    about 6 minutes on 2 quiet cores
    python benchmarks/vectors.py $MANYHEADS_DATA --text reviews.txt --epochs 1      on a text of one's own
    python benchmarks/vectors.py $MANYHEADS_DATA --seeds 1 --epochs 1               to see that it works

The text is WikiText-2's training part without `<unk>` and the marks that join words (@-@). Both learn from the same
lines of the same words, as manyheads cuts them: those that are there 5 times, 100 numbers, windows of 5, 5 words drawn
at random, words above a thousandth thinned out, a learning rate from 0.025 down in a line. Counting words is not timed,
on either side; timed are all epochs, for manyheads with its validation and its checkpoints, by the processor's seconds
of the process and its threads: words of the text, times epochs, by CPU-second. Contenders have processes of their own
and take turns, one seed a round. manyheads learns in one thread, gensim in 2.

Prints words by CPU-second, and for each seed Spearman's correlation on WordSim-353 and SimLex-999 and the share of
analogies that are right, by one and the same code for both, from the files in $MANYHEADS_DATA/word_eval. Nothing was
chosen by these but what docs/decisions/2026-11-18-vectors.md says.
"""

import argparse
import gzip
import os
import re
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from common import Worker, describe_machine, in_turns, report, serve

OURS, PEER = "manyheads", "gensim, 2 workers"
WORKERS, WIDTH, WINDOW, NEGATIVE, LEAST, SAMPLE, RATE = 2, 100, 5, 5, 5, 1e-3, 0.025


def cleaned(folder: Path, file: Path) -> None:
    """WikiText-2's training part as text."""
    with gzip.open(folder / "wikitext-2" / "train.txt.gz", "rt", encoding="utf-8") as text:
        file.write_text(re.sub(r" @(.)@ ", r"\1", text.read().replace("<unk>", " ")), encoding="utf-8")


def recipe_of(text: str, epochs: int, seed: int):
    from manyheads.tasks.run import resolve

    data = {"text": (text,), "window": WINDOW, "negative": NEGATIVE, "least": LEAST, "sample": SAMPLE}
    rates = (f"train.learning_rate={RATE}", f"train.epochs={epochs}", f"model.width={WIDTH}", f"train.seed={seed}")
    return resolve("vectors", flags={"data": data}, assignments=(*rates, "train.device=cpu"))


def prepared(text: str, epochs: int, seed: int, run: Path):
    """The task of a recipe with its text cut into words."""
    from manyheads.tasks.run import prepare
    from manyheads.tasks.task import task_of

    recipe = recipe_of(text, epochs, seed)
    task = task_of("vectors")(recipe)
    task.run = run
    prepare(task, run)
    return task


def by_ours(text: str, epochs: int, seed: int, run: Path) -> tuple[int, float]:
    """The words that were gone through and the seconds; the vectors are in the run."""
    import torch

    from manyheads.train.length import fitted
    from manyheads.train.loop import Training

    task = prepared(text, epochs, seed, run)
    torch.manual_seed(seed)
    model, batches = task.build(None), task.batches()
    training = Training(run, fitted(task.recipe.train, len(batches), WIDTH), model, WIDTH, batches, task)
    began = time.process_time()
    training.fit()
    return epochs * len(task.train["ids"].flat), time.process_time() - began


def by_peer(text: str, epochs: int, seed: int, run: Path) -> tuple[int, float]:
    from gensim.models import Word2Vec

    task = prepared(text, epochs, seed, run)
    words = {each: word for word, each in task.processor.vocabulary().items()}
    lines = [
        [words[each] for each in row.tolist()] for row in map(task.train["ids"].__getitem__, range(len(task.train)))
    ]
    sizes = {"vector_size": WIDTH, "window": WINDOW, "negative": NEGATIVE, "min_count": 1, "sample": SAMPLE, "sg": 1}
    model = Word2Vec(**sizes, workers=WORKERS, seed=seed, alpha=RATE, min_alpha=RATE * 1e-4)
    model.build_vocab(lines)
    began = time.process_time()
    model.train(lines, total_examples=len(lines), epochs=epochs)
    seconds = time.process_time() - began
    model.wv.save_word2vec_format(str(run / "vectors.bin"), binary=True)
    return epochs * sum(map(len, lines)), seconds


def work(name: str, text: str, epochs: str, data: str):
    from manyheads import WordVectors
    from manyheads.core.log import be_quiet
    from manyheads.tasks.vectors.recipe import Evaluation

    be_quiet()
    files = [
        str(Path(data) / "word_eval" / each) for each in ("questions-words.txt.gz", "wordsim353.tsv", "simlex999.txt")
    ]
    asked = Evaluation(analogies=(files[0],), similarities=tuple(files[1:]))

    def learn(seed: int) -> dict:
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder)
            words, seconds = (by_ours if name == OURS else by_peer)(text, int(epochs), seed, run)
            place = run if name == OURS else run / "vectors.bin"
            found = WordVectors.load(place, device="cpu").evaluate(asked).numbers
        scores = {"WordSim-353": found[files[1]]["spearman"], "SimLex-999": found[files[2]]["spearman"]}
        known = {file: found[file]["known"] for file in files}
        return {"words": words, "seconds": seconds, **scores, "analogies": found[files[0]]["accuracy"], "known": known}

    return learn


def main() -> None:
    parser = argparse.ArgumentParser(description="words/s of skip-gram, and what its vectors are worth")
    parser.add_argument("data", type=Path, help="the folder that holds wikitext-2 and word_eval")
    parser.add_argument("--text", type=Path, help="another text, plain or .gz; none: WikiText-2")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    describe_machine()
    found: dict[str, list[dict]] = {OURS: [], PEER: []}
    with tempfile.TemporaryDirectory() as folder:
        text = options.text or Path(folder) / "wikitext-2.txt"
        if not options.text:
            cleaned(options.data, text)
        # One thread each for us, and for the matrices that gensim does not multiply.
        arguments, environment = (str(text), str(options.epochs), str(options.data)), {"OMP_NUM_THREADS": "1"}
        workers = {name: Worker(__file__, name, *arguments, environment=environment) for name in found}

        def rate(name: str) -> float:
            answer = workers[name].ask(seed=len(found[name]) + 1)
            found[name].append(answer)
            shown = "  ".join(f"{each} {answer[each]:.3f}" for each in ("WordSim-353", "SimLex-999", "analogies"))
            print(f"  {name:<20} {answer['words'] / answer['seconds']:>9,.0f} words a CPU-second  {shown}", flush=True)
            return answer["words"] / answer["seconds"]

        rates = in_turns({name: partial(rate, name) for name in found}, options.seeds, warmup=0)
        for worker in workers.values():
            worker.close()
    first = found[OURS][0]
    print(f"{first['words'] // options.epochs:,} words, {options.epochs} epochs; known: {[*first['known'].values()]}")
    report("skip-gram", rates, "words by CPU-second")
    for score in ("WordSim-353", "SimLex-999", "analogies"):
        for name, answers in found.items():
            values = [answer[score] for answer in answers]
            spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
            print(f"  {score:<12} {name:<20} {statistics.mean(values):.3f}{spread}")


if __name__ == "__main__":
    if "--worker" in sys.argv:
        serve(lambda: work(*sys.argv[2:]))
    else:
        os.environ.setdefault("PYTHONHASHSEED", "0")  # gensim's vectors begin with hashes of words
        main()
