"""Five million pairs go through reading, encoding, planning and batching in little memory."""

import json
import subprocess
import sys

import numpy as np
import pytest

PAIRS = 5_000_000

SCRIPT = """
import json, resource, sys, time
from itertools import islice
from pathlib import Path
from manyheads.data.pairs import pair_batches, write_pairs
from manyheads.data.readers.corpus import read_pairs
from manyheads.text.tokenizer import Tokenizer

directory, clock = Path(sys.argv[1]), [time.time()]
def pairs():
    return read_pairs(pairs=[directory / "pairs.tsv"])
tokenizer = Tokenizer.train((line for pair in islice(pairs(), 20_000) for line in pair), 8000)
imports = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
clock.append(time.time())
store = write_pairs(directory / "store", pairs(), tokenizer, longest=256)
building = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
clock.append(time.time())
batches = pair_batches(store, tokens=4096, pad=tokenizer.pad, seed=1)
count = len(batches)
clock.append(time.time())
taken = sum(len(batch.source) for batch in islice(batches.epoch(0), 2000))
clock.append(time.time())
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
seconds = dict(zip(("train", "build", "plan", "batches"), (b - a for a, b in zip(clock, clock[1:]))))
kilobytes = {"imports": imports, "building": building, "peak": peak}
print(json.dumps({"pairs": len(store), "batches": count, "taken": taken, "kilobytes": kilobytes, "seconds": seconds}))
"""


def write_corpus(path, count):
    """Lines of a few thousand words, some common and most rare, 3 to 25 words on each side."""
    generator = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyzäöü"))
    words = ["".join(generator.choice(letters, generator.integers(2, 11))) for _ in range(20_000)]
    text = [words[rank % len(words)] for rank in generator.zipf(1.3, 200_000) % 1_000_003]
    with path.open("w", encoding="utf-8") as file:
        for _ in range(0, count, 100_000):
            rows = min(100_000, count)
            starts = generator.integers(0, len(text) - 30, (rows, 2))
            lengths = generator.integers(3, 24, rows)[:, None] + generator.integers(0, 3, (rows, 2))
            ends = (starts + lengths).tolist()
            file.writelines(
                f"{' '.join(text[first[0] : last[0]])}\t{' '.join(text[first[1] : last[1]])}\n"
                for first, last in zip(starts.tolist(), ends)
            )


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_five_million_pairs_need_less_than_a_gigabyte_and_a_half(tmp_path):
    pytest.importorskip("resource", reason="peak memory is measured with resource, which Windows does not have")
    write_corpus(tmp_path / "pairs.tsv", PAIRS)
    run = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], stdout=subprocess.PIPE, check=True, text=True)
    report = json.loads(run.stdout)
    print(report)
    assert report["pairs"] == PAIRS
    assert report["taken"] > 100_000
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
    assert report["kilobytes"]["peak"] * unit < 1.5e9
