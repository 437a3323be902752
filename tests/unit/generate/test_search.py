import math
import random
from itertools import product

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from manyheads.core.errors import CheckpointError, ConfigError
from manyheads.generate.beam import beam_search, length_penalty
from manyheads.generate.greedy import decoded, greedy
from manyheads.generate.sample import Sampler, Sampling
from manyheads.generate.steps import CachedSteps, SpecialIds, Steps, WholeSteps
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.nn.positions import PositionsConfig
from manyheads.ops import device
from manyheads.tasks.translate.use import decode_all

PAD, END = 0, 1
VOCABULARY = SpecialIds(stop_ids=(END,), banned=(PAD,))
SIZE = 5


def logits_after(sentence: int, history: tuple[int, ...], spread: float = 2.0) -> list[float]:
    """A language of its own for each sentence; the token that is never produced is the likeliest of all."""
    source = random.Random(hash((sentence, history)))
    return [9.0, *(source.gauss(0, spread) for _ in range(SIZE - 1))]


class Language(Steps):
    """Steps whose logits are known for every history, and which notes what it is asked."""

    def __init__(self, sentences, beams=1):
        self.rows = [[(sentence, ())] * beams for sentence in sentences]
        self.sizes = []
        self.first = torch.full((len(sentences) * beams,), PAD)

    def __call__(self, ids):
        self.sizes.append(len(ids))
        new = iter(ids.tolist())
        self.rows = [[(sentence, (*history, next(new))) for sentence, history in beams] for beams in self.rows]
        assert next(new, None) is None  # as many ids as there are rows
        return torch.tensor([logits_after(sentence, history[1:]) for beams in self.rows for sentence, history in beams])

    def select(self, beams, sentences):
        if beams is not None:
            self.rows = [[old[each] for each in row] for old, row in zip(self.rows, beams.tolist(), strict=True)]
        if sentences is not None:
            self.rows = [self.rows[each] for each in sentences.tolist()]


def log_probability(sentence, ids):
    total = 0.0
    for place, each in enumerate(ids):
        logits = logits_after(sentence, tuple(ids[:place]))
        total += logits[each] - math.log(sum(map(math.exp, logits)))
    return total


def every_hypothesis(sentence, limit, alpha):
    """Every sentence that ends within the limit or is cut off there, best first."""
    found = []
    for length in range(1, limit + 1):
        for body in product(range(2, SIZE), repeat=length - 1):
            found.append(((*body,), log_probability(sentence, [*body, END]) / ((5 + length) / 6) ** alpha))
    for body in product(range(2, SIZE), repeat=limit):
        found.append(((*body,), log_probability(sentence, body) / ((5 + limit) / 6) ** alpha))
    return sorted(found, key=lambda each: -each[1])


def searched(sentences, limits, ends=(END,), **options):
    special = SpecialIds(stop_ids=ends, banned=(PAD,))
    return beam_search(Language(sentences, options.get("beams", 4)), torch.tensor(limits), special, **options)


def flat(hypotheses):
    return [(tuple(each.ids), pytest.approx(each.score, abs=1e-4)) for each in hypotheses]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("sentence", range(4))
def test_a_beam_that_holds_everything_finds_everything_in_order(sentence, alpha):
    expected = every_hypothesis(sentence, 4, alpha)
    assert len(expected) == 1 + 3 + 9 + 27 + 81
    found = searched([sentence], [4], beams=len(expected), alpha=alpha)[0]
    assert len({tuple(each.ids) for each in found if len(each.ids) < 4}) == 40
    assert [each.score for each in found] == pytest.approx([score for _, score in expected], abs=1e-4)
    assert [tuple(each.ids) for each in found[:10]] == [ids for ids, _ in expected[:10]]


