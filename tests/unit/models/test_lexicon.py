"""The six features of a text, and the lexicon that two of them are counted by."""

import math
import re

import pytest
import torch
from torch.testing import assert_close

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.batches import padded
from manyheads.models.lexicon import FEATURES, LexiconClassifier, LexiconConfig
from manyheads.tasks.classify.lexicon import PRONOUNS, SHIPPED, kinds_of_words, read_lexicon
from manyheads.text.words import WordTokenizer, words_of

LEXICON = {"great": "positive", "nice": "positive", "hokey": "negative", "second-rate": "negative", "no": "negative"}


def made(names=("bad", "good")) -> tuple[LexiconClassifier, WordTokenizer]:
    kinds = kinds_of_words(LEXICON)
    tokenizer = WordTokenizer.of(kinds)
    model = LexiconClassifier(LexiconConfig(vocabulary=len(tokenizer)), names)
    for word, those in kinds.items():
        model.kinds[tokenizer.id_of(word), those] = 1.0
    torch.manual_seed(2)
    model.score.weight.data.normal_()
    return model.eval(), tokenizer


@pytest.mark.parametrize(
    ("text", "features"),
    [
        ("A great, great and NICE film", [3, 0, 0, 0, 0, math.log(7)]),
        ("Hokey; second-rate. No!", [0, 3, 1, 0, 1, math.log(6)]),
        ("no, no!! I'm told you love your film, it's his", [0, 2, 1, 3, 1, math.log(14)]),
        ("nobody knows", [0, 0, 0, 0, 0, math.log(2)]),
        ("word", [0, 0, 0, 0, 0, 0]),
    ],
)
def test_features_are_counted(text, features):
    model, tokenizer = made()
    assert_close(model.features(*padded(tokenizer.encode([text])))[0], torch.tensor(features, dtype=torch.float32))
    assert len(FEATURES) == len(features)


def test_padding_and_order_change_nothing():
    model, tokenizer = made()
    rows = tokenizer.encode(["a great film I love", "no !", "hokey and nice and second-rate"])
    together = model(*padded(rows, fill=tokenizer.id_of("great")))
    assert_close(together, torch.cat([model(*padded([row[::-1]])) for row in rows]))
    assert len({*together[:, 1].tolist()}) == 3  # and the test can tell


def test_the_weights_learn_and_the_lexicon_does_not():
    model, tokenizer = made()
    scores = model(*padded(tokenizer.encode(["a great film", "hokey , no !"])))
    torch.nn.functional.cross_entropy(scores, torch.tensor([1, 0])).backward()
    assert {name for name, _ in model.named_parameters()} == {"score.weight", "score.bias"}
    assert model.score.weight.grad.count_nonzero() >= 5


def test_the_shipped_lexicon_can_be_read_and_leans_to_neither_side():
    found = read_lexicon(None)
    counts = [list(found.values()).count(polarity) for polarity in ("positive", "negative")]
    assert min(counts) > 300
    assert max(counts) < 2 * min(counts)
    assert found["great"] == "positive"
    assert found["second-rate"] == "negative"
    assert not set(found) & set(PRONOUNS)
    assert SHIPPED.read_text(encoding="utf-8").startswith("#")
    assert all(words_of(word) == [word] for word in found)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["good\tpositive", "bad\tnegative", "good\tpositive"], "line 3: 'good' was there before, as positive"),
        (["good\tpositive", "Good\tnegative"], "line 2: 'good' was there before"),
        (["# ours", "", "good\tfine"], "line 3: the polarity 'fine' is not known"),
        (["good positive"], "line 1: 'good positive' without a tab"),
        (["not bad\tpositive"], "line 1: 'not bad' is 2 words"),
        (["good\tpositive"], "no negative words"),
        ([], "no positive words"),
    ],
)
def test_an_entry_that_cannot_be_is_refused_with_its_line(tmp_path, lines, said):
    (tmp_path / "mine.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(said)):
        read_lexicon(tmp_path / "mine.tsv")


def test_a_lexicon_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "mine.tsv").write_bytes(b"caf\xe9\tpositive\n")
    for path in (tmp_path / "mine.tsv", tmp_path, tmp_path / "none"):
        with pytest.raises(ConfigError, match="cannot be read as a lexicon"):
            read_lexicon(path)
