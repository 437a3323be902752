import pytest
import tokenizers
from helpers import first_gpt_like, llama_like
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers

from manyheads.text.language import LanguageTokenizer
from manyheads.text.stream import TextStream
from manyheads.text.tokenizer import Tokenizer, byte_of_letter

TEXT = "  Hello, größere Welt! 猫が庭に座る。 e\u0301 👩‍👩‍👧😀🇩🇪 नमस्ते\n\n  \ufffd end "


def metaspace():
    """The same mark of spaces, taken off by another decoder."""
    tokens = ["</s>", "▁", "▁a", "a", "b", "▁▁b"]
    model = tokenizers.Tokenizer(models.BPE({token: each for each, token in enumerate(tokens)}, []))
    model.pre_tokenizer, model.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return LanguageTokenizer(model, end="</s>")


WORDS = dict.fromkeys(["▁", "▁▁", *"Helo, göW", "�", "▁H", "He", "▁We"])
KINDS = {
    "bytes": LanguageTokenizer.train([TEXT] * 3, 290),
    "characters": LanguageTokenizer.characters([TEXT]),
    "llama": LanguageTokenizer(llama_like([*WORDS], [("▁", "▁"), ("▁", "H"), ("H", "e")]), end="</s>"),
    "metaspace": metaspace(),
    "first gpt": LanguageTokenizer(first_gpt_like(), end=None, named={"unk_token": "<unk>"}),
    "translator": Tokenizer.train([TEXT] * 3, 290),
}
ROUND_TRIP = ["bytes", "characters", "llama"]
every_kind = pytest.mark.parametrize("tokenizer", KINDS.values(), ids=list(KINDS))


def streamed(tokenizer, ids, stops=()):
    stream = TextStream(tokenizer, stops)
    return [*(stream.push(each) for each in ids), stream.finish()], stream


def cut(text, stops):
    """The text before the first stop string to be complete."""
    found = [(text.index(stop) + len(stop), text.index(stop)) for stop in stops if stop in text]
    return text[: min(found)[1]] if found else text


LETTERS = {byte: letter for letter, byte in byte_of_letter().items()}


def single_bytes(tokenizer, text):
    """The ids of single bytes, of a byte-level tokenizer or one with byte fallback."""
    fallback = tokenizer is KINDS["llama"]
    return [tokenizer.id_of(f"<0x{byte:02X}>" if fallback else LETTERS[byte]) for byte in text]


@pytest.mark.parametrize("name", ["bytes", "llama"])
@given(data=st.data())
@settings(max_examples=300)
def test_pieces_of_any_bytes_join_to_their_text(name, data):
    """Bytes that begin, continue and break characters, among whole tokens and special ones."""
    tokenizer = KINDS[name]
    some = b"\x20\x41\x80\xa0\xbf\x9f\x98\xc3\xe2\xed\xef\xf0\xf4\xff"
    single = st.sampled_from(single_bytes(tokenizer, some))
    whole = st.sampled_from(tokenizer.encode(["😀é猫 H"])[0] + [0, 9999])
    ids = data.draw(st.lists(single | single | whole, max_size=50))
    shown, _ = streamed(tokenizer, ids)
    assert "".join(shown) == tokenizer.decode([ids])[0]


@every_kind
@given(data=st.data())
@settings(max_examples=300)
def test_pieces_of_any_ids_join_to_their_text_before_the_first_stop_string(tokenizer, data):
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) + 2), max_size=40))
    text = tokenizer.decode([ids])[0]
    pairs = st.tuples(st.integers(0, len(text)), st.integers(0, 5))
    stops = [text[at : at + size] for at, size in data.draw(st.lists(pairs, max_size=3))]
    stops += data.draw(st.lists(st.text("ab o\ufffd", max_size=3), max_size=2))
    assert "".join(streamed(tokenizer, ids)[0]) == text
    shown, stream = streamed(tokenizer, ids, stops)
    found = [stop for stop in stops if stop]
    assert "".join(shown) == cut(text, found)
    assert stream.stopped == any(stop in text for stop in found)


@pytest.mark.parametrize("name", ROUND_TRIP)
def test_no_half_of_a_character_is_shown(name):
    tokenizer, text = KINDS[name], TEXT.replace("\ufffd", "")
    (ids,) = tokenizer.encode([text])
    shown, _ = streamed(tokenizer, ids)
    assert "".join(shown) == text
    assert not any("\ufffd" in piece for piece in shown)
    assert sum(map(bool, shown)) > 20  # and it does not all wait for the end
    if name != "characters":
        assert any("\ufffd" in tokenizer.decode([[each]])[0] for each in ids)  # the test can tell


