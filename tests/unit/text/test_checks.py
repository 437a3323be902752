"""A tokenizer.json from elsewhere: what it could do to whoever opens it is a sentence."""

import pytest
import tokenizers
from helpers import language_tokenizer
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

from manyheads.core.errors import ConfigError
from manyheads.text import tokenizer
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.text.tokenizer import Tokenizer


@pytest.fixture
def saved(tmp_path):
    """A small tokenizer with a part changed, in a file."""

    def save(**parts):
        model = tokenizers.Tokenizer(models.WordLevel({"</s>": 0, "<unk>": 1, "<pad>": 2, "a": 3}, "<unk>"))
        for name, part in parts.items():
            setattr(model, name, part)
        model.save(str(tmp_path / "tokenizer.json"))
        return tmp_path

    return save


@pytest.mark.parametrize("kind", [LanguageTokenizer, Tokenizer])
def test_a_pattern_that_backtracks_without_end_is_a_sentence(saved, kind, capfd):
    pattern = Regex("^(([a-z])+.)+[A-Z]([a-z])+$")
    made = kind.load(saved(pre_tokenizer=pre_tokenizers.Split(pattern, "isolated")))
    with pytest.raises(ConfigError, match=r"cannot encode a text \(.*retry-limit.*\); its tokenizer.json may be dam"):
        made.encode(["a" * 5000])
    assert capfd.readouterr().err == ""  # where the library reports its panics
    assert len(made.encode(["aab"])) == 1


@pytest.mark.parametrize("part", ["normalizer", "decoder"])
@pytest.mark.parametrize("pattern", ["a", Regex(".")])
def test_what_multiplies_a_text_is_refused(saved, part, pattern):
    kinds = normalizers if part == "normalizer" else decoders
    for steps in ([kinds.Replace(pattern, "aa")] * 30, [kinds.Replace(pattern, "a" * 5000)]):
        with pytest.raises(ConfigError, match=f"the {part} of .* makes more than 1,000 characters of one"):
            LanguageTokenizer.load(saved(**{part: kinds.Sequence(steps)}))
    usual = [kinds.Replace(mark, ". ") for mark in "。、！？「」"] * 5 + [kinds.Replace(Regex(r"\s+"), " ")]
    LanguageTokenizer.load(saved(**{part: kinds.Sequence(usual)}))


@pytest.mark.parametrize("kind", [LanguageTokenizer, Tokenizer])
@pytest.mark.parametrize("template", [{"single": "$A <x>", "pair": "$A $B"}, {"single": "$A", "pair": "$A <x> $B"}])
def test_a_template_with_ids_beyond_the_vocabulary_is_refused(saved, kind, template):
    processor = processors.TemplateProcessing(**template, special_tokens=[("<x>", 99)])
    with pytest.raises(ConfigError, match="puts id 99 around texts, but its ids end at 3"):
        kind.load(saved(post_processor=processor))


@pytest.mark.parametrize("kind", [LanguageTokenizer, Tokenizer, EncoderTokenizer])
def test_a_vocabulary_that_no_machine_could_hold_is_refused(kind):
    with pytest.raises(ConfigError, match="a vocabulary of 1,000,000,000,000 tokens is asked for; it can have at most"):
        kind.train(["a b"], 10**12)


def test_a_mistake_of_ours_is_not_the_tokenizer_s(monkeypatch):
    monkeypatch.setattr(tokenizer, "encodable", lambda text: 3)
    with pytest.raises(TypeError):
        language_tokenizer().encode(["a"])
