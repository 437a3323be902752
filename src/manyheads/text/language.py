"""The tokenizer of language models: text to ids and back, with nothing added."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, pre_tokenizers, processors, trainers

from manyheads.core.errors import ConfigError
from manyheads.text.checks import library_errors, refuse_one_string
from manyheads.text.tokenizer import (
    UNKNOWN,
    FileTokenizer,
    byte_of_letter,
    encodable,
    file_at,
    first_known,
    id_of_token,
    learn_pairs,
    mark_special,
    named_beside,
    read_model,
    refuse_small,
    refuse_wordless,
)

END_OF_TEXT = "<|endoftext|>"
COMMON_ENDS = (END_OF_TEXT, "</s>", "<|end_of_text|>", "<eos>")


class LanguageTokenizer(FileTokenizer):
    """A tokenizer.json with the id that ends a text, and those that its own template puts before and behind one.

    A text is only ever text: "<|endoftext|>" spelt out in it is encoded letter by letter, unless the caller asks for
    special tokens to be recognised.  A published tokenizer whose words include its own special tokens loses them.
    """

    def __init__(self, model: tokenizers.Tokenizer, *, end: str | None, named: Mapping[str, str] | None = None):
        """`named` are tokens by their role elsewhere, {"bos_token": "<s>"}, which are special and saved as such."""
        self.end: int | None = None if end is None else id_of_token(model, end)
        names = {role: token for role, token in (named or {}).items() if model.token_to_id(token) is not None}
        if end is not None:
            names = {**names, "eos_token": end, "pad_token": names.get("pad_token", end)}
        mark_special(model, names.values())
        # Older versions of `transformers` also give token types, which GPT and GPT-2 would add to their embeddings.
        super().__init__(model, names, model_input_names=["input_ids", "attention_mask"])
        before, behind = _around_a_text(model)
        self.start: list[int] = before
        # An end that a tokenizer puts behind a text would leave a language model nothing to say.
        self.behind: list[int] = [each for each in behind if each != self.end]

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary: int) -> "LanguageTokenizer":
        """Learn a byte-level BPE of at most `vocabulary` tokens, as GPT-2's; a small corpus may yield fewer."""
        refuse_small(vocabulary, 1, END_OF_TEXT)
        model = _byte_level(models.BPE())
        learn_pairs(model, texts, vocabulary, [END_OF_TEXT])
        return cls(model, end=END_OF_TEXT)

    @classmethod
    def characters(cls, texts: Iterable[str]) -> "LanguageTokenizer":
        """Every character of these texts is a token; any other is unknown."""
        refuse_one_string(texts)
        seen: set[str] = set()
        for text in texts:
            seen.update(encodable(text))
        vocabulary = {token: each for each, token in enumerate([END_OF_TEXT, UNKNOWN, *sorted(seen)])}
        model = tokenizers.Tokenizer(models.WordLevel(vocabulary, UNKNOWN))
        model.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")  # a dot would pass over newlines
        model.decoder = decoders.Fuse()  # without one, decoding puts spaces between tokens
        model.add_special_tokens([END_OF_TEXT, UNKNOWN])
        return cls(model, end=END_OF_TEXT)

    @classmethod
    def word_level(cls, texts: Iterable[str], vocabulary: int) -> "LanguageTokenizer":
        """The commonest words of texts that are cut into words by spaces already, and the end of a line as one more.

        Any other word is unknown, as is "<unk>" itself, which such texts have in the place of rare words.
        """
        refuse_one_string(texts)
        special = [END_OF_TEXT, UNKNOWN]
        refuse_wordless(vocabulary, len(special))
        model = tokenizers.Tokenizer(models.WordLevel({UNKNOWN: 0}, UNKNOWN))
        model.pre_tokenizer = pre_tokenizers.Split(Regex(r"\n|\S+"), behavior="removed", invert=True)
        trainer = trainers.WordLevelTrainer(vocab_size=vocabulary, show_progress=False, special_tokens=special)
        model.train_from_iterator((encodable(text) for text in texts), trainer)
        return cls(model, end=END_OF_TEXT)

    @classmethod
    def load(cls, path: Path) -> "LanguageTokenizer":
        """Open a tokenizer.json, a directory that holds one, or one with GPT-2's older vocab.json and merges.txt.

        The end of a text is the token that the files beside it name, else the first of the common ones it has.
        """
        path = Path(path)
        file = file_at(path, older="vocab.json")
        model = _read_pair(file, path / "merges.txt") if file == path / "vocab.json" else read_model(file)
        named = named_beside(file)
        return cls(model, end=named.get("eos_token") or first_known(model, COMMON_ENDS), named=named)

    def encode_wrapped(self, texts: list[str] | list[tuple[str, str]]) -> list[list[int]]:
        """The ids of each text or pair, with those that the tokenizer's own template puts around it."""
        return [encoding.ids for encoding in self.encodings(texts, wrapped=True)]

    def with_special(self, names: Sequence[str]) -> "LanguageTokenizer":
        """A copy in which these are special tokens; those that are new stand behind all others."""
        model = self._copy()
        model.add_special_tokens(list(names))
        return self._like(model)

    def with_template(self, single: list[str], pair: list[str] | None = None) -> "LanguageTokenizer":
        """A copy that wraps one text as `single`, e.g. ["<start>", "$A", "<extract>"], and two ("$A", "$B") as `pair`.

        Without `pair`, two texts follow one another with nothing between.
        """
        names = dict.fromkeys(name for name in [*single, *(pair or [])] if name not in ("$A", "$B"))
        model = self._copy()
        before = _token_free(json.loads(model.to_str())["post_processor"])
        model.post_processor = processors.TemplateProcessing(
            single=single, pair=pair or ["$A", "$B"], special_tokens=[(name, self.id_of(name)) for name in names]
        )
        if before:
            description = json.loads(model.to_str())
            both = [*before, description["post_processor"]]
            description["post_processor"] = {"type": "Sequence", "processors": both}
            model = tokenizers.Tokenizer.from_str(json.dumps(description))
        return self._like(model)

    def _like(self, model: tokenizers.Tokenizer) -> "LanguageTokenizer":
        return LanguageTokenizer(model, end=self._names.get("eos_token"), named=self._names)


