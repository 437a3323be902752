"""Alignments of an untrained translator: the right weights for the right words, in any batch."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from helpers import randomised

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.sample import AlignedPair
from manyheads.look.alignment import Reading, score_links
from manyheads.models.conv import ConvSeq2Seq, ConvSeq2SeqConfig
from manyheads.tasks.inside import align as task
from manyheads.tasks.inside.align import (
    align,
    all_readings,
    best_reading,
    reading_of,
    score_readings,
    with_gold,
    with_translations,
)
from manyheads.tasks.inside.look import look_inside
from manyheads.tasks.translate.use import Translator
from tests.unit.tasks.tiny import TRANSLATION, transformer

PAIRS = [
    ("the cat danced", "die Katze tanzte"),
    ("the dog sees a bird in the house today", "der Hund sieht heute einen Vogel im Haus"),
    ("", ""),
    ("cats", "Katzen, ja"),
    ("unalignable", " "),
]


@pytest.fixture(scope="module")
def translator():
    torch.manual_seed(1)
    model = transformer(decoder_layers=2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "cross_attention" in name:
                parameter *= 4  # so that untrained heads have opinions, and different ones
    return Translator(model, TRANSLATION)


def test_weights_are_those_of_the_tokens_of_each_word(translator):
    """By another way: the tokens' weights, joined by the pieces that make up each word."""
    (found,) = align(translator, [PAIRS[1]])
    view = look_inside(translator, *PAIRS[1]).view("cross")
    target_tokens, source_tokens = view.rows, view.columns
    assert len(source_tokens) > len(found.source) + 1  # some words have several tokens
    layer = view.weights[-1].mean(axis=0)
    columns, rows = spans(source_tokens, found.source), spans(target_tokens, found.target)
    expected = [[layer[row][:, column].sum(axis=1).mean() for column in columns] for row in rows]
    np.testing.assert_allclose(found.weights, expected, atol=1e-5)


def spans(tokens, words):
    """The token numbers of each word, found by spelling the words out."""
    found, place = [], 0
    for word in words:
        numbers, spelt = [], ""
        while spelt != word:
            spelt += tokens[place].replace("␣", "")  # a token of a space
            numbers.append(place)
            place += 1
        found.append(numbers)
    return found


def test_a_batch_changes_nothing_and_blank_sides_are_empty(translator, monkeypatch):
    together = list(align(translator, PAIRS))
    assert [(found.source, found.target) for found in together] == [(s.split(), t.split()) for s, t in PAIRS]
    alone = [found for pair in PAIRS for found in align(translator, [pair])]
    monkeypatch.setattr(task, "BATCH_CELLS", 1)
    for others in (alone, list(align(translator, PAIRS))):
        for one, other in zip(together, others, strict=True):
            np.testing.assert_allclose(one.weights, other.weights, atol=1e-6)
    assert [len(found.links) for found in together] == [3, 8, 0, 2, 0]


def test_every_reading_reads_something_else(translator):
    readings = all_readings(translator)
    assert len(set(readings)) == len(readings) == 2 * (1 + 3) * 2
    assert readings[:5] == [Reading(0), Reading(0, 0), Reading(0, 1), Reading(0, 2), Reading(1)]
    found = {next(align(translator, PAIRS[:1], reading)).weights.tobytes() for reading in readings}
    assert len(found) == len(readings)
    default = next(align(translator, PAIRS[:1])).weights
    np.testing.assert_array_equal(default, next(align(translator, PAIRS[:1], Reading(1))).weights)


def test_one_head_is_read_once_and_by_the_formula_of_its_own():
    """The convolutional translator's: its keys and values are the halves of the memory, and nothing is scaled."""
    torch.manual_seed(3)
    special = {"pad": TRANSLATION.pad, "start": TRANSLATION.start, "end": TRANSLATION.end}
    model = ConvSeq2Seq(ConvSeq2SeqConfig(vocabulary=len(TRANSLATION), width=20, layers=2, **special)).eval()
    one = Translator(randomised(model, 0.6), TRANSLATION)
    assert all_readings(one) == [Reading(layer, 0, late) for late in (False, True) for layer in (0, 1)]
    assert reading_of(one) == Reading(1)
    (found,) = align(one, [PAIRS[1]])
    source, target = TRANSLATION.encode(PAIRS[1])
    asked = []
    attention = model.decoder.blocks[1].cross_attention
    hook = attention.register_forward_pre_hook(lambda module, given, named: asked.append(given), with_kwargs=True)
    with torch.inference_mode():
        model.states(torch.tensor([source]), torch.tensor([[TRANSLATION.start, *target[:-1]]]))
    hook.remove()
    ((query, memory),) = asked
    expected = (query @ memory.chunk(2, dim=-1)[0].mT).softmax(dim=-1)[0].numpy()
    view = look_inside(one, *PAIRS[1]).view("cross")
    np.testing.assert_allclose(view.weights[1, 0], expected, atol=1e-5)
    columns, rows = spans(view.columns, found.source), spans(view.rows, found.target)
    words = [[expected[row][:, column].sum(axis=1).mean() for column in columns] for row in rows]
    np.testing.assert_allclose(found.weights, words, atol=1e-5)
    assert found.weights.max() > 0.5  # far from even


