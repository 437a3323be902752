"""The data of a language model: raw text, or pairs of texts, as token ids on disk."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.log import counting, say
from manyheads.core.words import counted
from manyheads.data.pairs import write_pairs
from manyheads.data.ragged import Store
from manyheads.data.readers.documents import Piece, find_texts, read_documents
from manyheads.data.text import write_text
from manyheads.tasks.language.recipe import TextData
from manyheads.tasks.translate.data import Corpus, reader_of, say_dropped
from manyheads.text.language import LanguageTokenizer

CHARACTERS, WORDS = "characters", "words"
DELIMITER = "<delimiter>"
HELD_OUT = 0.1  # of the text, its end: nanoGPT's split
PIECE_LETTERS = 100_000  # pieces small enough that all cores have some


class Texts:
    """The documents of a run, read anew each time they are gone through: a text may be larger than memory."""

    def __init__(self, text: tuple[str, ...], valid: tuple[str, ...], field: str):
        self.text, self.field = text, field
        self.valid = valid
        find_texts(text)
        find_texts(valid)

    @property
    def holds_out(self) -> bool:
        """Whether the end of the text is what is validated on."""
        return bool(self.text) and not self.valid

    def documents(self, part: str = "train") -> Iterable[Piece]:
        """Those of the part train or valid."""
        if not self.text:
            return _sample_documents(part)
        return read_documents(find_texts(self.text if part == "train" else self.valid), self.field, PIECE_LETTERS)

    def letters(self, show: Callable[[int], None]) -> Iterator[str]:
        """The pieces of the text to learn from, each after its letters are counted in what is shown."""
        return letters_counted((piece.text for piece in self.documents()), show)


def _sample_documents(part: str) -> Iterator[Piece]:
    """The English half of the sample corpus, eight sentences a document."""
    from manyheads.data.sample import sample_corpus

    sentences = [pair.source for pair in sample_corpus()[part]]
    return (Piece("\n".join(sentences[first : first + 8]) + "\n", True) for first in range(0, len(sentences), 8))


def examples_of(data: TextData, seed: int = 1) -> Texts | Corpus:
    """What the files of a run hold; each file is looked for, and none read."""
    if not data.pairs:
        return Texts(data.text, data.valid, data.field)
    train, valid = (reader_of((), (), names, data.fields) for names in (data.pairs, data.valid_pairs))
    return Corpus(train, valid if data.valid_pairs else None, seed)


def train_tokenizer(examples: Texts | Corpus, data: TextData) -> LanguageTokenizer:
    """The tokenizer of the text, or the one that is given; one for pairs knows what stands between them."""
    if data.tokenizer and data.tokenizer not in (CHARACTERS, WORDS):
        tokenizer = LanguageTokenizer.load(Path(data.tokenizer))
    else:
        with counting("reading the text and training the tokenizer, letters") as show:
            if isinstance(examples, Corpus):
                letters = letters_counted((side for pair in examples.read() for side in pair), show)
            else:
                letters = examples.letters(show)
            if data.tokenizer == CHARACTERS:
                tokenizer = LanguageTokenizer.characters(letters)
            elif data.tokenizer == WORDS:
                tokenizer = LanguageTokenizer.word_level(letters, data.vocabulary)
            else:
                tokenizer = LanguageTokenizer.train(letters, data.vocabulary)
    if isinstance(examples, Texts):
        return tokenizer
    # A text alone is a source that waits for its target, here and wherever the tokenizer is opened.
    return tokenizer.with_special([DELIMITER]).with_template(["$A", DELIMITER], ["$A", DELIMITER, "$B"])


def held_out_tokens(tokens: int, most: int) -> int:
    """How many of the last tokens of a text are for validation."""
    return min(tokens - int(tokens * (1 - HELD_OUT)), most)


def store_text(texts: Texts, tokenizer: LanguageTokenizer, directory: Path) -> None:
    """Lays the ids of the text down, and those of the text for validation where there is one."""
    if not texts.holds_out:
        write_text(directory / "valid", texts.documents("valid"), tokenizer, end=tokenizer.end)
    with counting("cutting the text into tokens, letters") as show:
        train = directory / "train"
        store = write_text(train, texts.documents(), tokenizer, end=tokenizer.end, on_progress=show)
    letters, count = store.about["letters"], store.about["documents"]
    say(f"{letters:,} letters in {counted(count, 'document')}: {len(store):,} tokens of {len(tokenizer):,} kinds")


def open_text(directory: Path, most: int) -> tuple[Store, Store]:
    """The text to learn from and the text to validate on, at most so many tokens of it."""
    train = Store.open(directory / "train")
    if (directory / "valid").exists():
        valid = Store.open(directory / "valid")
    else:
        count, held = len(train), held_out_tokens(len(train), most)
        say(f"held out for validation: the last {held:,} of {count:,} tokens")
        train, valid = train.part(0, count - held), train.part(count - held, count)
    valid = valid.part(0, min(len(valid), most))
    if min(len(train), len(valid)) < 2:
        raise DataError(
            f"{counted(len(train), 'token')} to train on and {len(valid)} to validate on are too few to predict one "
            "from another; give more text"
        )
    return train, valid


def store_pairs(pairs: Corpus, tokenizer: LanguageTokenizer, context: int, directory: Path) -> None:
    """Lays the ids of the pairs down, each target with its end."""
    if tokenizer.end is None:
        raise ConfigError("this tokenizer has no token that ends a text, so that no target could ever be complete")
    longest, end = (context - 1) // 2, tokenizer.end
    try:
        write_pairs(directory / "valid", pairs.valid(), tokenizer, longest=longest, end=end)
    except DataError as error:
        raise DataError(f"there are no validation pairs; give them with --valid-pairs ({error})") from None
    with counting("cutting pairs into tokens") as show:
        store = write_pairs(directory / "train", pairs.train(), tokenizer, longest=longest, end=end, on_progress=show)
    say(f"{counted(len(store), 'training pair')}, {len(tokenizer):,} kinds of tokens")
    say_dropped(store, longest, "half of model.context")


def letters_counted(texts: Iterable[str], show: Callable[[int], None]) -> Iterator[str]:
    """The texts one by one, each after its letters are counted in what is shown."""
    letters = 0
    for text in texts:
        letters += len(text)
        show(letters)
        yield text
