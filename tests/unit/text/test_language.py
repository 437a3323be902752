import gzip
import json
import threading

import pytest
import tokenizers
from helpers import first_gpt_like, llama_like
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, processors

from manyheads.core.errors import ConfigError
from manyheads.text.language import END_OF_TEXT, LanguageTokenizer

TEXTS = [
    "Two young men stand in the yard.\n\nZwei junge Männer stehen im Hof.",
    "  def yard(men):\n\treturn 1234 + men  # größer\r\n",
    "猫が庭に座る。 e\u0301 ≠ é, 😀 👩‍👩‍👧",
] * 5
SPELT_OUT = f"one{END_OF_TEXT}two <unk> </s>"
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.fixture(scope="module")
def bytes_of():
    return LanguageTokenizer.train(TEXTS, 320)


@pytest.fixture(scope="module")
def characters():
    return LanguageTokenizer.characters([*TEXTS, SPELT_OUT])


def opened(directory):
    transformers = pytest.importorskip("transformers")
    return transformers.AutoTokenizer.from_pretrained(str(directory), local_files_only=True)


def of_llama(directory, config=None):
    """With <s> put in front of a text and </s> behind it."""
    model = llama_like(["▁", *"abcé�", "▁a", "ab"], [("▁", "a"), ("a", "b")])
    model.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    model.enable_padding(length=9)
    model.enable_truncation(2)
    return written(model, directory, config)


def written(model, directory, config):
    directory.mkdir(exist_ok=True)
    model.save(str(directory / "tokenizer.json"))
    if config is not None:
        (directory / "tokenizer_config.json").write_text(json.dumps(config))
    return directory


@given(text=ANY_TEXT)
def test_decoding_gives_back_any_text(bytes_of, text):
    assert bytes_of.decode(bytes_of.encode([text])) == [text]


@given(text=st.text(sorted(set("".join(TEXTS)))))
def test_decoding_gives_back_any_text_of_known_characters(characters, text):
    (ids,) = characters.encode([text])
    assert len(ids) == len(text)
    assert characters.decode([ids]) == [text]


def test_a_vocabulary_of_bytes_begins_with_the_end_of_text(bytes_of):
    assert (bytes_of.end, bytes_of.start, len(bytes_of)) == (0, [], 320)
    assert bytes_of.pieces([0, *bytes_of.encode(["\x00"])[0]]) == [END_OF_TEXT, "\x00"]
    assert len(LanguageTokenizer.train([], 257)) == 257
    with pytest.raises(ConfigError, match="257"):
        LanguageTokenizer.train(TEXTS, 256)


def test_a_vocabulary_of_characters_is_sorted_behind_the_special_tokens():
    characters = LanguageTokenizer.characters(["ba\n", "猫 a", "\ud83d"])
    assert (characters.end, characters.start, len(characters)) == (0, [], 8)
    assert characters.pieces(range(8)) == [END_OF_TEXT, "<unk>", "\n", " ", "a", "b", "猫", "\ufffd"]
    assert characters.encode(["a\nz\r b", "\udc00"]) == [[4, 2, 1, 1, 3, 5], [7]]
    assert characters.decode([[4, 1, 3, 3, 0, 5, 999]]) == ["a  b"]


