import torch
import torch.nn.functional as F
from torch.testing import assert_close

from manyheads.nn.embeddings import OutputProjection, TokenEmbedding

V, W, PAD = 11, 8, 10


def test_rows_times_the_scale():
    embedding = TokenEmbedding(V, W, pad=PAD, scale=3.0)
    ids = torch.tensor([[1, 4, PAD], [4, 0, 2]])
    assert_close(embedding(ids), 3.0 * embedding.weight[ids])


def test_scaled_embeddings_start_at_about_one():
    embedding = TokenEmbedding(3000, 64, scale=8.0)
    assert_close(embedding(torch.arange(3000)).std(), torch.tensor(1.0), rtol=0.02, atol=0)


def test_the_pad_row_is_zero_and_learns_nothing():
    embedding = TokenEmbedding(V, W, pad=PAD)
    assert not embedding.weight[PAD].any()
    embedding(torch.tensor([[1, PAD]])).sum().backward()
    assert not embedding.weight.grad[PAD].any()
    assert embedding.weight.grad[1].all()
    assert TokenEmbedding(V, W).weight[PAD].any()


def test_logits_are_products_with_every_row():
    embedding = TokenEmbedding(V, W)
    output = OutputProjection(embedding.weight)
    x = torch.randn(2, 3, W)
    assert_close(output(x), x @ embedding.weight.T)
    assert output.weight is embedding.weight


def test_what_never_comes_has_no_part_in_a_softmax():
    embedding = TokenEmbedding(V, W, pad=PAD)
    output = OutputProjection(embedding.weight, never=PAD)
    logits = output(torch.randn(2, 3, W))
    assert not logits.softmax(dim=-1)[..., PAD].any()
    F.cross_entropy(logits.flatten(0, 1), torch.zeros(6, dtype=torch.long)).backward()
    assert not embedding.weight.grad[PAD].any()
    assert bool(logits.half().isfinite().all())
    assert OutputProjection(embedding.weight)(torch.randn(2, 3, W)).softmax(dim=-1)[..., PAD].all()
