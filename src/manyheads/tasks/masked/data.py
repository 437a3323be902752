"""The data of BERT's pre-training: raw text as sentences of token ids on disk."""

from pathlib import Path

from manyheads.core.errors import ConfigError
from manyheads.core.log import counting, say
from manyheads.core.words import counted
from manyheads.data.ragged import Store
from manyheads.data.sentences import document_bounds, split, write_sentences
from manyheads.tasks.language.data import HELD_OUT, Texts
from manyheads.tasks.masked.recipe import MaskedData
from manyheads.text.encoder import EncoderTokenizer


def train_tokenizer(texts: Texts, data: MaskedData) -> EncoderTokenizer:
    """The tokenizer of the text, or the one that is given."""
    if data.tokenizer:
        tokenizer = EncoderTokenizer.load(Path(data.tokenizer))
        if tokenizer.mask is None:
            raise ConfigError(f"{data.tokenizer} has no [MASK], which a word is hidden behind; give another tokenizer")
        return tokenizer
    with counting("reading the text and training the tokenizer, letters") as show:
        return EncoderTokenizer.train(texts.letters(show), data.vocabulary, lowercase=data.lowercase)


def store_sentences(texts: Texts, tokenizer: EncoderTokenizer, context: int, directory: Path) -> None:
    """Lays the ids of all sentences down, and those of the text for validation where there is one."""
    longest = longest_sentence(context)
    if not texts.holds_out:
        write_sentences(directory / "valid", texts.documents("valid"), tokenizer, longest=longest)
    with counting("cutting the text into tokens, letters") as show:
        train = directory / "train"
        store = write_sentences(train, texts.documents(), tokenizer, longest=longest, on_progress=show)
    documents, tokens = len(document_bounds(store)) - 1, len(store["ids"].flat)
    found = f"{counted(len(store), 'sentence')} in {counted(documents, 'document')}"
    say(f"{found}: {tokens:,} tokens of {len(tokenizer):,} kinds")


def open_sentences(directory: Path, most: int) -> tuple[Store, Store]:
    """The sentences to learn from and those to validate on, at most so many tokens of them."""
    train = Store.open(directory / "train")
    if not (directory / "valid").exists():
        return split(train, HELD_OUT, most)
    valid = Store.open(directory / "valid")
    return train, split(valid, 1.0, most)[1] if len(valid["ids"].flat) > most else valid


def longest_sentence(context: int) -> int:
    """How many tokens a sentence may have, so that any two fit into a row."""
    if context < 5:
        raise ConfigError(f"model.context is {context}, which leaves no place for two texts; raise it")
    return (context - 3) // 2
