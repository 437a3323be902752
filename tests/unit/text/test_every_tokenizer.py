"""What tokenizers of every kind owe: the same bytes whenever they are trained, saved and loaded, and no torch."""

import json
import re
import subprocess
import sys
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import manyheads
from manyheads.core.errors import ConfigError
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.text.tokenizer import Tokenizer

TEXTS = [
    "Two young men stand in the yard, near many bushes.",
    "Zwei junge Männer stehen im Hof; sie sind größer!",
    "Deux hommes sont dans la cour du café (à 12:30).",
    "猫が庭に座る。 e\u0301 ≠ é, 😀 👩‍👩‍👧 [MASK] </s> <pad>",
] * 5
MADE = {
    "translator": "manyheads.text.tokenizer.Tokenizer.train(texts, 320)",
    "bytes": "manyheads.text.language.LanguageTokenizer.train(texts, 320)",
    "characters": "manyheads.text.language.LanguageTokenizer.characters(texts)",
    "encoder": "manyheads.text.encoder.EncoderTokenizer.train(texts, 140)",
    "cased encoder": "manyheads.text.encoder.EncoderTokenizer.train(texts, 140, lowercase=False)",
}
IMPORTS = "import manyheads.text.encoder, manyheads.text.language, manyheads.text.stream, manyheads.text.tokenizer\n"
every_kind = pytest.mark.parametrize("kind", MADE)


def made(kind: str, texts=TEXTS):
    return eval(MADE[kind], {"manyheads": manyheads, "texts": texts})


known = cache(made)


@every_kind
def test_one_string_is_no_list_of_its_letters(kind):
    for ask in (lambda: made(kind, "the cat"), lambda: known(kind).encode("the cat")):
        with pytest.raises(ConfigError, match="takes a list of texts, not one string"):
            ask()


@every_kind
def test_training_needs_no_torch_and_gives_the_same_bytes_in_any_process(tmp_path, kind):
    script = f"""
import sys
from pathlib import Path
{IMPORTS}
texts = list(reversed({TEXTS!r}))  # the order is no matter
{MADE[kind]}.save(Path(sys.argv[1]))
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "there")], check=True)
    made(kind).save(tmp_path / "here")
    made(kind, TEXTS[1:4]).save(tmp_path / "other")
    here, there, other = ((tmp_path / name / "tokenizer.json").read_bytes() for name in ("here", "there", "other"))
    assert here == there
    assert here != other


@every_kind
def test_saved_and_loaded_is_the_same(tmp_path, kind):
    tokenizer = made(kind)
    tokenizer.save(tmp_path)
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        loaded = type(tokenizer).load(path)
        assert loaded._model.to_str() == tokenizer._model.to_str()
        assert loaded.encode(TEXTS) == tokenizer.encode(TEXTS)
        assert len(loaded) == len(tokenizer)
        for mark in ("pad", "start", "end", "separator", "mask", "unknown"):
            assert getattr(loaded, mark, None) == getattr(tokenizer, mark, None)
    said = json.loads((tmp_path / "tokenizer_config.json").read_text()).get("model_max_length")
    assert said == (512 if kind == "translator" else None)  # as Marian's; of others only a model knows
    assert made(kind, TEXTS[1:4])._model.to_str() != tokenizer._model.to_str()


@pytest.mark.parametrize("kind", [Tokenizer, LanguageTokenizer, EncoderTokenizer])
@pytest.mark.parametrize("content", ["", "{}", "not json", '{"version": "9"}'])
def test_a_file_that_is_no_tokenizer_is_an_error(tmp_path, kind, content):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ConfigError, match=r"tokenizer\.json"):
        kind.load(tmp_path)
    with pytest.raises(ConfigError, match="not there"):
        kind.load(tmp_path / "nowhere")


SPELT = {"encoder": ["[MASK]", "[SEP]", "[CLS]", "[PAD]"], "translator": ["</s>", "<pad>", "<unk>"]}
SPELT |= {"cased encoder": SPELT["encoder"]}


@every_kind
def test_special_tokens_in_a_text_are_text_unless_asked_for(kind):
    spelt = SPELT.get(kind, ["<|endoftext|>"])
    text = f"one{' the '.join(['', *spelt])} yard"
    tokenizer = made(kind, [*TEXTS, text])
    marks, (as_text,) = [tokenizer.id_of(token) for token in spelt], tokenizer.encode([text])
    if kind == "translator":
        assert as_text.pop() == tokenizer.end
    else:
        (recognised,) = tokenizer.encode([text], special=True)
        first, *others = tokenizer.encode(re.split("|".join(map(re.escape, spelt)), text))
        assert recognised == [*first, *(each for mark, part in zip(marks, others) for each in (mark, *part))]
        assert tokenizer.encode([text]) == [as_text]  # one way of asking leaves no trace in the other
    assert not {*marks} & {*as_text}
    if "encoder" not in kind:
        assert tokenizer.decode([as_text]) == [text]


@every_kind
@given(ids=st.lists(st.integers(0, 400)))
@settings(max_examples=50)
def test_any_ids_decode_and_those_unknown_are_ignored(kind, ids):
    tokenizer = known(kind)
    assert tokenizer.decode([ids]) == tokenizer.decode([[each for each in ids if each < len(tokenizer)]])
    assert len(tokenizer.pieces(ids)) == len(ids)


@every_kind
def test_lone_surrogates_do_not_stop_anything(kind):
    tokenizer = made(kind, ["half \ud83d a pair"] * 3 + TEXTS)
    assert tokenizer.decode(tokenizer.encode(["a \ud83d pair"]))[0].startswith("a ")