@pytest.mark.parametrize("name", ROUND_TRIP)
def test_a_character_is_shown_as_soon_as_it_is_certain(name):
    tokenizer = KINDS[name]
    stream = TextStream(tokenizer)
    shown = "".join(map(stream.push, tokenizer.encode(["Hello 猫"])[0]))
    # A run of fallback bytes is only certain when it has ended.
    assert shown == ("Hello " if name == "llama" else "Hello 猫")
    assert shown + stream.push(tokenizer.id_of("o")) == "Hello 猫o"


def test_without_context_the_pieces_would_not_join():
    for name in ("bytes", "llama", "first gpt"):
        tokenizer = KINDS[name]
        ids = [5, 3, 5] if name == "first gpt" else tokenizer.encode([TEXT])[0]
        alone = "".join(tokenizer.decode([[each]])[0] for each in ids)
        assert alone != tokenizer.decode([ids])[0] == "".join(streamed(tokenizer, ids)[0])


@pytest.mark.parametrize("name", ["bytes", "llama"])
def test_broken_bytes_are_not_held_for_ever(name):
    tokenizer = KINDS[name]
    ids = single_bytes(tokenizer, b"\x80\xf0\x9f" * 100)
    stream = TextStream(tokenizer)
    shown = "".join(map(stream.push, ids))
    whole = tokenizer.decode([ids])[0]
    assert len(whole) - 4 <= len(shown) <= len(whole)
    assert shown + stream.finish() == whole


def test_a_long_run_of_good_bytes_is_shown_before_it_ends():
    tokenizer, text = KINDS["llama"], "ສະບາຍດີ" * 40
    stream = TextStream(tokenizer)
    shown = "".join(map(stream.push, single_bytes(tokenizer, text.encode())))
    assert text.startswith(shown)
    assert len(text) - 22 <= len(shown) < len(text)
    assert shown + stream.finish() == text


def test_a_bad_byte_behind_few_good_ones_breaks_them_as_decoding_does():
    tokenizer = KINDS["llama"]
    good, bad = single_bytes(tokenizer, "€".encode()), single_bytes(tokenizer, b"\x80")
    assert "".join(streamed(tokenizer, good)[0]) == "€"
    assert "".join(streamed(tokenizer, good + bad)[0]) == tokenizer.decode([good + bad])[0] == "\ufffd" * 4


@every_kind
def test_the_work_grows_with_the_text_and_not_faster(tokenizer, monkeypatch):
    decoded = []
    whole = tokenizer.decode
    monkeypatch.setattr(tokenizer, "decode", lambda rows: decoded.append(len(rows[0])) or whole(rows))
    ids = [each % len(tokenizer) for each in range(0, 7 * 2000, 7)]
    streamed(tokenizer, ids)
    assert sum(decoded) < 12 * len(ids)


def test_a_stop_string_may_span_tokens_and_end_within_one():
    tokenizer = KINDS["characters"]
    ids = tokenizer.encode(["Hello, Welt"])[0]
    stream = TextStream(tokenizer, ["lo, W", "lob"])
    assert [stream.push(each) for each in ids[:5]] == ["H", "e", "", "l", ""]  # an "l" may begin the stop
    assert [stream.push(each) for each in ids[5:8]] == ["", "", ""]
    assert stream.stopped
    assert [*(stream.push(each) for each in ids[8:]), stream.finish()] == ["", "", "", ""]
    words = LanguageTokenizer.train(["stop here"] * 5, 300)
    ids = words.encode(["stop here"])[0]
    assert len(ids) == 2
    assert "".join(streamed(words, ids, ["p he"])[0]) == "sto"


def test_a_beginning_that_does_not_go_on_is_shown():
    tokenizer = KINDS["characters"]
    ids = tokenizer.encode(["\n\n \n"])[0]
    stream = TextStream(tokenizer, ["\n\n\n"])
    assert [stream.push(each) for each in ids] == ["", "", "\n\n ", ""]
    assert (stream.finish(), stream.stopped) == ("\n", False)


def test_the_first_stop_string_to_be_complete_counts_however_the_text_comes():
    for tokenizer in (KINDS["characters"], LanguageTokenizer.train(["Welt"] * 5, 300)):
        ids = tokenizer.encode(["Welt"])[0]
        assert "".join(streamed(tokenizer, ids, ["Welt", "el"])[0]) == "W"
        assert "".join(streamed(tokenizer, ids, ["lt", "elt"])[0]) == "W"


def test_special_tokens_neither_show_nor_disturb():
    tokenizer = KINDS["llama"]
    hello = tokenizer.encode(["He"])[0]
    ids = [1, *hello, *[2] * 9, *hello, 9999]
    shown, _ = streamed(tokenizer, ids)
    assert "".join(shown) == tokenizer.decode([ids])[0] == "He He"
