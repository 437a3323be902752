"""The tokenizer of encoders (BERT): WordPiece, with the marks that stand around texts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from manyheads.core.errors import ConfigError
from manyheads.core.words import counted
from manyheads.text.checks import refuse_one_string
from manyheads.text.tokenizer import (
    FileTokenizer,
    encodable,
    entries_beside,
    file_at,
    id_of_token,
    mark_special,
    named_beside,
    read_model,
    refuse_large,
)

PAD, UNKNOWN, START, SEPARATOR, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
USUAL_NAMES = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL))
CONTINUING = "##"
LARGEST_ALPHABET = 1000  # words with rarer characters than these are unknown
LONGEST_WORD = 10_000  # characters of what can be a word at all; WordPiece takes those of more than 100 for unknown
COUNTED_AT_ONCE = 1_000_000  # characters of a string that the library counts words in, at a score of bytes each

# What tokenizer_config.json calls the choices of BERT's normalizer.
_NORMALIZER_SETTINGS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}


class EncoderTokenizer(FileTokenizer):
    """A tokenizer.json with the ids of the marks that an encoder needs, [CLS] and [SEP] around texts among them.

    A text is only ever text: "[MASK]" spelt out in it is a word between brackets, unless the caller asks for special
    tokens to be recognised.  A published tokenizer whose words include its own special tokens loses them.
    """

    def __init__(self, model: tokenizers.Tokenizer, *, named: Mapping[str, str] | None = None):
        """`named` are tokens by their role elsewhere, {"cls_token": "[CLS]"}; other roles have the names as in BERT."""
        names = {**USUAL_NAMES, **(named or {})}
        # What the model itself says for an unknown word, whatever the files beside it may name.
        names["unk_token"] = getattr(model.model, "unk_token", None) or names["unk_token"]
        start, separator = names["cls_token"], names["sep_token"]
        needed = (names["pad_token"], names["unk_token"], start, separator)
        self.pad, self.unknown, self.start, self.separator = (id_of_token(model, name) for name in needed)
        self.mask: int | None = model.token_to_id(names["mask_token"])
        names = {role: token for role, token in names.items() if model.token_to_id(token) is not None}
        mark_special(model, names.values())
        super().__init__(model, names, model_input_names=["input_ids", "token_type_ids", "attention_mask"])
        if model.post_processor is None:
            model.post_processor = processors.TemplateProcessing(
                single=[start, "$A", separator],
                pair=[start, "$A", separator, "$B:1", f"{separator}:1"],
                special_tokens=[(start, self.start), (separator, self.separator)],
            )
        self._check_template()

    def _check_template(self) -> None:
        """Refuse a tokenizer whose own template wraps texts otherwise than `wrapped`, such as RoBERTa's."""
        first, second = self.encode(["a", "b"])
        single, pair = self._model.encode("a"), self._model.encode("a", "b")
        types = [0] * (len(first) + 2) + [1] * (len(second) + 1)
        expected = self.wrapped(first), self.wrapped(first, second), types
        if (single.ids, pair.ids, pair.type_ids) != expected:
            raise ConfigError(
                f"the tokenizer makes {' '.join(pair.tokens)} of the texts a and b, not as BERT's "
                f"{' '.join(self.pieces(expected[1]))} with types {' '.join(map(str, types))}; "
                f"give the tokenizer of a BERT"
            )

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary: int, *, lowercase: bool = True) -> "EncoderTokenizer":
        """Learn WordPiece, as BERT's, of `vocabulary` tokens or fewer; with `lowercase`, accents go too."""
        refuse_one_string(texts)
        refuse_large(vocabulary)
        normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        words = _words(texts, normalizer)
        alphabet = _alphabet(words)
        smallest = len(SPECIAL) + len(alphabet)
        if vocabulary < smallest:
            raise ConfigError(
                f"a vocabulary of {counted(vocabulary, 'token')} cannot hold the {len(SPECIAL)} special tokens and the "
                f"{len(alphabet)} pieces of one character in these texts; ask for {smallest} or more"
            )
        return cls(_word_piece(_learnt(words, alphabet, vocabulary), UNKNOWN, normalizer))

    @classmethod
    def load(cls, path: Path) -> "EncoderTokenizer":
        """Open a tokenizer.json, a directory that holds one, or one with BERT's older vocab.txt.

        Special tokens are those that the files beside it name, else BERT's.  What tokenizer_config.json says of case,
        accents and Chinese characters counts more than tokenizer.json, as it does in `transformers`' BertTokenizer.
        """
        path = Path(path)
        file = file_at(path, older="vocab.txt")
        named = named_beside(file)
        if file == path / "vocab.txt":
            model = _word_piece(_read_lines(file), named.get("unk_token", UNKNOWN), normalizers.BertNormalizer())
        else:
            model = read_model(file)
        if isinstance(model.normalizer, normalizers.BertNormalizer):
            _set_normalizer(model.normalizer, file)
        return cls(model, named=named)

    def wrapped(self, first: list[int], second: list[int] | None = None) -> list[int]:
        """The ids of one text or of two, with [CLS] before and [SEP] behind each."""
        behind = [] if second is None else [*second, self.separator]
        return [self.start, *first, self.separator, *behind]

    def with_offsets(self, texts: list[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """The ids of each text, nothing around, and for each id the characters [begin, end) that it stands for.

        Pieces of one character, as those of a Hangul syllable, have the same offsets.
        """
        encodings = self.encodings(texts, places=True)
        found = ([*zip(encoding.ids, encoding.offsets)] for encoding in encodings)
        kept = ([pair for pair in pairs if pair[0] not in self._never_text] for pairs in found)
        return [([each for each, _ in pairs], [offsets for _, offsets in pairs]) for pairs in kept]

    def encode_words(self, sentences: list[list[str]]) -> list[list[list[int]]]:
        """For each word of each sentence the ids of its pieces; a word that has none is unknown."""
        words = list(dict.fromkeys(word for sentence in sentences for word in sentence))
        pieces = dict(zip(words, self.encode(words)))
        return [[list(pieces[word]) or [self.unknown] for word in sentence] for sentence in sentences]


def _words(texts: Iterable[str], normalizer: normalizers.BertNormalizer) -> Counter[str]:
    """How often each word occurs."""
    chunks: Counter[str] = Counter()
    for text in texts:
        chunks.update(encodable(text).split(" "))  # where words always end, so that each chunk is looked at only once
    words: Counter[str] = Counter()
    splitter = pre_tokenizers.BertPreTokenizer()
    for chunk, count in chunks.items():
        for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(chunk)):
            if len(word) <= LONGEST_WORD:
                words[word] += count
    return words


def _alphabet(words: Counter[str]) -> list[str]:
    """The pieces of one character, sorted: those that begin a word, then those that continue one."""
    characters: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            characters[character] += count
    kept = sorted(characters, key=lambda each: (-characters[each], each))[:LARGEST_ALPHABET]
    inside = {character for word in words for character in word[1:]}
    return [*sorted(kept), *(CONTINUING + character for character in sorted(inside.intersection(kept)))]


def _learnt(words: Counter[str], alphabet: list[str], vocabulary: int) -> dict[str, int]:
    """The ids of the special tokens, the alphabet, and the longer pieces that the words yield."""
    model = tokenizers.Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary,
        min_frequency=2,  # a pair of pieces seen once says nothing about the next corpus
        show_progress=False,
        # The trainer numbers continuing pieces in the order of a hash table, another in each run, and of two pairs
        # that are equally frequent joins the one with lower numbers: here all have theirs before it begins.
        special_tokens=[*SPECIAL, *alphabet],
        limit_alphabet=0,
        continuing_subword_prefix=CONTINUING,
    )
    model.train_from_iterator(_repeated(words), trainer)
    return model.get_vocab()