def test_the_length_penalty_changes_who_is_best():
    best = {alpha: [every_hypothesis(s, 4, alpha)[0][0] for s in range(12)] for alpha in (0.0, 2.0)}
    assert sum(map(len, best[2.0])) > sum(map(len, best[0.0]))
    for alpha, expected in best.items():
        found = searched(range(12), [4] * 12, beams=60, alpha=alpha)
        assert [tuple(each[0].ids) for each in found] == expected


def test_the_penalty_is_the_papers():
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 0.6) == pytest.approx(2**0.6)
    assert length_penalty(20, 0.0) == 1.0
    assert torch.allclose(length_penalty(torch.tensor([1, 13]), 0.5), torch.tensor([1.0, 3**0.5]))


def plain_beam(sentence, limit, beams, alpha, ends=(END,)):
    """The same search for one sentence in lists: with one end the best 2k extensions, of which the best k may end."""
    running, finished = [((), 0.0)], []
    for length in range(1, limit + 1):
        extended = []
        for ids, score in running:
            logits = logits_after(sentence, ids)
            normaliser = math.log(sum(map(math.exp, logits)))
            extended += [((*ids, each), score + logits[each] - normaliser) for each in range(1, SIZE)]
        extended = sorted(extended, key=lambda each: -each[1])[: (1 + len(ends)) * beams]
        for ids, score in extended[:beams]:
            if ids[-1] in ends or length == limit:
                finished.append(
                    (tuple(each for each in ids if each not in ends), score / length_penalty(length, alpha))
                )
        running = [each for each in extended if each[0][-1] not in ends][:beams]
        finished = sorted(finished, key=lambda each: -each[1])[:beams]
        if len(finished) == beams and finished[-1][1] >= running[0][1] / length_penalty(limit, alpha):
            break
    return finished


@pytest.mark.parametrize("beams", [1, 2, 3, 4])
@pytest.mark.parametrize(("alpha", "ends"), [(0.0, (END,)), (0.6, (END,)), (0.6, (END, 3)), (0.6, (4, END, 2))])
def test_a_narrow_beam_is_the_plain_search(beams, alpha, ends):
    for sentence in range(40):
        found = searched([sentence], [7], beams=beams, alpha=alpha, ends=ends)[0]
        assert flat(found) == plain_beam(sentence, 7, beams, alpha, ends)


class Half(Language):
    """The same from a model in half precision."""

    def __call__(self, ids):
        return super().__call__(ids).bfloat16()


class Rounded(Half):
    """What half precision says, in full."""

    def __call__(self, ids):
        return super().__call__(ids).float()


def test_a_search_in_half_precision_is_that_over_the_same_logits_in_full():
    for run in (
        lambda kind: beam_search(kind(range(30), 4), torch.full((30,), 6), VOCABULARY),
        lambda kind: [[each] for each in greedy(kind(range(30)), torch.full((30,), 6), VOCABULARY)],
    ):
        assert [flat(each) for each in run(Half)] == [[(tuple(h.ids), h.score) for h in each] for each in run(Rounded)]


@pytest.mark.parametrize("beams", [1, 3])
def test_sentences_in_a_batch_are_as_alone_each_with_its_own_limit(beams):
    # One in nine at its limit does not leave the batch at once, and must not go on all the same.
    limits = [9, 9, 2, 9, 9, 9, 9, 9, 9, 1, 4, 6]
    together = searched(range(12), limits, beams=beams)
    alone = [searched([sentence], [limit], beams=beams)[0] for sentence, limit in enumerate(limits)]
    assert [flat(each) for each in together] == [[(tuple(h.ids), h.score) for h in each] for each in alone]
    assert all(len(each.ids) <= limit for found, limit in zip(together, limits) for each in found)
    assert any(len(each.ids) > 4 for found in together for each in found)


def test_results_are_best_first_and_never_hold_what_may_not_be():
    for found in searched(range(20), [6] * 20, beams=4):
        scores = [each.score for each in found]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(each.ids) for each in found}) == len(found)
        assert all(PAD not in each.ids and END not in each.ids for each in found)
    # and the test can tell: nothing else would keep the likeliest token away
    found = beam_search(Language([1], 4), torch.tensor([6]), SpecialIds(stop_ids=(END,)), beams=4)[0]
    assert PAD in found[0].ids


