"""BERT: what every model owes, what an encoder sees, published sizes, and what each head learns."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.data.batches import Batch
from manyheads.models.bert import (
    PRESETS,
    Bert,
    BertAnswerer,
    BertClassifier,
    BertConfig,
    BertEmbedder,
    BertTagger,
    MaskedBert,
)
from manyheads.models.transformer import parameters
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.embeddings import TokenEmbedding
from manyheads.ops.attention import reference
from manyheads.train.objectives import classification_loss, masked_loss

START, SEPARATOR, MASK = 1, 2, 3
SMALL = BertConfig(
    vocabulary=23,
    context=11,
    segments=3,
    width=12,
    layers=2,
    heads=3,
    inner=14,
    dropout=0.0,
    attention_dropout=0.0,
    separator=SEPARATOR,
)
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


class Elsewhere(Tensor):
    """Numbers that say they are on a GPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    device = torch.device("cuda")


def packed(model):
    return model


def masked(model):
    """The model as it is on a GPU, where rows stay padded and are masked."""
    body = getattr(model, "body", model)
    embed = body.embed
    body.embed = lambda *given: embed(*given).as_subclass(Elsewhere)
    return model


both_paths = pytest.mark.parametrize("path", [packed, masked])


def randomised(model):
    """Norms that are one and biases that are zero would hide mistakes, and so would vectors that are all alike."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def built(config: BertConfig = SMALL) -> Bert:
    torch.manual_seed(1)
    return randomised(Bert(config))


HEADS = {
    "words": lambda: MaskedBert(SMALL),
    "sentences": lambda: MaskedBert(SMALL, next_sentence=True),
    "classifier": lambda: BertClassifier(Bert(SMALL), ("a", "b", "c", "d", "e")),
    "number": lambda: BertClassifier(Bert(SMALL)),
    "tagger": lambda: BertTagger(Bert(SMALL, pooler=False), ("a", "b", "c", "d", "e")),
    "answerer": lambda: BertAnswerer(Bert(SMALL, pooler=False)),
}
SHAPES = {"words": (4, 9, 23), "sentences": (4, 9, 23), "classifier": (4, 5), "number": (4, 1)}
SHAPES |= {"tagger": (4, 9, 5), "answerer": (4, 9, 2)}
every_head = pytest.mark.parametrize("head", HEADS)


def with_kernel(model: nn.Module, kernel) -> nn.Module:
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.kernel = kernel
    return model


@pytest.fixture
def counted(monkeypatch):
    """How often rows were packed."""
    from manyheads.models import bert

    times, of = [], bert.Packing.of
    monkeypatch.setattr(bert.Packing, "of", lambda *given: times.append(1) or of(*given))
    return times


# What every model owes.


@both_paths
@pytest.mark.parametrize("lengths", [None, LENGTHS, ALL_EQUAL], ids=["none", "several", "equal"])
@torch.no_grad()
def test_the_fast_kernel_is_the_reference_kernel(path, lengths):
    model = path(built())
    fast = model(IDS, lengths)[REAL]
    assert_close(with_kernel(model, reference)(IDS, lengths)[REAL], fast)
    assert not torch.allclose(with_kernel(model, lambda q, k, v, **_: v)(IDS, lengths)[REAL], fast)  # and it matters


@both_paths
@pytest.mark.parametrize("lengths", [LENGTHS, LENGTHS + 2, torch.tensor([4, 4, 4, 4]), torch.tensor([1, 9, 1, 2])])
@torch.no_grad()
def test_padding_is_never_seen(path, lengths, counted):
    model = path(built())
    together = model(IDS, lengths)
    assert together.shape == (4, 9, 12)
    assert len(counted) == (path is packed)
    without = model(IDS)
    for row, length in enumerate(lengths.tolist()):
        alone = model(IDS[row : row + 1, :length])[0]
        assert_close(together[row, :length], alone)
        if length < 9:
            assert not torch.allclose(without[row, :length], alone)  # without lengths it is seen


@both_paths
@torch.no_grad()
def test_what_padding_is_filled_with_is_no_matter(path):
    model = path(built())
    other = IDS.masked_fill(~REAL, 17)
    assert_close(model(other, LENGTHS)[REAL], model(IDS, LENGTHS)[REAL])
    assert not torch.allclose(model(other)[REAL], model(IDS)[REAL])


@torch.no_grad()
def test_where_nothing_is_computed_there_are_zeros():
    states = built()(IDS, LENGTHS)
    assert not states[~REAL].any()
    assert states[REAL].abs().min(dim=-1).values.max() > 0


@pytest.mark.parametrize("inference", [torch.no_grad, torch.inference_mode])
def test_the_two_ways_around_padding_agree(inference):
    with inference():
        rows, padded = built()(IDS, LENGTHS), masked(built())(IDS, LENGTHS)
        assert_close(padded[REAL], rows[REAL])
        assert padded[~REAL].any()  # computed, and never looked at
        assert not rows[~REAL].any()


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
    other = masked(built().train())
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


@torch.no_grad()
def test_a_row_by_itself_is_cut_at_its_length():
    model = built()
    assert_close(model(IDS[1:2], LENGTHS[1:2])[:, :7], model(IDS[1:2, :7]))


def test_off_a_cpu_nothing_waits_for_what_the_lengths_are():
    with torch.device("meta"):  # where no value can be asked for
        model, ids = Bert(SMALL), torch.ones(4, 9, dtype=torch.long)
        assert model(ids, torch.ones(4, dtype=torch.long)).shape == (4, 9, 12)


@pytest.mark.parametrize("where", ["dropout", "attention_dropout"])
@both_paths
def test_dropout_acts_in_training_alone(where, path):
    model = path(Bert(replace(SMALL, **{where: 0.3})))
    assert not torch.equal(model(IDS, LENGTHS), model(IDS, LENGTHS))
    model.eval()
    assert torch.equal(model(IDS, LENGTHS), model(IDS, LENGTHS))


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


@both_paths
@torch.no_grad()
def test_every_token_sees_every_other_of_its_row(path):
    model = path(built(replace(SMALL, layers=1)))
    before = model(IDS, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        for place in range(length):
            changed = IDS.clone()
            changed[row, place] = 21
            segments = model.segments_of(IDS)  # which a changed separator would move
            after = model(changed, LENGTHS, segments)
            for seen in range(length):
                assert not torch.allclose(after[row, seen], before[row, seen])
            others = torch.arange(4) != row
            assert_close(after[others][REAL[others]], before[others][REAL[others]])


@torch.no_grad()
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
def test_the_order_of_words_matters_and_by_positions_alone():
    model = built(replace(SMALL, separator=None))
    order = torch.tensor([0, 2, 1, 3])
    ids = IDS[3:, :4]
    assert not torch.allclose(model(ids[:, order]), model(ids)[:, order])
    model.positions.table.weight.zero_()
    assert_close(model(ids[:, order]), model(ids)[:, order])


@torch.no_grad()
def test_the_pooled_vector_is_made_of_the_first_token_alone():
    model = built()
    states = torch.randn(4, 9, 12)
    pooled = model.pooled(states)
    assert pooled.shape == (4, 12)
    assert_close(pooled, torch.tanh(states[:, 0] @ model.pooler.weight.T + model.pooler.bias))
    assert torch.equal(model.pooled(torch.cat([states[:, :1], torch.randn(4, 3, 12)], dim=1)), pooled)
    states[2, 0, 5] += 1
    assert (model.pooled(states) != pooled).any(dim=1).tolist() == [False, False, True, False]


# Sizes.

PUBLISHED = {
    "bert_tiny": 4_385_920,
    "bert_mini": 11_170_560,
    "bert_small": 28_763_648,
    "bert_medium": 41_373_184,
    "bert_base": 109_482_240,
    "bert_large": 335_141_888,
}


@pytest.mark.parametrize("preset", PUBLISHED)
def test_parameters_are_as_many_as_published_to_the_last_one(preset):
    with torch.device("meta"):
        assert parameters(Bert(replace(PRESETS[preset](), vocabulary=30_522))) == PUBLISHED[preset]


def test_every_preset_is_counted():
    assert list(PRESETS) == list(PUBLISHED)


def test_heads_are_as_large_as_published_and_share_the_embedding():
    config = replace(PRESETS["bert_base"](), vocabulary=30_522)
    with torch.device("meta"):
        assert parameters(MaskedBert(config)) == 109_514_298
        assert parameters(MaskedBert(config, next_sentence=True)) == 110_106_428
        assert parameters(BertClassifier(Bert(config), ("no", "yes"))) == PUBLISHED["bert_base"] + 2 * 768 + 2
        assert parameters(BertAnswerer(Bert(config, pooler=False))) == 108_893_186


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
@torch.no_grad()
def test_each_head_gives_its_shape_and_sees_no_padding(head):
    model = randomised(HEADS[head]())
    found = model(IDS, LENGTHS)
    assert found.shape == SHAPES[head]
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model(IDS[row : row + 1, :length])[0]
        assert_close(found[row, :length] if found.dim() == 3 else found[row], alone)
    assert not torch.allclose(model(IDS, LENGTHS, torch.ones_like(IDS)), found)  # segments come through


@torch.no_grad()
def test_whether_a_text_follows_is_two_logits_of_the_first_token():
    model = randomised(HEADS["sentences"]())
    states = model.body(IDS, LENGTHS)
    assert model.following(states).shape == (4, 2)
    states[:, 1:] = 0
    assert_close(model.following(states), model.following(model.body(IDS, LENGTHS)))


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
    for made in (BertClassifier(body, ("a", "b")), BertTagger(body, ("a",)), BertAnswerer(body), BertEmbedder(body)):
        assert made.body is body
        assert made.config is body.config
        assert all(torch.equal(tensor, before[name]) for name, tensor in body.state_dict().items())


def test_dropout_stands_before_a_head_too():
    body = built(replace(SMALL, dropout=0.3)).eval()
    for model in (BertClassifier(body, ("a", "b")), BertTagger(body, ("a", "b"))):
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


def test_an_embedder_reads_no_more_than_its_encoder_can():
    body = built()
    assert [BertEmbedder(body, longest=longest).longest for longest in (None, 7, 11, 12, 512)] == [11, 7, 11, 11, 11]


def test_an_unknown_pooling_is_told_the_known_ones():
    with pytest.raises(ConfigError, match="pooling is 'sum'; it can be mean, cls, max"):
        BertEmbedder(built(), "sum")


# Learning.

ROWS = 10


def ten_texts() -> tuple[Tensor, Tensor]:
    """Ten rows of different lengths whose second tokens differ, so that all the rest can be known."""
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(15, 23, (ROWS, 8), generator=generator)
    lengths = 4 + torch.arange(ROWS) % 5
    ids[:, 0], ids[:, 1] = START, torch.arange(4, 4 + ROWS)
    ids[torch.arange(ROWS), lengths - 1] = SEPARATOR
    ids[torch.arange(8) >= lengths[:, None]] = 0
    return ids, lengths


def masked_batch(follows: Tensor | None) -> Batch:
    ids, lengths = ten_texts()
    places = torch.arange(ROWS) * 8 + 2
    targets = ids.flatten()[places]
    hidden = ids.flatten().index_fill(0, places, MASK).view_as(ids)
    return Batch(len(targets), ids=hidden, lengths=lengths, places=places, targets=targets, follows=follows)


def words_loss(model, follows=None) -> Tensor:
    loss = masked_loss(model, masked_batch(follows))
    return loss.total / loss.tokens


def example_loss(model, labels: Tensor) -> Tensor:
    ids, lengths = ten_texts()
    loss = classification_loss(model, Batch(ROWS, ids=ids, lengths=lengths, labels=labels, candidates=None))
    return loss.total / loss.tokens


def tag_loss(model) -> Tensor:
    ids, lengths = ten_texts()
    real = torch.arange(8) < lengths[:, None]
    return nn.functional.cross_entropy(model(ids, lengths)[real], (ids * 7 % 5)[real])


def answer_loss(model) -> Tensor:
    ids, lengths = ten_texts()
    scores = model(ids, lengths).masked_fill((torch.arange(8) >= lengths[:, None])[:, :, None], -torch.inf)
    first = torch.arange(ROWS) % 3
    last = torch.minimum(first + 2, lengths - 1)
    return sum(nn.functional.cross_entropy(scores[:, :, side], right) for side, right in enumerate((first, last)))


LOSSES = {
    "words": words_loss,
    "sentences": lambda model: words_loss(model, torch.tensor([0, 1, 1, 0, 1, 0, 0, 1, 1, 0])),
    "classifier": lambda model: example_loss(model, torch.tensor([0, 1, 1, 4, 0, 4, 1, 0, 4, 1])),
    "number": lambda model: example_loss(model, torch.linspace(-2, 3, ROWS)),
    "tagger": tag_loss,
    "answerer": answer_loss,
}


@every_head
def test_ten_examples_are_learned_by_heart(head):
    model = HEADS[head]()
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=6e-3), []
    for _ in range(200):
        loss = LOSSES[head](model)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    assert losses[0] > 1
    assert losses[-1] < 0.05


def test_the_loss_of_masked_words_is_that_of_its_logits():
    model = randomised(HEADS["sentences"]())
    follows = torch.tensor([0, 1, 1, 0, 1, 0, 0, 1, 1, 0])
    batch = masked_batch(follows)
    logits = model(batch.ids, batch.lengths).flatten(0, 1)[batch.places]
    words = nn.functional.cross_entropy(logits, batch.targets, reduction="sum")
    following = model.following(model.body(batch.ids, batch.lengths)).log_softmax(dim=1)
    true = -(following[:, 0] * follows + following[:, 1] * (1 - follows)).mean()
    found = masked_loss(model, batch)
    assert_close(found.likelihood, words)
    assert_close(found.total, words + ROWS * true)
    without = Batch(batch.target_tokens, **{**batch.tensors, "follows": None})
    assert_close(masked_loss(model, without).total, words)


# What cannot be.


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"heads": 5}, "width 12 does not split over 5 heads; the nearest that does is 10"),
        ({"layers": 0}, "model.layers is 0; it must be at least 1"),
        ({"context": 0}, "model.context is 0; it must be at least 1"),
        ({"segments": 0}, "model.segments is 0; it must be at least 1"),
        ({"width": 0}, "model.width is 0; it must be at least 1"),
        ({"heads": 0}, "model.heads is 0; it must be at least 1"),
        ({"inner": 0}, "model.inner is 0; it must be at least 1"),
        ({"dropout": 1.0}, "model.dropout is 1.0; it must be at least 0 and below 1"),
        ({"attention_dropout": float("nan")}, "model.attention_dropout is nan"),
        ({"activation": "tanhh"}, "model.activation is 'tanhh'; it can be relu, gelu, gelu_tanh"),
    ],
)
def test_sizes_that_cannot_be_are_refused_in_a_sentence(change, sentence):
    with pytest.raises(ConfigError, match=sentence) as refused:
        replace(SMALL, **change)
    assert "\n" not in str(refused.value)


def test_a_vocabulary_must_be_known():
    with pytest.raises(ConfigError, match=r"model\.vocabulary is 0; a model needs to know how many tokens there are"):
        Bert(replace(SMALL, vocabulary=0))


@both_paths
def test_what_is_longer_than_the_context_is_refused_in_a_sentence(path):
    model, ids = path(built()), torch.ones(2, 12, dtype=torch.long)
    for lengths in (None, torch.tensor([12, 5])):
        with pytest.raises(ConfigError, match="12 positions asked, the table has 11; cut the input to 11") as refused:
            model(ids, lengths)
        assert "\n" not in str(refused.value)
    assert model(ids[:, :11]).shape == (2, 11, 12)


def test_recorded_attention_of_rows_of_different_lengths_is_that_of_each_alone():
    from manyheads.look.record import recorded_attention

    model = Bert(BertConfig(vocabulary=29, width=12, layers=2, heads=3, context=11)).eval()
    ids, lengths = torch.randint(29, (3, 9)), torch.tensor([9, 4, 6])
    with recorded_attention(model) as weights:
        model(ids, lengths)
    together = weights["blocks.1.attention"]
    assert together.shape == (3, 3, 9, 9)
    for row, length in enumerate(lengths.tolist()):
        with recorded_attention(model) as weights:
            model(ids[row : row + 1, :length])
        assert_close(together[row, :, :length, :length], weights["blocks.1.attention"][0])
    assert "packed" not in model.__dict__  # what was borrowed is given back
