"""Word alignment: which source word each word of a translation comes from, by the translator's own attention."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from manyheads.core.errors import DataError
from manyheads.core.words import counted
from manyheads.data.readers.corpus import Pair, read_lines
from manyheads.data.sample import AlignedPair, sample_alignments
from manyheads.look.alignment import Links, LinkScores, Reading, parse_links, score_links, strongest, word_weights
from manyheads.look.heads import attentions, refuse_unknown
from manyheads.look.record import recorded_attention
from manyheads.nn.parts import Part
from manyheads.tasks.texts import refuse_no_list, text_pairs, texts_of
from manyheads.tasks.translate.use import LONGEST_SEEN, Translator
from manyheads.text.tokenizer import Tokenizer

BATCH_CELLS = 100_000  # pairs of a source and a target position in one batch, whose weights are all held at once
TRANSLATED_AT_ONCE = 1024


@dataclass(frozen=True)
class WordAlignment:
    """A sentence pair with the weight of each source word for each target word, [target words, source words]."""

    source: list[str]
    target: list[str]
    weights: np.ndarray

    @property
    def links(self) -> Links:
        """Each target word with the source word that weighs most, as pairs of word numbers, source first, from 0."""
        return strongest(self.weights)


@dataclass(frozen=True)
class Side:
    """One side of a pair: its words, its tokens, and the number of the word that each token belongs to."""

    words: list[str]
    ids: list[int]
    word_of_token: list[int]
    """Without the end, which belongs to no word."""


def reading_of(
    translator: Translator, layer: int | None = None, head: int | None = None, shifted: bool = False
) -> Reading:
    """What is read where nothing else is said: the mean of the heads of the last layer."""
    parts = _cross_attentions(translator)
    chosen = parts[-1].layer if layer is None else layer
    refuse_unknown(parts, [chosen], None if head is None else [head])
    return Reading(chosen, head, shifted)


def all_readings(translator: Translator) -> list[Reading]:
    """Every layer, as the mean of its heads, where it has several, and head by head, as each word is written and one
    step later."""
    return [
        Reading(part.layer, head, shifted)
        for shifted in (False, True)
        for part in _cross_attentions(translator)
        for head in (None, *part.module.numbers)[part.module.heads == 1 :]
    ]


def align(translator: Translator, pairs: Iterable[Pair], reading: Reading | None = None) -> Iterator[WordAlignment]:
    """The alignment of each sentence with its translation, in order; words are what whitespace separates."""
    pairs = text_pairs(pairs, "align", "(sentence, translation)")
    for (found,) in _aligned(translator, pairs, [reading or reading_of(translator)]):
        yield found


def with_translations(translator: Translator, sentences: Iterable[str]) -> Iterator[Pair]:
    """Each sentence with the translation that the model gives it."""
    refuse_no_list(sentences, "align", "sentences")
    rest, done = iter(sentences), 0
    while chunk := texts_of(islice(rest, TRANSLATED_AT_ONCE), "align", "sentences"):
        for number, sentence in enumerate(chunk, start=done + 1):
            _refuse_long(sentence.split(), "word", number)
        yield from zip(chunk, translator.translate(chunk, first_line=done + 1), strict=True)
        done += len(chunk)


def score_readings(
    translator: Translator, pairs: Iterable[AlignedPair], chosen: Sequence[Reading]
) -> dict[Reading, LinkScores]:
    """How right each way of reading the attention is."""
    pairs = list(pairs)
    aligned = _aligned(translator, ((pair.source, pair.target) for pair in pairs), chosen)
    found = [[each.links for each in pair] for pair in aligned]
    sure, possible = [pair.sure for pair in pairs], [pair.possible for pair in pairs]
    by_reading = ([links[place] for links in found] for place in range(len(chosen)))
    return {reading: score_links(links, sure, possible) for reading, links in zip(chosen, by_reading)}


def best_reading(scores: dict[Reading, LinkScores]) -> Reading:
    """The reading with the lowest error rate; of equals, the first."""
    return min(scores, key=lambda reading: scores[reading].error_rate)


def score_sample(translator: Translator, chosen: Sequence[Reading]) -> tuple[dict[Reading, LinkScores], LinkScores]:
    """Scores readings on the sample corpus's validation set, and the best of them on its test set."""
    sets = sample_alignments()
    valid = score_readings(translator, sets["valid"], chosen)
    best = best_reading(valid)
    return valid, score_readings(translator, sets["test"], [best])[best]