def test_threads_that_ask_differently_do_not_disturb_each_other(bytes_of):
    wrong = []

    def ask(special):
        expected = bytes_of.encode([SPELT_OUT], special=special)
        wrong.extend(special for _ in range(300) if bytes_of.encode([SPELT_OUT], special=special) != expected)

    threads = [threading.Thread(target=ask, args=(special,)) for special in (False, True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert bytes_of.encode([SPELT_OUT]) != bytes_of.encode([SPELT_OUT], special=True)


def test_special_tokens_that_are_words_are_lost_from_a_text(tmp_path):
    vocabulary = {"<unk>": 0, "</s>": 1, "one": 2}
    model = tokenizers.Tokenizer(models.WordLevel(vocabulary, "<unk>"))
    model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    model.add_special_tokens(["<unk>", "</s>"])
    loaded = LanguageTokenizer.load(written(model, tmp_path, None))
    assert loaded.encode(["one </s> other"]) == [[2, 0]]
    assert loaded.encode(["one </s> other"], special=True) == [[2, 1, 0]]


def test_lone_surrogates_are_replaced(bytes_of):
    assert bytes_of.encode(["\ud83d"]) == bytes_of.encode(["\ufffd"])
    assert bytes_of.encode_wrapped(["\ud83d"]) == bytes_of.encode_wrapped(["\ufffd"])
    assert len(LanguageTokenizer.train(["half \ud83d a pair"] * 3, 300)) > 257


@pytest.mark.parametrize("name", ["bytes_of", "characters"])
@pytest.mark.parametrize("kind", [None, "gpt2", "llama", "openai-gpt"])
def test_transformers_opens_what_is_saved(name, kind, request, tmp_path):
    tokenizer = request.getfixturevalue(name)
    tokenizer.save(tmp_path, length=77)
    if kind is not None:  # a model beside it must not make them take another class
        (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    theirs = opened(tmp_path)
    texts = [*TEXTS[:3], "  an unseen  line , with 'spaces' . ", "", "\n"]
    ids = tokenizer.encode(texts)
    answer = theirs(texts)
    assert answer["input_ids"] == ids == LanguageTokenizer.load(tmp_path).encode(texts)
    assert set(answer) == {"input_ids", "attention_mask"}
    assert theirs.batch_decode(ids, skip_special_tokens=True) == tokenizer.decode(ids)
    assert (theirs.eos_token_id, theirs.pad_token_id, theirs.bos_token, theirs.model_max_length) == (0, 0, None, 77)
    assert theirs(SPELT_OUT)["input_ids"] == tokenizer.encode([SPELT_OUT], special=True)[0]
    assert len(theirs) == len(tokenizer)


def test_what_stands_before_a_text_is_known_but_not_added(bytes_of, tmp_path):
    loaded = LanguageTokenizer.load(of_llama(tmp_path))
    assert (loaded.start, loaded.end, len(loaded)) == ([1], 2, 267)
    (ids,) = loaded.encode(["a é😀"])
    assert loaded.pieces(ids) == ["a", "", "é", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>"]
    assert loaded.encode_wrapped(["a é😀"]) == [[1, *ids, 2]]
    assert loaded.decode([[1, *ids, 2]]) == ["a é😀"]
    assert bytes_of.encode_wrapped(["a"]) == bytes_of.encode(["a"])


def test_names_beside_a_tokenizer_are_kept(tmp_path):
    config = {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "pad_token": "c", "sep_token": "<absent>"}
    loaded = LanguageTokenizer.load(of_llama(tmp_path, config))
    loaded.save(tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text())
    names = {role: token for role, token in saved.items() if role.endswith("_token")}
    assert names == {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "c", "unk_token": "<unk>"}
    assert "split_special_tokens" not in saved
    theirs, again = opened(tmp_path / "saved"), LanguageTokenizer.load(tmp_path / "saved")
    texts = ["a ab é 😀", "", "</s>a <s>"]
    assert len(theirs) == len(again) == len(loaded)
    assert again.encode(texts) == loaded.encode(texts)
    assert theirs(texts[:2])["input_ids"] == again.encode_wrapped(texts[:2]) == loaded.encode_wrapped(texts[:2])
    assert theirs(texts, add_special_tokens=False)["input_ids"] == loaded.encode(texts, special=True)


def test_a_tokenizer_may_have_no_end(tmp_path):
    loaded = LanguageTokenizer.load(written(first_gpt_like(), tmp_path, {"unk_token": "<unk>"}))
    assert (loaded.end, loaded.start) == (None, [])
    assert loaded.encode(["ab a b"]) == [[5, 3, 4]]
    assert loaded.decode([[5, 3, 0, 4]]) == ["ab a b"]
    loaded.save(tmp_path / "saved")
    theirs = opened(tmp_path / "saved")
    assert (theirs.eos_token, theirs.pad_token, theirs.unk_token) == (None, None, "<unk>")
    assert theirs(["ab a b"])["input_ids"] == [[5, 3, 4]]


def test_an_end_named_beside_must_be_there(tmp_path):
    of_llama(tmp_path, {"eos_token": "<none>"})
    with pytest.raises(ConfigError, match=r"no token <none>.*</s>"):
        LanguageTokenizer.load(tmp_path)


def test_new_special_tokens_stand_behind_all_others(bytes_of, tmp_path):
    before = bytes_of._model.to_str()
    more = bytes_of.with_special(["<start>", END_OF_TEXT, "<extract>"])
    assert (more.id_of("<start>"), more.id_of("<extract>"), len(more)) == (320, 321, 322)
    assert more.encode(["a<start>"], special=True) == [[*more.encode(["a"])[0], 320]]
    assert more.decode([[320, *more.encode(["a<start>"])[0], 321]]) == ["a<start>"]
    assert more.encode(TEXTS) == bytes_of.encode(TEXTS)
    assert (bytes_of._model.to_str(), len(bytes_of)) == (before, 320)  # a copy
    with pytest.raises(ConfigError, match="no token <start>"):
        bytes_of.id_of("<start>")
    more.save(tmp_path)
    assert opened(tmp_path).convert_tokens_to_ids("<extract>") == 321


PRESENT = {
    "none": None,
    "bytes": processors.ByteLevel(trim_offsets=False),
    "template": processors.TemplateProcessing(single="x $A", special_tokens=[("x", 88)]),
    "both": processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="x $A", special_tokens=[("x", 88)]),
        ]
    ),
}


@pytest.mark.parametrize("present", PRESENT)
def test_a_template_wraps_texts_and_pairs_here_and_in_transformers(bytes_of, tmp_path, present):
    model = tokenizers.Tokenizer.from_str(bytes_of._model.to_str())
    if PRESENT[present] is not None:
        model.post_processor = PRESENT[present]
    plain = LanguageTokenizer(model, end=END_OF_TEXT).with_special(["<start>", "<delimiter>", "<extract>"])
    single, pair = ["<start>", "$A", "<extract>"], ["<start>", "$A", "<delimiter>", "$B", "<extract>"]
    wrapping = plain.with_template(single, pair)
    first, second = wrapping.encode(["the <start> yard", "men"])
    expected = [320, *first, 321, *second, 322]
    assert wrapping.encode_wrapped(["the <start> yard"]) == [[320, *first, 322]]
    assert wrapping.encode_wrapped([("the <start> yard", "men")]) == [expected]
    assert wrapping.encode(["the <start> yard"]) == plain.encode(["the <start> yard"]) == [first]
    assert (wrapping.start, plain.start) == ([320], [88] if present in ("template", "both") else [])
    wrapping.save(tmp_path)
    theirs = opened(tmp_path)
    assert theirs(["the yard"], ["men"])["input_ids"] == wrapping.encode_wrapped([("the yard", "men")])
    assert theirs(["the yard"])["input_ids"] == wrapping.encode_wrapped(["the yard"])
    kept = json.loads((tmp_path / "tokenizer.json").read_text())["post_processor"]
    assert [part["type"] for part in kept.get("processors", [])] == (
        ["ByteLevel", "TemplateProcessing"] if present in ("bytes", "both") else []
    )


def test_a_template_of_absent_tokens_is_an_error_and_pairs_may_be_left_out(bytes_of):
    with pytest.raises(ConfigError, match="no token <start>"):
        bytes_of.with_template(["<start>", "$A"], None)
    ended = bytes_of.with_template(["$A", END_OF_TEXT], None)
    first, second = bytes_of.encode(["men", "yard"])
    assert ended.encode_wrapped([("men", "yard")]) == [[*first, *second]]
    assert ended.encode_wrapped(["men"]) == [[*first, 0]]
    assert ended.start == []


def test_an_older_pair_opens_and_gives_the_same_ids(bytes_of, tmp_path):
    bytes_of._model.model.save(str(tmp_path))
    loaded = LanguageTokenizer.load(tmp_path)
    assert loaded.encode([*TEXTS, SPELT_OUT]) == bytes_of.encode([*TEXTS, SPELT_OUT])
    assert loaded.encode([SPELT_OUT], special=True) == bytes_of.encode([SPELT_OUT], special=True)
    assert (loaded.end, loaded.start, len(loaded)) == (0, [], 320)


def test_a_damaged_older_pair_is_an_error(bytes_of, tmp_path):
    bytes_of._model.model.save(str(tmp_path))
    merges = (tmp_path / "merges.txt").read_text()
    (tmp_path / "merges.txt").write_text(merges + "nothing\n")
    with pytest.raises(ConfigError, match=r"merges\.txt cannot be read"):
        LanguageTokenizer.load(tmp_path)
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(ConfigError, match=r"merges\.txt is not there"):
        LanguageTokenizer.load(tmp_path)
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b</w>\n")
    (tmp_path / "vocab.json").write_text('{"a": 0, "b</w>": 1, "ab</w>": 2}')
    with pytest.raises(ConfigError, match="lacks some of the 256 bytes"):
        LanguageTokenizer.load(tmp_path)


def test_the_published_files_of_gpt2_give_the_published_ids(tmp_path, data_set):
    folder = data_set("gpt2_vocab")
    for packed, name in (("encoder.json.gz", "vocab.json"), ("vocab.bpe.gz", "merges.txt")):
        (tmp_path / name).write_bytes(gzip.decompress((folder / packed).read_bytes()))
    loaded = LanguageTokenizer.load(tmp_path)
    assert (loaded.end, len(loaded)) == (50256, 50257)
    assert loaded.encode(["Hello world"]) == [[15496, 995]]
    theirs = pytest.importorskip("transformers").GPT2Tokenizer.from_pretrained(str(tmp_path), local_files_only=True)
    texts = [*TEXTS[:3], "it's  we'll 1234\n\n\n x", f"a{END_OF_TEXT}b"]
    assert theirs(texts)["input_ids"] == loaded.encode(texts, special=True)
    loaded.save(tmp_path / "saved")
    assert opened(tmp_path / "saved")(texts)["input_ids"] == loaded.encode(texts, special=True)


def test_a_word_without_end_is_learned_in_parts():
    """Of which the library would go through the square."""
    long = "ab" * 200_000
    tokenizer = LanguageTokenizer.train([f"{long} the cat", "the cat the cat"], 300)
    assert tokenizer.decode(tokenizer.encode([f"{long} the cat"])) == [f"{long} the cat"]
    assert len(tokenizer.encode([long])[0]) < len(long) / 100
