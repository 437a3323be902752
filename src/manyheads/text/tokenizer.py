"""Text to ids and back, thin over the `tokenizers` library."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from manyheads.core.checksums import refuse_changed
from manyheads.core.errors import ConfigError
from manyheads.core.files import parse_json
from manyheads.core.words import counted
from manyheads.text.checks import library_errors, refuse_growth, refuse_one_string

PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
COMMON_PADS = (PAD, "[PAD]")
COMMON_ENDS = (END, "<|endoftext|>", "[SEP]", "<eos>")
COMMON_UNKNOWNS = (UNKNOWN, "[UNK]")
BESIDE = ("special_tokens_map.json", "tokenizer_config.json")  # what is said of it in files of their own
BYTES = 256  # of which every one has a token
LARGEST = 10_000_000  # tokens; the largest vocabularies published have a million

_CANNOT_ENCODE = "the tokenizer cannot encode a text", "its tokenizer.json may be damaged: use another"
# Half a surrogate pair is legal in a Python string (JSON may hold one) but has no UTF-8 bytes.
# A word so long is learned from in parts: to learn it whole takes the square of its length.
_LONG_WORD = re.compile(r"(\S{10000})")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_BYTE_TOKEN = re.compile("<0x([0-9A-Fa-f]{2})>")


class FileTokenizer:
    """A tokenizer.json, and what does not depend on the model that it is for."""

    def __init__(self, model: tokenizers.Tokenizer, names: dict[str, str], **settings: Any):
        """`names` are its special tokens by their role elsewhere, {"eos_token": "</s>"}, and saved with `settings`."""
        self._names, self._settings = names, settings
        model.no_padding()
        model.no_truncation()
        model.encode_special_tokens = True
        self._model = model
        self._special_ids = frozenset(each for each, token in model.get_added_tokens_decoder().items() if token.special)
        # The largest id counts, not the number of tokens: some published vocabularies have holes.
        self._size = max(model.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        with library_errors(*_CANNOT_ENCODE):
            found = [model.encode(*texts).ids for texts in (("", None), ("a", None), ("a", "b"))]
        beyond = max((each for ids in found for each in ids), default=-1)
        if beyond >= self._size:
            raise ConfigError(f"the tokenizer puts id {beyond} around texts, but its ids end at {self._size - 1}")

    def decode(self, rows: list[list[int]]) -> list[str]:
        """The text of each row of ids; special tokens, and ids that the tokenizer does not have, are left out."""
        with library_errors("the tokenizer cannot write these ids as a text", "it is damaged"):
            return self._model.decode_batch([[each for each in row if each not in self._special_ids] for row in rows])

    def encodings(self, texts: Sequence[Any], *, wrapped: bool = False, special: bool = False, places: bool = False):
        """What the library makes of texts, or of pairs of them; `places` asks where in a text each token stands."""
        refuse_one_string(texts)
        clean = [encodable(text) if isinstance(text, str) else tuple(map(encodable, text)) for text in texts]
        model = self._recognising if special else self._model
        encode = model.encode_batch if places else model.encode_batch_fast
        with library_errors(*_CANNOT_ENCODE):
            return encode(clean, add_special_tokens=wrapped)

    def id_of(self, name: str) -> int:
        """The id of a token that must be there."""
        return id_of_token(self._model, name)

    def encode(self, texts: list[str], *, special: bool = False) -> list[list[int]]:
        """The ids of each text, nothing around; with `special`, special tokens spelt out in it are recognised."""
        never = frozenset() if special else self._never_text
        rows = [encoding.ids for encoding in self.encodings(texts, special=special)]
        return [ids if never.isdisjoint(ids) else [each for each in ids if each not in never] for ids in rows]

    @cached_property
    def _recognising(self) -> tokenizers.Tokenizer:
        # A second one, since the library keeps the choice in the tokenizer, where other threads would see it change.
        return self._copy()

    def _copy(self) -> tokenizers.Tokenizer:
        return tokenizers.Tokenizer.from_str(self._model.to_str())

    @cached_property
    def _never_text(self) -> frozenset[int]:
        # What the model itself says for an unknown word may stand in a text; other special tokens may not.
        return self._special_ids - {self._model.token_to_id(self._unknown or "")}

    def writes_nothing(self, token_id: int) -> bool:
        """Whether decoding leaves this id out."""
        return token_id in self._special_ids or self._model.id_to_token(token_id) is None

    def byte(self, token_id: int) -> int | None:
        """The byte that this id stands for, where decoding joins such bytes to characters (Llama's byte fallback)."""
        return self._fallback.get(token_id)

    @cached_property
    def _fallback(self) -> dict[int, int]:
        if '"ByteFallback"' not in self._parts:
            return {}
        found = {each: _BYTE_TOKEN.fullmatch(token) for token, each in self._model.get_vocab().items()}
        return {each: int(match[1], 16) for each, match in found.items() if match}

    @cached_property
    def longest(self) -> int:
        """Characters of the longest token: a text of more than so many times so many has more tokens."""
        return max(map(len, self._model.get_vocab()), default=1)

    def pieces(self, ids: list[int]) -> list[str]:
        """One readable string per id, for the axes of plots.

        The mark of a space is shown as nothing; a byte that is no character by itself as its number, `\\xf0`.
        """
        added = self._model.get_added_tokens_decoder()
        letters = byte_of_letter() if '"ByteLevel"' in self._parts else {}
        return [self._piece(each, letters if each not in added else {}) for each in ids]

    def _piece(self, each: int, letters: dict[str, int]) -> str:
        token = self._model.id_to_token(each)
        if token is None:
            return f"<{each}>"  # models often have more rows than their tokenizer has tokens
        if letters and all(letter in letters for letter in token):
            token = bytes(letters[letter] for letter in token).decode("utf-8", errors="backslashreplace")
            return token.removeprefix(" ")
        return token.removeprefix("▁")

    def words(self) -> dict[int, str]:
        """The ids that stand for a word or a mark by themselves, each with it: no special tokens, no pieces of words.

        A piece that begins a word is taken for the word that it spells.
        """
        vocabulary, model = self._model.get_vocab(), self._model.model
        if isinstance(model, models.WordLevel) and max(map(len, vocabulary.keys() - special_tokens(self._model))) == 1:
            return {}  # its tokens are characters
        letters = byte_of_letter() if '"ByteLevel"' in self._parts else {}
        ids = sorted(each for each in vocabulary.values() if each not in self._special_ids)
        found = {each: _whole_word(model, str(self._model.id_to_token(each)), letters) for each in ids}
        return {each: word for each, word in found.items() if word}

    @cached_property
    def _parts(self) -> str:
        description = json.loads(self._model.to_str())
        return json.dumps([description["pre_tokenizer"], description["decoder"]])

    def save(self, directory: Path, length: int | None = None) -> None:
        """Write tokenizer.json and, for `transformers`, tokenizer_config.json; `length` is the model's longest text."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", **self._names}
        config |= {"clean_up_tokenization_spaces": False, **self._settings}
        if length is not None:
            config["model_max_length"] = length
        if self._unknown is not None:
            config.setdefault("unk_token", self._unknown)
        (directory / "tokenizer.json").write_text(self._model.to_str(pretty=True), encoding="utf-8")
        (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

    @property
    def _unknown(self) -> str | None:
        return getattr(self._model.model, "unk_token", None) or first_known(self._model, COMMON_UNKNOWNS)

    def __len__(self) -> int:
        return self._size


class Tokenizer(FileTokenizer):
    """A tokenizer.json with the three ids that a translator needs.

    Text is only ever text: a line that spells out "</s>" never ends there.  Those we train encode it letter by letter;
    a published one whose words include its own pad and end loses them from the line.
    """

    def __init__(self, model: tokenizers.Tokenizer, *, pad: str, end: str):
        names = {"pad_token": pad, "eos_token": end}
        super().__init__(model, names, model_max_length=512, split_special_tokens=True)  # text is only text there too
        self.pad: int = id_of_token(model, pad)
        self.end: int = id_of_token(model, end)
        if self.pad == self.end:
            raise ConfigError(
                f"{pad} is both the padding and the end of a line, so that no model could learn to stop; "
                f"name another token as pad or end"
            )
        self.start: int = self.pad
        self._special_ids |= {self.pad, self.end}  # not every published tokenizer marks its own as special
        if model.encode("").ids[-1:] != [self.end]:
            # Into the tokenizer itself, not only into `encode`, so that what is saved does the same elsewhere.
            ending = processors.TemplateProcessing(
                single=["$A", end], pair=["$A", "$B", end], special_tokens=[(end, self.end)]
            )
            before = model.post_processor
            model.post_processor = ending if before is None else processors.Sequence([before, ending])

    @classmethod
    def train(cls, lines: Iterable[str], vocabulary: int, symbols: Sequence[str] = ()) -> "Tokenizer":
        """Learn a byte-level BPE of at most `vocabulary` tokens; a small corpus may yield fewer.

        `symbols` are tokens that no text has, such as the brackets of trees.
        """
        special = [END, UNKNOWN, *symbols]
        refuse_small(vocabulary, len(special) + 1, f"{len(special) + 1} special tokens")
        model = tokenizers.Tokenizer(models.BPE(unk_token=UNKNOWN))
        # The added space makes a line's first word the same token as that word elsewhere; the decoder takes it off.
        model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        model.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
        learn_pairs(model, lines, vocabulary - 1, special)
        # Marian's order, the pad behind all others: CTranslate2 cuts the last row off as the one it has no need of.
        model.add_special_tokens([PAD])
        return cls(model, pad=PAD, end=END)

    @classmethod
    def load(cls, path: Path, *, pad: str | None = None, end: str | None = None) -> "Tokenizer":
        """Open a tokenizer.json, or the directory that holds one.

        Tokens not named here are those that the files beside it name, else the first of the common ones it has.
        """
        file = file_at(Path(path))
        model = read_model(file)
        named = named_beside(file)
        pad = pad or named.get("pad_token") or first_known(model, COMMON_PADS)
        end = end or named.get("eos_token") or first_known(model, COMMON_ENDS)
        if end is None:
            raise ConfigError(f"{file} has no token that ends a sentence, such as {END}; {_special_tokens(model)}")
        if pad is None or pad == end:  # as in GPT-2's; the last id is where Marian has it
            model.add_special_tokens([PAD])
            pad = PAD
        return cls(model, pad=str(pad), end=str(end))

    def symbols(self) -> dict[str, int]:
        """The ids of special tokens beside those that every translator has."""
        added = self._model.get_added_tokens_decoder()
        usual = {self.pad, self.end, self._model.token_to_id(self._unknown or "")}
        return {token.content: each for each, token in added.items() if token.special and each not in usual}

    def encode(self, lines: list[str]) -> list[list[int]]:  # type: ignore
        """The ids of each line, with `end` once, as the last."""
        return [self._ended(encoding.ids) for encoding in self.encodings(lines, wrapped=True)]

    def _ended(self, ids: list[int]) -> list[int]:
        if ids.count(self.end) == 1 and self.pad not in ids:
            return ids
        return [each for each in ids if each not in (self.pad, self.end)] + [self.end]


def _whole_word(model: Any, token: str, letters: dict[str, int]) -> str | None:
    """The word that a token of a tokenizer's model spells; None for one that goes on with a word."""
    if isinstance(model, models.WordLevel):
        return token
    if isinstance(model, models.WordPiece):
        return None if token.startswith(model.continuing_subword_prefix) else token
    if ending := getattr(model, "end_of_word_suffix", None):  # GPT-1's, where the last piece is marked
        return token.removesuffix(ending) if token.endswith(ending) else None
    if letters:
        token = bytes(letters.get(letter, 0) for letter in token).decode("utf-8", errors="replace")
    word = token.removeprefix(" ").removeprefix("▁")
    # A mark has no space before it where it follows a word.
    begins = word != token or not any(letter.isalnum() for letter in word)
    return word if begins and word.isprintable() and not {" ", "▁", "\ufffd"} & {*word} else None


def refuse_large(vocabulary: int) -> None:
    """A vocabulary that no corpus yields is not asked for: the library sets memory aside for all of it."""
    if vocabulary > LARGEST:
        raise ConfigError(f"a vocabulary of {vocabulary:,} tokens is asked for; it can have at most {LARGEST:,}")


def refuse_small(vocabulary: int, special: int, names: str) -> None:
    """A byte-level vocabulary must have room for its special tokens, which are called `names`, and for every byte."""
    refuse_large(vocabulary)
    if vocabulary < BYTES + special:
        raise ConfigError(
            f"a vocabulary of {counted(vocabulary, 'token')} cannot hold the {BYTES} bytes and {names}; "
            f"ask for {BYTES + special} or more"
        )


def refuse_wordless(vocabulary: int, special: int) -> None:
    """A vocabulary of whole words must have room for one beside its special tokens."""
    refuse_large(vocabulary)
    if vocabulary <= special:
        raise ConfigError(
            f"a vocabulary of {vocabulary} has no place for words beside its {special} special tokens; "
            f"ask for {special + 1} or more"
        )


def learn_pairs(model: tokenizers.Tokenizer, texts: Iterable[str], vocabulary: int, special: list[str]) -> None:
    """Byte-pair encoding: join the most frequent pair of tokens, again and again."""
    refuse_one_string(texts)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,  # a pair of tokens seen once says nothing about the next corpus
        show_progress=False,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    parts = (part for text in texts for part in _LONG_WORD.split(encodable(text)))
    model.train_from_iterator(parts, trainer)


def file_at(path: Path, older: str = "") -> Path:
    """The tokenizer.json that a path names, by itself or as the directory that holds it, there also an older one.

    One that is not as the checksums beside it say is refused.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    if older and not file.is_file() and (path / older).is_file():
        file = path / older
    if not file.is_file():
        raise ConfigError(f"{file} is not there; give a tokenizer.json or a directory that holds one")
    refuse_changed(file.parent, file.name, *BESIDE)
    return file


def read_model(file: Path) -> tokenizers.Tokenizer:
    """Open a tokenizer.json."""
    with library_errors(f"{file} is not a tokenizer that can be read", "save it again"):
        model = tokenizers.Tokenizer.from_file(str(file))
    refuse_growth(model, file)
    return model


def encodable(line: str) -> str:
    """The line, with U+FFFD in place of every half of a surrogate pair."""
    return _LONE_SURROGATE.sub("\ufffd", line)


def id_of_token(model: tokenizers.Tokenizer, token: str) -> int:
    """The id of a token that must be there."""
    token_id = model.token_to_id(token)
    if token_id is None:
        raise ConfigError(f"the tokenizer has no token {token}; {_special_tokens(model)}")
    return token_id


def mark_special(model: tokenizers.Tokenizer, tokens: Iterable[str]) -> None:
    """Make these tokens special where they are not yet."""
    already = {token.content for token in model.get_added_tokens_decoder().values() if token.special}
    model.add_special_tokens([token for token in dict.fromkeys(tokens) if token not in already])


def special_tokens(model: tokenizers.Tokenizer) -> list[str]:
    """The tokens that no text has."""
    return [token.content for token in model.get_added_tokens_decoder().values() if token.special]


def _special_tokens(model: tokenizers.Tokenizer) -> str:
    found = special_tokens(model)
    return f"its special tokens are {', '.join(found)}" if found else "it has no special tokens"


def first_known(model: tokenizers.Tokenizer, names: Iterable[str]) -> str | None:
    """The first of these tokens that the tokenizer has."""
    return next((name for name in names if model.token_to_id(name) is not None), None)


def named_beside(file: Path) -> dict[str, str]:
    """The special tokens that the files beside a tokenizer.json name, e.g. {"pad_token": "<pad>"}."""
    named: dict[str, str] = {}
    for name in BESIDE:
        for role, token in entries_beside(file, name).items():
            content = token.get("content") if isinstance(token, dict) else token
            if role.endswith("_token") and isinstance(content, str):
                named[role] = content
    return named


def entries_beside(file: Path, name: str) -> dict[str, Any]:
    """What the JSON object of this name beside a tokenizer's file holds; nothing where there is none."""
    beside = file.with_name(name)
    if not beside.is_file():
        return {}
    try:
        table = parse_json(beside.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{beside} cannot be read ({error}); save the tokenizer again") from error
    if not isinstance(table, dict):
        raise ConfigError(f"{beside} is not a JSON object; save the tokenizer again")
    return table


def byte_of_letter() -> dict[str, int]:
    """The printable letter that byte-level tokenizers write for each byte, reversed (GPT-2's table)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + rank): byte for rank, byte in enumerate(others)}
