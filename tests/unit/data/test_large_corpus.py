"""Five million pairs go through reading, encoding, planning and batching in little memory."""

import json
import subprocess
import sys

import numpy as np
import pytest
from helpers import PEAK, needs_peak

PAIRS = 5_000_000

SCRIPT = f"""
{PEAK}
import json, sys
from itertools import islice
from manyheads.data.pairs import pair_batches, write_pairs
from manyheads.data.readers.corpus import read_pairs
from manyheads.text.tokenizer import Tokenizer

directory = Path(sys.argv[1])
def pairs():
    return read_pairs(pairs=[directory / "pairs.tsv"])
tokenizer = Tokenizer.train((line for pair in islice(pairs(), 20_000) for line in pair), 8000)
store = write_pairs(directory / "store", pairs(), tokenizer, longest=256)
batches = pair_batches(store, tokens=4096, pad=tokenizer.pad, seed=1)
taken = sum(len(batch.source) for batch in islice(batches.epoch(0), 2000))
print(json.dumps(dict(pairs=len(store), taken=taken, peak=peak())))
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


@needs_peak
@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_five_million_pairs_need_less_than_a_gigabyte_and_a_half(tmp_path):
    write_corpus(tmp_path / "pairs.tsv", PAIRS)
    run = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], stdout=subprocess.PIPE, check=True, text=True)
    report = json.loads(run.stdout)
    assert report["pairs"] == PAIRS
    assert report["taken"] > 100_000
    assert report["peak"] * 1024 < 1.5e9