def test_heads_keep_their_numbers_when_others_are_removed_and_those_not_there_are_refused(translator):
    fewer = Translator(deepcopy(translator.model), translator.tokenizer)
    last = fewer.model.decoder.blocks[-1].cross_attention
    last.remove([0])
    assert [reading.head for reading in all_readings(fewer)] == [None, 0, 1, 2, None, 1, 2] * 2
    for head in (1, 2):
        one, other = (next(align(each, PAIRS[:1], Reading(1, head))) for each in (translator, fewer))
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-5)
    assert reading_of(translator) == Reading(1)
    assert reading_of(translator, 0, 2, True) == Reading(0, 2, True)
    for who, where, said in (
        (fewer, {"head": 0}, "no head 0"),
        (translator, {"layer": 2}, "no layer 2.* has 2"),
        (translator, {"head": 3}, "no head 3.* has 3"),
        (translator, {"layer": -1}, "no layer -1"),
    ):
        with pytest.raises(ConfigError, match=said):
            reading_of(who, **where)


@pytest.mark.parametrize(
    ("source", "said"), [("a " * 1025, "sentence 2 has 1,025 words"), ("a" * 4000, r"sentence 2 has \d,\d{3} tokens")]
)
def test_a_sentence_of_thousands_of_words_is_refused(translator, source, said):
    with pytest.raises(DataError, match=f"{said}; at most 1,024 can be aligned: break it up"):
        list(align(translator, [PAIRS[0], (source, "a")]))
    if " " in source:  # and before it is translated
        with pytest.raises(DataError, match=said):
            list(with_translations(translator, ["a", source]))


def test_readings_are_scored_and_the_best_is_found(translator):
    wanted = Reading(0, 1, shifted=True)
    truth = [found.links for found in align(translator, PAIRS, wanted)]
    gold = [AlignedPair(*pair, links, links) for pair, links in zip(PAIRS, truth)]
    scores = score_readings(translator, gold, all_readings(translator))
    assert scores[wanted].error_rate == 0
    assert best_reading(scores) == wanted
    worst = max(score.error_rate for score in scores.values())
    assert worst > 0.2  # others differ
    plain = Reading(1)
    by_hand = score_links([found.links for found in align(translator, PAIRS, plain)], truth, truth)
    assert scores[plain] == by_hand


def test_gold_is_read_line_by_line(tmp_path):
    path = tmp_path / "gold.txt"
    path.write_text("0-0 1-1 2?1\n\n", encoding="utf-8")
    (first, second) = with_gold([PAIRS[0], PAIRS[2]], path)
    assert (first.sure, first.possible) == ({(0, 0), (1, 1)}, {(0, 0), (1, 1), (2, 1)})
    assert (first.source, first.target) == PAIRS[0]
    assert not second.possible
    with pytest.raises(DataError, match=r"gold.txt has 2 lines for 1 sentence pair"):
        with_gold(PAIRS[:1], path)
    path.write_text("0-0\n0-0\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"gold.txt, line 2: 0-0 links source word 0, but the source has 0 words"):
        with_gold([PAIRS[0], PAIRS[2]], path)
    path.write_text("0?0 1?1\n\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"gold.txt has no sure link, such as 0-0, to score against"):
        with_gold([PAIRS[0], PAIRS[2]], path)


def test_sentences_without_translations_are_translated(translator):
    found = list(with_translations(translator, (pair[0] for pair in PAIRS)))
    assert [source for source, _ in found] == [pair[0] for pair in PAIRS]
    assert [target for _, target in found] == translator.translate([pair[0] for pair in PAIRS])