def _byte_level(model: models.BPE) -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


def _read_pair(vocabulary: Path, merges: Path) -> tokenizers.Tokenizer:
    """The byte-level BPE of GPT-2's older two files."""
    if not merges.is_file():
        raise ConfigError(f"{merges} is not there, which must stand beside {vocabulary.name}; copy it from its source")
    with library_errors(f"{vocabulary} and {merges.name} cannot be read", "copy them again"):
        model = _byte_level(models.BPE.from_file(str(vocabulary), str(merges)))
    if not byte_of_letter().keys() <= model.get_vocab().keys():  # GPT-1's files have the same names
        raise ConfigError(f"{vocabulary} lacks some of the 256 bytes that GPT-2's has; give a tokenizer.json instead")
    if model.token_to_id(END_OF_TEXT) is not None:
        model.add_special_tokens([END_OF_TEXT])
    return model


def _around_a_text(model: tokenizers.Tokenizer) -> tuple[list[int], list[int]]:
    """The ids that the tokenizer's own template puts before and behind a text."""
    encoding = model.encode("a")
    marked = list(zip(encoding.ids, encoding.special_tokens_mask))
    if all(mark for _, mark in marked):
        return [], []  # this tokenizer knows no "a", so that before and after cannot be told apart
    before = [each for each, _ in takewhile(lambda pair: pair[1], marked)]
    behind = [each for each, _ in takewhile(lambda pair: pair[1], reversed(marked))]
    return before, behind[::-1]


def _token_free(processor: dict | None) -> list[dict]:
    """The parts of a post-processor that put no tokens around a text."""
    if processor is None:
        return []
    parts = processor["processors"] if processor["type"] == "Sequence" else [processor]
    return [part for part in parts if part["type"] == "ByteLevel"]
