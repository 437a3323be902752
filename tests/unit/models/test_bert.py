"""BERT: its two ways around padding, what an encoder sees, and its heads."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from helpers import padded_on_a_gpu, positions, randomised
from torch import Tensor, nn
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.models.bert import Bert, BertAnswerer, BertConfig, BertEmbedder, MaskedBert
from manyheads.models.heads import EncoderClassifier, EncoderTagger
from manyheads.nn.layers import TokenEmbedding
from manyheads.nn.positions import KINDS
from manyheads.train.objectives import masked_loss

SMALL = BertConfig(vocabulary=23, context=11, segments=3, width=12, layers=2, heads=3, inner=14, separator=2)
SMALL = replace(SMALL, dropout=0.0, attention_dropout=0.0)
# Rows of one, two and three texts, two of them of one length, with padding behind even the longest.
LENGTHS = torch.tensor([5, 7, 3, 5])
IDS = torch.tensor(
    [
        [1, 9, 2, 8, 2, 0, 0, 0, 0],
        [1, 7, 2, 11, 2, 13, 2, 0, 0],
        [1, 6, 2, 0, 0, 0, 0, 0, 0],
        [1, 5, 19, 4, 2, 0, 0, 0, 0],
    ]
)
ALL_EQUAL = torch.full((4,), 9)
REAL = torch.arange(9) < LENGTHS[:, None]


both_paths = pytest.mark.parametrize("path", [lambda model: model, padded_on_a_gpu], ids=["packed", "padded"])


def built(config: BertConfig = SMALL) -> Bert:
    torch.manual_seed(1)
    return randomised(Bert(config))


HEADS = {
    "words": lambda: MaskedBert(SMALL),
    "sentences": lambda: MaskedBert(SMALL, next_sentence=True),
    "classifier": lambda: EncoderClassifier(Bert(SMALL), ("a", "b", "c", "d", "e")),
    "number": lambda: EncoderClassifier(Bert(SMALL)),
    "tagger": lambda: EncoderTagger(Bert(SMALL, pooler=False), ("a", "b", "c", "d", "e")),
    "answerer": lambda: BertAnswerer(Bert(SMALL, pooler=False)),
}
every_head = pytest.mark.parametrize("head", HEADS)


@pytest.fixture
def counted(monkeypatch):
    """How often rows were packed."""
    from manyheads.models import bert

    times, of = [], bert.Packing.of
    monkeypatch.setattr(bert.Packing, "of", lambda *given: times.append(1) or of(*given))
    return times


# Two ways around padding.


@pytest.mark.parametrize("lengths", [LENGTHS, LENGTHS + 2, torch.tensor([4, 4, 4, 4]), torch.tensor([1, 9, 1, 2])])
@pytest.mark.parametrize("inference", [torch.no_grad, torch.inference_mode])
def test_the_two_ways_around_padding_agree(inference, lengths, counted):
    real = torch.arange(9) < lengths[:, None]
    with inference():
        packed, padded = built()(IDS, lengths), padded_on_a_gpu(built())(IDS, lengths)
    assert len(counted) == 1
    assert_close(padded[real], packed[real])
    assert padded[~real].any()  # computed, and never looked at
    assert not packed[~real].any()
    with inference():
        assert_close(built()(IDS[1:2], lengths[1:2])[:, real[1]], packed[1:2, real[1]])
        for row, length in enumerate(lengths.tolist()):
            assert_close(built()(IDS[row : row + 1, :length])[0], packed[row, :length])


def gradients(model: Bert, states: Tensor, weights: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    (states * weights).sum().backward()
    return {name: tensor.grad.clone() for name, tensor in model.named_parameters() if tensor.grad is not None}


def test_gradients_are_those_of_masked_rows_and_of_each_row_alone():
    model = built().train()
    torch.manual_seed(5)
    weights = torch.randn(4, 9, 12) * REAL[:, :, None]
    found = gradients(model, model(IDS, LENGTHS), weights)
    assert {name.split(".")[0] for name in found} == {"embedding", "positions", "segments", "norm", "blocks"}
    other = padded_on_a_gpu(built().train())
    assert_close(found, gradients(other, other(IDS, LENGTHS), weights), atol=1e-4, rtol=1e-4)
    alone = [model(IDS[row : row + 1, :length]) for row, length in enumerate(LENGTHS.tolist())]
    alone = [nn.functional.pad(states, (0, 0, 0, 9 - states.shape[1])) for states in alone]
    assert_close(found, gradients(model, torch.cat(alone), weights), atol=1e-4, rtol=1e-4)
    seen = gradients(model, model(IDS), weights)  # with the padding in sight
    assert not torch.allclose(
        seen["blocks.0.attention.projection.weight"], found["blocks.0.attention.projection.weight"]
    )
    assert not found["embedding.weight"][0].any()  # the id of padding
    assert not found["positions.table.weight"][7:].any()
    assert found["positions.table.weight"][6].any()


@torch.no_grad()
def test_rows_of_the_full_length_are_not_packed_and_give_the_same(counted):
    model = built()
    expected = model(IDS)
    assert torch.equal(model(IDS, ALL_EQUAL), expected)
    assert not counted
    assert not torch.allclose(model(IDS, ALL_EQUAL - 1), expected)
    assert len(counted) == 1


def test_off_a_cpu_nothing_waits_for_what_the_lengths_are():
    with torch.device("meta"):  # where no value can be asked for
        model, ids = Bert(SMALL), torch.ones(4, 9, dtype=torch.long)
        assert model(ids, torch.ones(4, dtype=torch.long)).shape == (4, 9, 12)


def test_dropout_acts_on_embeddings_and_on_each_sub_layer():
    model = Bert(replace(SMALL, dropout=0.3)).eval()
    calls = []
    for part in (model, *model.blocks):
        part.dropout.register_forward_hook(lambda module, given, _: calls.append(module))
    expected = model(IDS, LENGTHS)
    assert calls == [model.dropout, *(block.dropout for block in model.blocks for _ in ("attention", "feedforward"))]
    for part in (model, *model.blocks):
        part.dropout.train()
        assert not torch.allclose(model(IDS, LENGTHS), expected)
        part.dropout.eval()


# What an encoder sees.


@torch.no_grad()
@both_paths
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_every_kind_of_positions_tells_what_stands_where_and_none_does_not(kind, path):
    model = path(built(replace(SMALL, positions=positions(kind))))
    order, lengths = torch.tensor([0, 3, 1, 2]), torch.tensor([4, 3])
    ids = torch.tensor([[1, 7, 9, 13], [1, 7, 9, 0]])
    found, turned = model(ids, lengths)[0], model(ids[:, order], lengths)[0]
    assert torch.allclose(turned, found[order], atol=1e-5) == (kind == "none")


def test_segments_follow_from_the_separator():
    model = built()
    expected = torch.tensor(
        [
            [0, 0, 0, 1, 1, 2, 2, 2, 2],
            [0, 0, 0, 1, 1, 2, 2, 2, 2],  # a fourth would be beyond the last there is
            [0, 0, 0, 1, 1, 1, 1, 1, 1],
            [0, 0, 0, 0, 0, 1, 1, 1, 1],
        ]
    )
    assert model.segments_of(IDS).tolist() == expected.tolist()
    for lengths in (None, LENGTHS):
        assert torch.equal(model(IDS, lengths), model(IDS, lengths, expected))
    two = built(replace(SMALL, segments=2))
    assert two.segments_of(IDS).tolist() == expected.clamp(max=1).tolist()
    assert not built(replace(SMALL, separator=None)).segments_of(IDS).any()


@both_paths
@torch.no_grad()
def test_explicit_segments_win(path):
    model = path(built())
    plain = model(IDS, LENGTHS)
    segments = torch.zeros_like(IDS)
    assert not torch.allclose(model(IDS, LENGTHS, segments)[0, :5], plain[0, :5])
    assert_close(model(IDS, LENGTHS, segments)[2:][REAL[2:]], plain[2:][REAL[2:]])  # which have but one text
    segments[3, 2] = 1
    changed = model(IDS, LENGTHS, segments)
    assert not torch.allclose(changed[3, :5], plain[3, :5])
    assert_close(changed[2, :3], plain[2, :3])


@torch.no_grad()
def test_masked_words_are_found_by_their_embeddings():
    model = randomised(MaskedBert(SMALL))
    before = model(IDS, LENGTHS)
    guesses = model.guesses(model.body(IDS, LENGTHS))
    assert_close(before, guesses @ model.body.embedding.weight.T + model.bias)
    model.body.embedding.weight[20] *= 2  # of a word that is not there
    assert (model(IDS, LENGTHS) != before).any(dim=0).any(dim=0).nonzero().tolist() == [[20]]


# Heads.


@every_head
def test_weights_begin_small_and_biases_at_zero(head):
    for name, part in HEADS[head]().named_modules():
        if isinstance(part, nn.Linear | nn.Embedding | TokenEmbedding):
            assert 0.01 < float(part.weight.detach().std()) < 0.03, name
        if isinstance(part, nn.Linear):
            assert not part.bias.any(), name
        if isinstance(part, nn.LayerNorm):
            assert bool((part.weight == 1).all()), name
            assert not part.bias.any(), name


def test_a_head_leaves_its_body_as_it_was():
    body = built()
    before = {name: tensor.clone() for name, tensor in body.state_dict().items()}
    for made in (
        EncoderClassifier(body, ("a", "b")),
        EncoderTagger(body, ("a",)),
        BertAnswerer(body),
        BertEmbedder(body),
    ):
        assert made.body is body
        assert made.config is body.config
        assert all(torch.equal(tensor, before[name]) for name, tensor in body.state_dict().items())


def test_dropout_stands_before_a_head_too():
    body = built(replace(SMALL, dropout=0.3)).eval()
    for model in (EncoderClassifier(body, ("a", "b")), EncoderTagger(body, ("a", "b"))):
        model.dropout.train()
        body.eval()
        assert not torch.equal(model(IDS, LENGTHS), model(IDS, LENGTHS))
        model.eval()
        assert torch.equal(model(IDS, LENGTHS), model(IDS, LENGTHS))


# One vector for a text.


def real_states(model: Bert) -> list[Tensor]:
    return [model(IDS[row : row + 1, :length])[0] for row, length in enumerate(LENGTHS.tolist())]


@both_paths
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@torch.no_grad()
def test_a_text_becomes_one_vector_of_its_real_tokens(pooling, path):
    body = built()
    pooled = {"mean": lambda x: x.mean(dim=0), "cls": lambda x: x[0], "max": lambda x: x.max(dim=0).values}
    expected = torch.stack([pooled[pooling](states) for states in real_states(body)])
    path(body)
    plain = BertEmbedder(body, pooling, normalised=False)(IDS, LENGTHS)
    assert_close(plain, expected)
    found = BertEmbedder(body, pooling)(IDS, LENGTHS)
    assert_close(found, expected / expected.norm(dim=1, keepdim=True))
    assert_close(found.norm(dim=1), torch.ones(4))
    assert not torch.allclose(plain.norm(dim=1), torch.ones(4))
    for other in {"mean", "cls", "max"} - {pooling}:
        assert not torch.allclose(BertEmbedder(body, other, normalised=False)(IDS, LENGTHS), expected)


def test_the_largest_number_of_a_text_may_be_below_zero():
    body = built()
    with torch.no_grad():
        body.blocks[-1].feedforward_norm.weight.fill_(0.1)
        body.blocks[-1].feedforward_norm.bias.fill_(-1.0)
        assert (BertEmbedder(body, "max", normalised=False)(IDS, LENGTHS) < 0).all()  # the zeros behind it do not count


def test_an_embedder_reads_no_more_than_its_encoder_can_and_an_unknown_pooling_is_told_the_known_ones():
    body = built()
    with pytest.raises(ConfigError, match="pooling is 'sum'; it can be mean, cls, max"):
        BertEmbedder(body, "sum")
    assert [BertEmbedder(body, longest=longest).longest for longest in (None, 7, 11, 12, 512)] == [11, 7, 11, 11, 11]


def test_the_loss_of_masked_words_is_that_of_its_logits():
    model, follows, places = randomised(HEADS["sentences"]()), torch.tensor([0, 1, 1, 0]), torch.tensor([1, 10, 12, 19])
    batch = SimpleNamespace(ids=IDS, lengths=LENGTHS, places=places, targets=IDS.flatten()[places] + 1)
    batch.target_tokens, batch.follows = 4, follows
    logits = model(IDS, LENGTHS).flatten(0, 1)[places]
    words = nn.functional.cross_entropy(logits, batch.targets, reduction="sum")
    following = model.following(model.body(IDS, LENGTHS)).log_softmax(dim=1)
    true = -(following[:, 0] * follows + following[:, 1] * (1 - follows)).mean()
    found = masked_loss(model, batch)
    assert_close(found.likelihood, words)
    assert_close(found.total, words + 4 * true)
    batch.follows = None
    assert_close(masked_loss(model, batch).total, words)


@both_paths
def test_what_is_longer_than_the_context_is_refused_in_a_sentence(path):
    model, ids = path(built()), torch.ones(2, 12, dtype=torch.long)
    for lengths in (None, torch.tensor([12, 5])):
        with pytest.raises(ConfigError, match="12 positions asked, the table has 11; cut the input to 11") as refused:
            model(ids, lengths)
        assert "\n" not in str(refused.value)
    assert model(ids[:, :11]).shape == (2, 11, 12)
