"""The data of BERT's pre-training: raw text as sentences of token ids on disk."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.files import directory_written_atomically
from manyheads.core.log import counting, say
from manyheads.data.batches import Batches
from manyheads.data.masked_rows import masked_batches
from manyheads.data.ragged import Store
from manyheads.data.readers.documents import Piece, find_texts, read_documents
from manyheads.data.sentences import document_bounds, split, write_sentences
from manyheads.tasks.language_data import HELD_OUT, PIECE_LETTERS, counted, sample_documents
from manyheads.text.encoder import EncoderTokenizer


@dataclass(frozen=True, kw_only=True)
class MaskedData:
    """Which text an encoder learns from, and how it is cut into tokens and batches."""

    text: tuple[str, ...] = ()
    """Files, folders or patterns such as data/*.txt, plain, .gz or .xz; no text at all: a sample."""
    field: str = "text"
    """Which field of each line of a .jsonl file is a document; any other file is one document."""
    valid: tuple[str, ...] = ()
    """Text for validation; without any, the last tenth of the text is held out, up to `valid_tokens`."""
    next_sentence: bool = True
    """Whether a row is two texts, and the model also learns if the second follows the first."""
    tokenizer: str | None = None
    """A tokenizer.json, or a directory that holds one or a vocab.txt; unset: WordPiece is trained on the text."""
    vocabulary: int = 8000
    """Tokens of the tokenizer that is trained."""
    lowercase: bool = True
    """Whether the tokenizer that is trained makes capitals small."""
    rows: int = 64
    """Rows of model.context tokens in a batch."""
    valid_tokens: int = 1_000_000
    """At most so many tokens are validated on."""

    def __post_init__(self):
        if self.valid and not self.text:
            raise ConfigError("data.valid is given without data.text; give both or neither")
        for name in ("rows", "valid_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"data.{name} is {getattr(self, name)}; it must be at least 1")


@dataclass(frozen=True)
class Prepared:
    """The data of a run, ready to train on."""

    tokenizer: EncoderTokenizer
    train: Store
    valid: Store

    def batches(self, data: MaskedData, context: int, *, seed: int, shuffle: bool) -> Batches:
        """Batches of the training data, new ones each epoch, or of the validation data, always the same."""
        store = self.train if shuffle else self.valid
        settings = {"rows": data.rows, "next_sentence": data.next_sentence, "seed": seed, "shuffle": shuffle}
        return batches_of(store, self.tokenizer, context, **settings)


def batches_of(store: Store, tokenizer: EncoderTokenizer, context: int, **settings: Any) -> Batches:
    """Batches of a store with the marks of its tokenizer; `settings` are those of masked_batches."""
    marks = {name: getattr(tokenizer, name) for name in ("start", "separator", "mask", "pad")}
    special = (tokenizer.unknown,)
    return masked_batches(store, length=context, vocabulary=len(tokenizer), special=special, **marks, **settings)


def longest_sentence(context: int) -> int:
    """How many tokens a sentence may have, so that any two fit into a row."""
    if context < 5:
        raise ConfigError(f"model.context is {context}, which leaves no place for two texts; raise it")
    return (context - 3) // 2


def prepare(data: MaskedData, context: int, run: Path) -> Prepared:
    """Reads all text, trains the tokenizer where none is given, and lays the token ids down in the run.

    A run that goes on finds them in `run/tokenizer`, `run/data` and `run/valid` and asks for no file again.
    """
    tokenizer_directory, store_directory, valid_directory = run / "tokenizer", run / "data", run / "valid"
    longest = longest_sentence(context)
    if not (store_directory / "store.json").exists():
        tokenizer = _tokenizer(data)
        with directory_written_atomically(tokenizer_directory) as unfinished:
            tokenizer.save(unfinished, context)
        if data.valid or not data.text:
            write_sentences(valid_directory, _documents(data.valid, data, "valid"), tokenizer, longest=longest)
        # The training store last: once it is there, the data is whole.
        with counting("cutting the text into tokens, letters") as show:
            pieces = _documents(data.text, data, "train")
            store = write_sentences(store_directory, pieces, tokenizer, longest=longest, on_progress=show)
        documents, tokens = len(document_bounds(store)) - 1, len(store["ids"].flat)
        say(f"{len(store):,} sentences in {documents:,} documents: {tokens:,} tokens of {len(tokenizer):,} kinds")
    train = Store.open(store_directory)
    if (valid_directory / "store.json").exists():
        valid = Store.open(valid_directory)
        valid = split(valid, 1.0, data.valid_tokens)[1] if len(valid["ids"].flat) > data.valid_tokens else valid
    else:
        train, valid = split(train, HELD_OUT, data.valid_tokens)
    prepared = Prepared(EncoderTokenizer.load(tokenizer_directory), train, valid)
    _refuse_what_teaches_nothing(prepared, data, context)
    return prepared


def _refuse_what_teaches_nothing(prepared: Prepared, data: MaskedData, context: int) -> None:
    """Before there is a run: text that makes no batches, and validation in which no word can be hidden."""
    for part, shuffle in (("train on", True), ("validate on", False)):
        try:
            prepared.batches(data, context, seed=0, shuffle=shuffle)
        except DataError as error:
            other = "" if shuffle or data.valid else ", or other text with --valid"
            raise DataError(f"of the text to {part}: {error}{other}") from None
    if (prepared.valid["ids"].flat == prepared.tokenizer.unknown).all():
        raise DataError("every word to validate on is unknown to the tokenizer; give other text with --valid")


def check_files(data: MaskedData) -> None:
    """Looks for every file, reading none."""
    for names in (data.text, data.valid):
        find_texts(names)


def _tokenizer(data: MaskedData) -> EncoderTokenizer:
    if data.tokenizer:
        tokenizer = EncoderTokenizer.load(Path(data.tokenizer))
        if tokenizer.mask is None:
            raise ConfigError(f"{data.tokenizer} has no [MASK], which a word is hidden behind; give another tokenizer")
        return tokenizer
    with counting("reading the text and training the tokenizer, letters") as show:
        letters = counted((piece.text for piece in _documents(data.text, data, "train")), show)
        return EncoderTokenizer.train(letters, data.vocabulary, lowercase=data.lowercase)


def _documents(names: tuple[str, ...], data: MaskedData, part: str) -> Iterable[Piece]:
    return read_documents(find_texts(names), data.field, PIECE_LETTERS) if data.text else sample_documents(part)
