"""The sample corpus that ships with the package: its bytes, its links, and held-out sets that are held out."""

import hashlib
import subprocess
import sys
from collections import Counter
from itertools import combinations

import pytest

from manyheads.data.sample import FILE, Pair, sample_alignments, sample_corpus

CHECKSUM = "994100e08e5c11f701bc2af33b6c192991357a22fbd7eb942349536c904e18ff"
FINGERPRINT = "86dcb8efbcd5756f622b8ed17d73b34e0b5f9b7bf74eac3fb3eb237b6c8377e1"


@pytest.fixture(scope="module")
def corpus():
    return sample_corpus()


def words_of(text):
    return [word.strip(",?.") for word in text.split()]


def test_the_file_and_the_corpus_in_it_keep_their_bytes(corpus):
    assert hashlib.sha256(FILE.read_bytes()).hexdigest() == CHECKSUM
    lines = [f"{name}\t{pair.source}\t{pair.target}" for name in sorted(corpus) for pair in corpus[name]]
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == FINGERPRINT


def test_the_file_is_read_when_asked_for_and_needs_no_torch():
    script = """
import sys
opened = []
sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
from manyheads.data.sample import FILE, sample_corpus
assert str(FILE) not in opened
sample_corpus()
assert str(FILE) in opened
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_sentences_are_distinct_and_the_lectures_one_is_in_training(corpus):
    assert {name: len(pairs) for name, pairs in corpus.items()} == {"train": 20_000, "valid": 500, "test": 500}
    sources = [pair.source for pairs in corpus.values() for pair in pairs]
    assert len(set(sources)) == len(sources)
    assert Pair("The cat danced.", "Die Katze tanzte.") in corpus["train"]


def test_the_aligned_sets_are_the_held_out_sets_and_every_word_is_linked(corpus):
    aligned = sample_alignments()
    assert list(aligned) == ["valid", "test"]
    for name, pairs in aligned.items():
        assert [Pair(pair.source, pair.target) for pair in pairs] == corpus[name]
        for pair in pairs:
            assert pair.sure
            assert pair.sure <= pair.possible
            sides = zip((pair.source, pair.target), zip(*pair.possible))
            assert all(set(places) == set(range(len(text.split()))) for text, places in sides), pair
    assert sum(len(pair.sure) for pair in aligned["test"]) == 4402
    assert sum(len(pair.possible - pair.sure) for pair in aligned["test"]) > 100


def test_every_held_out_sentence_joins_words_that_training_keeps_apart(corpus):
    """Seen from the bare text: two English words, both frequent in training, never in one training sentence."""
    together = set()
    frequent = Counter()
    for pair in corpus["train"]:
        words = sorted(set(words_of(pair.source.lower())))
        frequent.update(words)
        together.update(combinations(words, 2))
    for pair in (*corpus["valid"], *corpus["test"]):
        new = {both for both in combinations(sorted(set(words_of(pair.source.lower()))), 2) if both not in together}
        assert any(min(frequent[first], frequent[second]) >= 20 for first, second in new), pair


def test_training_shows_every_word_form_of_the_held_out_sets_twenty_times(corpus):
    for side in ("source", "target"):
        shown = Counter(word for pair in corpus["train"] for word in words_of(getattr(pair, side)))
        for pair in (*corpus["valid"], *corpus["test"]):
            assert all(shown[word] >= 20 for word in words_of(getattr(pair, side))), pair