def test_a_beam_wider_than_the_vocabulary_gives_what_there_is():
    found = searched([3], [1], beams=9)[0]
    assert sorted(tuple(each.ids) for each in found) == [(), (2,), (3,), (4,)]


def test_greedy_takes_the_likeliest_each_time():
    limits = [1, 8, 8, 3, 8, 8, 8, 8, 2, 8]
    found = greedy(Language(range(10)), torch.tensor(limits), VOCABULARY)
    for sentence, (limit, hypothesis) in enumerate(zip(limits, found)):
        ids = []
        while len(ids) < limit and END not in ids:
            logits = logits_after(sentence, tuple(ids))
            ids.append(max(range(1, SIZE), key=logits.__getitem__))
        assert hypothesis.ids == [each for each in ids if each != END]
        assert hypothesis.score == pytest.approx(log_probability(sentence, ids), abs=1e-4)
        assert len(hypothesis.ids) <= limit
    assert len({len(each.ids) for each in found}) > 2


def test_finished_sentences_leave_the_batch():
    for rows_each, run in (
        (1, lambda steps, limits: greedy(steps, limits, VOCABULARY)),
        (3, lambda steps, limits: beam_search(steps, limits, VOCABULARY, beams=3)),
    ):
        steps = Language(range(40), rows_each)
        run(steps, torch.tensor([2] * 10 + [12] * 30))
        assert steps.sizes[0] == 40 * rows_each
        assert steps.sizes[-1] < 40 * rows_each / 4
        assert all(later <= earlier for earlier, later in zip(steps.sizes[1:], steps.sizes[2:]))


def transformer(**changes) -> Transformer:
    torch.manual_seed(11)
    sizes = {"vocabulary": 23, "width": 12, "layers": 2, "heads": 3, "inner": 20, "pad": 22, "start": 22, "end": 1}
    model = Transformer(TransformerConfig(**{**sizes, "norm_order": "pre", **changes})).eval()
    nn.init.normal_(model.encoder.embedding.weight, std=1.0)  # so that it has much to say
    return model


@pytest.fixture(scope="module")
def model():
    model = transformer()
    model.output.bias[1] += 4  # and comes to an end
    return model


def rows(count):
    generator = torch.Generator().manual_seed(count)
    return [
        [*torch.randint(2, 22, (1 + (5 * number) % 13,), generator=generator).tolist(), 1] for number in range(count)
    ]


@pytest.mark.parametrize("beam", [1, 4])
def test_cached_is_uncached_and_batched_is_alone_in_the_order_given(model, beam):
    sources = rows(19)
    assert len({len(row) for row in sources}) > 5
    found = decode_all(model, sources, beam=beam, limit=15)
    assert [len(each) for each in found] == [beam] * 19
    for others in (
        decode_all(model, sources, beam=beam, limit=15, steps=WholeSteps),
        [decode_all(model, [row], beam=beam, limit=15)[0] for row in sources],
        decode_all(model, sources, beam=beam, limit=15, batch_cells=200),
        decode_all(model, sources[::-1], beam=beam, limit=15)[::-1],
    ):
        assert [[each.ids for each in row] for row in others] == [[each.ids for each in row] for row in found]
        assert [each.score for row in others for each in row] == pytest.approx(
            [each.score for row in found for each in row], abs=1e-4
        )
    lengths = {len(each.ids) for row in found for each in row}
    assert len(lengths) > 1  # some end by themselves
    assert not any(22 in each.ids for row in found for each in row)


