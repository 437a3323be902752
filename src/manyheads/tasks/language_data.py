"""The data of a language model: raw text, or pairs of texts, as token ids on disk."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.files import directory_written_atomically
from manyheads.core.log import counting, say
from manyheads.data.batches import Batches
from manyheads.data.pairs import joined_batches, write_pairs
from manyheads.data.ragged import Store
from manyheads.data.readers.corpus import read_pairs
from manyheads.data.readers.documents import Piece, find_texts, read_documents
from manyheads.data.text import text_batches, write_text
from manyheads.text.language import LanguageTokenizer

CHARACTERS = "characters"
DELIMITER = "<delimiter>"
HELD_OUT = 0.1  # of the text, its end: nanoGPT's split
PIECE_LETTERS = 100_000  # pieces small enough that all cores have some
PAIRS_HELD_OUT_EVERY = 50


@dataclass(frozen=True, kw_only=True)
class TextData:
    """Which text a language model learns from, and how it is cut into tokens and batches."""

    text: tuple[str, ...] = ()
    """Files, folders or patterns such as data/*.txt, plain, .gz or .xz; no text at all: a sample."""
    field: str = "text"
    """Which field of each line of a .jsonl file is a document; any other file is one document."""
    valid: tuple[str, ...] = ()
    """Text for validation; without any, the last tenth of the text is held out, up to `valid_tokens`."""
    pairs: tuple[str, ...] = ()
    """In place of text: files with pairs, .tsv or .jsonl, learned as `source <delimiter> target`."""
    fields: tuple[str, ...] = ()
    """Which columns (from 1) or JSON fields of `pairs` are source and target; unset: 1 and 2, or source and target."""
    valid_pairs: tuple[str, ...] = ()
    """Pairs for validation; without any, every 50th pair is held out."""
    learn: str = "target"
    """What of a pair is predicted: target, or all of it."""
    tokenizer: str | None = None
    """A tokenizer.json, or characters; unset: byte-level BPE of `vocabulary` tokens is trained on the text."""
    vocabulary: int = 8000
    """Tokens of the tokenizer that is trained."""
    rows: int = 32
    """Windows of model.context tokens in a batch."""
    document_mask: bool = False
    """Whether attention ends at the borders of documents, which stand end to end in a window."""
    valid_tokens: int = 1_000_000
    """At most so many tokens are validated on."""

    def __post_init__(self):
        if self.text and self.pairs:
            raise ConfigError("both data.text and data.pairs are given; a model learns from one of them")
        if self.valid and not self.text:
            raise ConfigError("data.valid is given without data.text; give both or neither")
        if self.valid_pairs and not self.pairs:
            raise ConfigError("data.valid_pairs is given without data.pairs; give both or neither")
        if self.fields and len(self.fields) != 2:
            raise ConfigError(f"data.fields names {len(self.fields)} fields; it must name two, source and target")
        if self.learn not in ("target", "all"):
            raise ConfigError(f"data.learn is '{self.learn}'; it can be target or all")
        for name in ("rows", "valid_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"data.{name} is {getattr(self, name)}; it must be at least 1")


@dataclass(frozen=True)
class Prepared:
    """The data of a run, ready to train on."""

    tokenizer: LanguageTokenizer
    train: Store
    valid: Store

    def batches(self, data: TextData, context: int, *, seed: int, shuffle: bool) -> Batches:
        """Batches of the training data, shuffled, or of the validation data, in order."""
        store = self.train if shuffle else self.valid
        if not data.pairs:
            return text_batches(store, rows=data.rows, length=context, seed=seed, shuffle=shuffle)
        return joined_batches(
            store,
            tokens=max(data.rows * context // 3, 1),  # of the target; source and padding about double it
            pad=0,
            delimiter=self.tokenizer.identity(DELIMITER),
            counts=data.learn,
            seed=seed,
            shuffle=shuffle,
        )


def prepare(data: TextData, context: int, run: Path) -> Prepared:
    """Reads all text, trains the tokenizer where none is given, and lays the token ids down in the run.

    A run that goes on finds them in `run/tokenizer`, `run/data` and `run/valid` and asks for no file again.
    """
    tokenizer_directory, store_directory, valid_directory = run / "tokenizer", run / "data", run / "valid"
    if not (store_directory / "store.json").exists():
        tokenizer = _tokenizer(data)
        if data.pairs:
            tokenizer = tokenizer.with_special([DELIMITER])
            # A text alone is a source that waits for its target, here and wherever the tokenizer is opened.
            tokenizer = tokenizer.with_template(["$A", DELIMITER], ["$A", DELIMITER, "$B"])
        with directory_written_atomically(tokenizer_directory) as unfinished:
            tokenizer.save(unfinished, context)
        # The training store last: once it is there, the data is whole.
        (_write_pairs if data.pairs else _write_text)(data, tokenizer, context, store_directory, valid_directory)
    tokenizer = LanguageTokenizer.load(tokenizer_directory)
    train = Store.open(store_directory)
    if (valid_directory / "store.json").exists():
        valid = Store.open(valid_directory)
    else:
        held = held_out(len(train), data.valid_tokens)
        train, valid = train.part(0, len(train) - held), train.part(len(train) - held, len(train))
    if not data.pairs:
        valid = valid.part(0, min(len(valid), data.valid_tokens))
        if min(len(train), len(valid)) < 2:
            raise DataError(
                f"{len(train)} tokens to train on and {len(valid)} to validate on are too few to predict one from "
                "another; give more text"
            )
    return Prepared(tokenizer, train, valid)


def held_out(tokens: int, most: int) -> int:
    """How many of the last tokens of a text are for validation."""
    return min(tokens - int(tokens * (1 - HELD_OUT)), most)


def check_files(data: TextData) -> None:
    """Looks for every file and its format, reading none."""
    for names in (data.text, data.valid):
        find_texts(names)
    for names in (data.pairs, data.valid_pairs):
        _read_pairs(names, data)


def _tokenizer(data: TextData) -> LanguageTokenizer:
    if data.tokenizer and data.tokenizer != CHARACTERS:
        return LanguageTokenizer.load(Path(data.tokenizer))
    with counting("reading the text and training the tokenizer, letters") as show:
        letters = counted(_texts(data), show)
        if data.tokenizer == CHARACTERS:
            return LanguageTokenizer.characters(letters)
        return LanguageTokenizer.train(letters, data.vocabulary)


def _texts(data: TextData) -> Iterator[str]:
    if data.pairs:
        return (side for pair in _read_pairs(data.pairs, data) for side in pair)
    return (piece.text for piece in _documents(data.text, data))


def _documents(names: tuple[str, ...], data: TextData, part: str = "train") -> Iterable[Piece]:
    if not data.text:
        return sample_documents(part)
    return read_documents(find_texts(names), data.field, PIECE_LETTERS)


def sample_documents(part: str) -> Iterator[Piece]:
    """The English half of the sample corpus, eight sentences a document."""
    from manyheads.data.sample import sample_corpus

    sentences = [pair.source for pair in sample_corpus()[part]]
    return (Piece("\n".join(sentences[first : first + 8]) + "\n", True) for first in range(0, len(sentences), 8))


def _write_text(data: TextData, tokenizer: LanguageTokenizer, context: int, train: Path, valid: Path) -> None:
    if data.valid or not data.text:
        write_text(valid, _documents(data.valid, data, "valid"), tokenizer, end=tokenizer.end)
    with counting("cutting the text into tokens, letters") as show:
        pieces = _documents(data.text, data)
        store = write_text(train, pieces, tokenizer, end=tokenizer.end, on_progress=show)
    letters, count = store.about["letters"], store.about["documents"]
    documents = f"{count:,} document{'s' if count > 1 else ''}"
    say(f"{letters:,} letters in {documents}: {len(store):,} tokens of {len(tokenizer):,} kinds")


def _write_pairs(data: TextData, tokenizer: LanguageTokenizer, context: int, train: Path, valid: Path) -> None:
    longest = (context - 1) // 2
    if data.valid_pairs:
        held, rest = _read_pairs(data.valid_pairs, data), _read_pairs(data.pairs, data)
    else:
        held = (pair for number, pair in enumerate(_read_pairs(data.pairs, data), 1) if _is_held_out(number))
        rest = (pair for number, pair in enumerate(_read_pairs(data.pairs, data), 1) if not _is_held_out(number))
    try:
        write_pairs(valid, _ended(held), _Sides(tokenizer), longest=longest)
    except DataError as error:
        raise DataError(f"there are no validation pairs; give them with --valid-pairs ({error})") from None
    with counting("cutting pairs into tokens") as show:
        store = write_pairs(train, _ended(rest), _Sides(tokenizer), longest=longest, on_progress=show)
    say(f"{len(store):,} training pairs, {len(tokenizer):,} kinds of tokens")
    if store.about["too_long"] or store.about["empty"]:
        say(
            f"dropped: {store.about['too_long']:,} pairs with a side over {longest} tokens (half of model.context), "
            f"{store.about['empty']:,} with an empty side"
        )


def _is_held_out(number: int) -> bool:
    return number % PAIRS_HELD_OUT_EVERY == 0


_END = "\0"  # no text that can be read holds it


def _ended(pairs: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    return ((source, target + _END if target.strip() else target) for source, target in pairs)


class _Sides:
    """Encodes both sides of pairs, with the end of a text behind targets alone."""

    def __init__(self, tokenizer: LanguageTokenizer):
        if tokenizer.end is None:
            raise ConfigError("this tokenizer has no token that ends a text, so that no target could ever be complete")
        self.tokenizer, self.end = tokenizer, tokenizer.end

    def encode(self, lines: list[str]) -> list[list[int]]:
        rows = self.tokenizer.encode([line.removesuffix(_END) for line in lines])
        return [[*row, self.end] if line.endswith(_END) else row for row, line in zip(rows, lines, strict=True)]

    def __len__(self) -> int:
        return len(self.tokenizer)


def _read_pairs(names: tuple[str, ...], data: TextData) -> Iterator[tuple[str, str]]:
    fields = (data.fields[0], data.fields[1]) if data.fields else None
    return read_pairs(pairs=[Path(name) for name in names], fields=fields)


def counted(texts: Iterable[str], show: Callable[[int], None]) -> Iterator[str]:
    """The texts one by one, each after its letters are counted in what is shown."""
    letters = 0
    for text in texts:
        letters += len(text)
        show(letters)
        yield text
