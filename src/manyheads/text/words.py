"""The word vocabulary: a tokenizer whose tokens are whole words and marks, for models that read words."""

from collections.abc import Iterable
from pathlib import Path

import tokenizers
from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers

from manyheads.core.errors import ConfigError
from manyheads.text.checks import refuse_one_string
from manyheads.text.tokenizer import (
    PAD,
    UNKNOWN,
    FileTokenizer,
    encodable,
    file_at,
    id_of_token,
    named_beside,
    read_model,
    refuse_wordless,
)

SPECIAL = (PAD, UNKNOWN)
"""The first ids, in this order; no word has one of them."""
WORD = r"\w+(?:['-]\w+)*|[^\w\s]"
"""A word keeps the apostrophes and hyphens inside it (don't, second-rate); every other mark stands alone."""


class WordTokenizer(FileTokenizer):
    """A tokenizer.json of whole words; a word that is not among them is unknown.

    A text is only ever text: "<unk>" spelt out in it is a word between two marks.
    """

    def __init__(self, model: tokenizers.Tokenizer, *, named: dict[str, str] | None = None):
        names = {"pad_token": PAD, "unk_token": UNKNOWN, **(named or {})}
        super().__init__(model, names, model_input_names=["input_ids", "attention_mask"])
        self.pad, self.unknown = (id_of_token(model, names[role]) for role in ("pad_token", "unk_token"))

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary: int, *, lowercase: bool = True, least: int = 1) -> "WordTokenizer":
        """The commonest words of texts, `vocabulary` of them with the special tokens, each there `least` times."""
        refuse_one_string(texts)
        refuse_wordless(vocabulary, len(SPECIAL))
        model = _untrained({}, lowercase)
        trainer = trainers.WordLevelTrainer(
            vocab_size=vocabulary, min_frequency=least, show_progress=False, special_tokens=list(SPECIAL)
        )
        model.train_from_iterator((encodable(text) for text in texts), trainer)
        return cls(model)

    @classmethod
    def of(cls, words: Iterable[str], *, lowercase: bool = True) -> "WordTokenizer":
        """One that knows these words, in this order, each as it is once it is cut from a text."""
        tokens = dict.fromkeys([*SPECIAL, *words])
        model = _untrained({token: each for each, token in enumerate(tokens)}, lowercase)
        model.add_special_tokens(list(SPECIAL))
        return cls(model)

    @classmethod
    def load(cls, path: Path) -> "WordTokenizer":
        """Open a tokenizer.json, or the directory that holds one."""
        file = file_at(Path(path))
        model = read_model(file)
        if not isinstance(model.model, models.WordLevel):
            raise ConfigError(f"{file} does not cut texts into whole words; give a tokenizer that does")
        named = {role: token for role, token in named_beside(file).items() if role in ("pad_token", "unk_token")}
        return cls(model, named=named)

    def vocabulary(self) -> dict[str, int]:
        """Every word with its id, without the special tokens, in the order of ids."""
        found = sorted(self._model.get_vocab().items(), key=lambda each: each[1])
        return {word: each for word, each in found if each not in self._special_ids}


def words_of(text: str, *, lowercase: bool = True) -> list[str]:
    """A text as it is cut into words and marks."""
    model = _untrained({}, lowercase)
    cut = model.pre_tokenizer.pre_tokenize_str(model.normalizer.normalize_str(encodable(text)))  # type: ignore
    return [word for word, _ in cut]


def _untrained(vocabulary: dict[str, int], lowercase: bool) -> tokenizers.Tokenizer:
    """The order of steps; a curly apostrophe is as good as a straight one."""
    model = tokenizers.Tokenizer(models.WordLevel(vocabulary or {UNKNOWN: 0}, unk_token=UNKNOWN))
    steps = [normalizers.NFC(), normalizers.Replace("’", "'"), *([normalizers.Lowercase()] if lowercase else [])]
    model.normalizer = normalizers.Sequence(steps)
    model.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), behavior="removed", invert=True)
    return model