def test_a_translation_has_at_most_fifty_tokens_more_than_its_source(model):
    limits = []

    class Noted(CachedSteps):
        def __init__(self, model, memory, memory_mask, capacity, beams):
            limits.append(capacity)
            super().__init__(model, memory, memory_mask, capacity, beams)

    decode_all(model, [[3, 4, 1], [5, 1]], beam=2, steps=Noted)
    assert limits == [53]
    assert decode_all(model, [], beam=2) == []


@pytest.mark.parametrize("beam", [1, 2])
def test_a_table_of_positions_ends_a_translation_that_would_pass_it(beam):
    model = transformer(positions=PositionsConfig(kind="learned", length=9))
    model.output.bias[1] = -1e4  # it never ends by itself
    assert [len(row[0].ids) for row in decode_all(model, [[3, 4, 1], [5] * 8 + [1]], beam=beam)] == [9, 9]
    with pytest.raises(ConfigError, match="10 positions asked, the table has 9"):
        decode_all(model, [[5] * 10], beam=beam)


@pytest.mark.parametrize(
    "positions",
    [
        *(PositionsConfig(kind=kind) for kind in ("learned", "relative", "buckets", "rotary", "alibi", "none")),
        PositionsConfig(kind="rotary", scaling="dynamic_ntk", factor=2.0),
        PositionsConfig(kind="rotary", scaling="yarn", factor=4.0, length=6),
    ],
    ids=lambda positions: f"{positions.kind}-{positions.scaling}",
)
def test_beams_with_any_positions_are_the_same_cached_or_not(positions):
    model = transformer(key_value_heads=1, positions=positions)
    rows = [[3, 4, 5, 1], [6, 7, 1], [8, 9, 10, 11, 12, 1], [3, 9, 1], [2, 1]]
    found, expected = (decode_all(model, rows, beam=3, limit=9, steps=steps) for steps in (CachedSteps, WholeSteps))
    assert [[each.ids for each in row] for row in found] == [[each.ids for each in row] for row in expected]
    scores = [[each.score for each in row] for row in expected]
    assert_close([[each.score for each in row] for row in found], scores, atol=1e-4, rtol=0)


class Broken(Language):
    """Steps of a model whose weights are damaged: from its second step on one sentence has no numbers."""

    def __call__(self, ids):
        logits = super().__call__(ids)
        if len(self.sizes) > 1:
            logits[-1, 3] = torch.nan
        return logits


@pytest.mark.parametrize("search", ["beam", "greedy", "greedy, scored", "sampled", "likeliest"])
def test_logits_that_are_no_numbers_are_a_sentence(search):
    beams, limits = 2 if search == "beam" else 1, torch.tensor([6, 6])
    chooser = Sampler(
        Sampling(temperature=float(search == "sampled")), [[2], [2]], [0, 1], SIZE, (PAD,), torch.device("cpu")
    )

    def run(kind):
        steps = kind([3, 4], beams)
        if search == "beam":
            return beam_search(steps, limits, VOCABULARY, beams=beams)
        if search.startswith("greedy"):
            return greedy(steps, limits, VOCABULARY, scored=search != "greedy")
        return [*decoded(steps, limits, VOCABULARY, chooser)]

    assert len(run(Language)) >= 2
    with pytest.raises(CheckpointError, match=r"no number \(NaN\) for its next token: its weights are damaged"):
        run(Broken)


def test_more_beams_than_memory_holds_or_anybody_waits_for_are_refused(monkeypatch):
    model = Transformer(TransformerConfig(vocabulary=31, width=12, layers=1, heads=3, inner=17)).eval()
    with pytest.raises(ConfigError, match="a beam of 1,000,000 is asked for; it can be at most 10,000"):
        decode_all(model, [[5, 6, END]], beam=1_000_000)
    monkeypatch.setattr(device, "free_memory", lambda where: 10**8)
    with pytest.raises(ConfigError, match=r"10,000 texts at once need .* room for \d"):
        decode_all(model, [[5, 6, END]], beam=10_000)
    assert decode_all(model, [[5, 6, END]], beam=3)