def _repeated(words: Counter[str]) -> Iterator[str]:
    """Strings in which each word stands as often as it was counted."""
    for word, count in words.items():
        most = COUNTED_AT_ONCE // len(word)
        yield from (f"{word} " * min(most, count - done) for done in range(0, count, most))


def _word_piece(
    vocabulary: dict[str, int], unknown: str, normalizer: normalizers.BertNormalizer
) -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=unknown, continuing_subword_prefix=CONTINUING))
    made.normalizer = normalizer
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(prefix=CONTINUING)
    return made


def _read_lines(file: Path) -> dict[str, int]:
    """The vocabulary of a vocab.txt, which is BERT's unless the tokenizer_config.json beside it says otherwise."""
    found = entries_beside(file, "tokenizer_config.json").get("tokenizer_class")
    if found not in (None, "BertTokenizer", "BertTokenizerFast"):
        raise ConfigError(f"{file} is the vocabulary of a {found}, which cuts words otherwise; give a tokenizer.json")
    try:
        lines = file.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not text in UTF-8 ({error}); copy it again") from error
    return {token: each for each, token in enumerate(lines)}


def _set_normalizer(normalizer: normalizers.BertNormalizer, file: Path) -> None:
    """Make the choices that the tokenizer_config.json beside a tokenizer's file names."""
    entries = entries_beside(file, "tokenizer_config.json")
    for name, attribute in _NORMALIZER_SETTINGS.items():
        if name not in entries:
            continue
        value = entries[name]
        if not isinstance(value, bool) and (name != "strip_accents" or value is not None):
            raise ConfigError(f"{name} beside {file} is {value!r}; make it true or false in tokenizer_config.json")
        setattr(normalizer, attribute, value)