def with_gold(pairs: Sequence[Pair], gold: Path) -> list[AlignedPair]:
    """Sentence pairs with the links that a file has for each, a line for a pair: `0-0 1-2 2?1`, `?` for possible."""
    lines = list(read_lines(gold))
    if len(lines) != len(pairs):
        raise DataError(
            f"{gold} has {counted(len(lines), 'line')} for {counted(len(pairs), 'sentence pair')}; "
            "give one line of links to each"
        )
    found = []
    for number, (line, (source, target)) in enumerate(zip(lines, pairs), start=1):
        links = parse_links(line, f"{gold}, line {number}", len(source.split()), len(target.split()))
        found.append(AlignedPair(source, target, *links))
    if not any(pair.sure for pair in found):
        raise DataError(f"{gold} has no sure link, such as 0-0, to score against")
    return found


def _cross_attentions(translator: Translator) -> list[Part]:
    return [part for part in attentions(translator.model) if part.kind == "cross"]


def _aligned(translator: Translator, pairs: Iterable[Pair], chosen: Sequence[Reading]) -> Iterator[list[WordAlignment]]:
    """The alignment of each pair by each reading, in order."""
    numbers = [part.module.numbers for part in _cross_attentions(translator)]  # some may have been removed
    places = [None if each.head is None else numbers[each.layer].index(each.head) for each in chosen]
    placed = [replace(each, head=place) for each, place in zip(chosen, places)]
    for batch in _batches(translator.tokenizer, pairs):
        # A side without words has nothing to look at or nobody who looks.
        full = [pair for pair in batch if pair[0].words and pair[1].words]
        recorded = zip(*_recorded(translator, full)) if full else iter(())
        for source, target in batch:
            found = [np.zeros((len(target.words), len(source.words)), np.float32)] * len(placed)
            if found[0].size:
                weights, words = next(recorded), (target.word_of_token, source.word_of_token)
                found = [word_weights(weights, *words, reading) for reading in placed]
            yield [WordAlignment(source.words, target.words, each) for each in found]


def _batches(tokenizer: Tokenizer, pairs: Iterable[Pair]) -> Iterator[list[tuple[Side, Side]]]:
    """Pairs in their order, as many at a time as leave room for the weights."""
    batch: list[tuple[Side, Side]] = []
    longest_source = longest_target = 0
    for number, pair in enumerate(pairs, start=1):
        source, target = (_side(tokenizer, text, number) for text in pair)
        longest_source = max(longest_source, len(source.ids))
        longest_target = max(longest_target, len(target.ids))
        if batch and (len(batch) + 1) * longest_source * longest_target > BATCH_CELLS:
            yield batch
            batch, longest_source, longest_target = [], len(source.ids), len(target.ids)
        batch.append((source, target))
    if batch:
        yield batch


def _refuse_long(found: list, what: str, number: int) -> None:
    if len(found) > LONGEST_SEEN:
        raise DataError(
            f"sentence {number:,} has {len(found):,} {what}s; at most {LONGEST_SEEN:,} can be aligned: break it up"
        )


def _side(tokenizer: Tokenizer, text: str, number: int) -> Side:
    words = text.split()
    _refuse_long(words, "word", number)
    # Hardly a tokenizer has tokens that span two words, so that the tokens of the first words are the first of all.
    beginnings = tokenizer.encode([" ".join(words[: count + 1]) for count in range(len(words))])
    word_of_token: list[int] = []
    for word, ids in enumerate(beginnings):
        word_of_token += [word] * (len(ids) - 1 - len(word_of_token))
    ids = beginnings[-1] if words else []
    _refuse_long(ids, "token", number)
    return Side(words, ids, word_of_token[: max(len(ids) - 1, 0)])


def _recorded(translator: Translator, batch: Sequence[tuple[Side, Side]]) -> list[np.ndarray]:
    """[pairs, heads, target tokens, source tokens] of each layer; before the first target token stands the start."""
    model = translator.model
    device = next(model.parameters()).device

    def padded(rows: Iterable[list[int]]) -> Tensor:
        tensors = [torch.tensor(row) for row in rows]
        return pad_sequence(tensors, batch_first=True, padding_value=model.config.pad).to(device)

    sources = padded(source.ids for source, _ in batch)
    before = padded([model.config.start, *target.ids[:-1]] for _, target in batch)
    with torch.inference_mode(), recorded_attention(model) as weights:
        model.states(sources, before)
    return [weights[part.name].float().cpu().numpy() for part in _cross_attentions(translator)]
