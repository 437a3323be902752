import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from manyheads.ops.losses import smoothed_cross_entropy

POSITIONS, WIDTH, VOCABULARY = 7, 5, 11


def inputs(never=None):
    states = torch.randn(POSITIONS, WIDTH, requires_grad=True)
    weight = torch.randn(VOCABULARY, WIDTH, requires_grad=True)
    bias = torch.randn(VOCABULARY)
    targets = torch.randint(VOCABULARY, (POSITIONS,))
    if never is not None:
        bias[never] = -1e4
        targets[targets == never] = (never + 1) % VOCABULARY
    return states, weight, bias, targets


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_it_is_torchs_cross_entropy_in_value_and_gradient(smoothing):
    states, weight, bias, targets = inputs()
    loss, plain = smoothed_cross_entropy(states, weight, bias, targets, smoothing=smoothing)
    (3 * loss).backward()
    found = states.grad.clone(), weight.grad.clone()
    states.grad = weight.grad = None
    logits = states @ weight.T + bias
    expected = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    (3 * expected).backward()
    assert_close(loss, expected)
    assert_close(plain, F.cross_entropy(logits, targets, reduction="sum"))
    assert_close(found, (states.grad, weight.grad))
    assert not plain.requires_grad
    if smoothing:
        assert not torch.allclose(loss, plain)


@pytest.mark.parametrize("chunk", [1, 3, POSITIONS, 100])
@pytest.mark.parametrize("never", [None, 3])
def test_chunks_change_nothing(chunk, never):
    states, weight, bias, targets = inputs(never)
    results = []
    for size in (1024, chunk):
        states.grad = weight.grad = None
        loss, plain = smoothed_cross_entropy(states, weight, bias, targets, smoothing=0.1, never=never, chunk=size)
        loss.backward()
        results.append((loss.detach(), plain, states.grad, weight.grad))
    assert_close(*results)
    with torch.no_grad():
        assert_close(
            smoothed_cross_entropy(states, weight, bias, targets, smoothing=0.1, never=never, chunk=chunk),
            results[0][:2],
        )


def test_gradients_add_up_over_two_losses():
    states, weight, bias, targets = inputs()
    whole = torch.autograd.grad(smoothed_cross_entropy(states, weight, bias, targets)[0], weight)[0]
    parts = sum(
        torch.autograd.grad(smoothed_cross_entropy(states[part], weight, bias, targets[part])[0], weight)[0]
        for part in (slice(0, 3), slice(3, None))
    )
    assert_close(parts, whole)


def test_half_precision_states_meet_full_precision_weights():
    states, weight, bias, targets = inputs()
    expected, _ = smoothed_cross_entropy(states, weight, bias, targets, smoothing=0.1)
    loss, _ = smoothed_cross_entropy(states.bfloat16(), weight, bias, targets, smoothing=0.1)
    loss.backward()
    assert loss.dtype == torch.float32
    assert weight.grad.dtype == torch.float32
    assert_close(loss, expected, rtol=0.05, atol=0)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("chunk", [None, 1, 3, POSITIONS])
@pytest.mark.parametrize("never", [None, 3])
def test_a_bias_that_is_learned_gets_the_gradient_of_the_formula(smoothing, chunk, never):
    states, weight, bias, targets = inputs(never)
    bias.requires_grad_()
    how = {"smoothing": smoothing, "never": never, "chunk": chunk}
    loss, _ = smoothed_cross_entropy(states, weight, bias, targets, **how)
    found = torch.autograd.grad(5 * loss, (states, weight, bias))
    alone, _ = smoothed_cross_entropy(states.detach(), weight.detach(), bias, targets, **how)  # only the bias learns
    assert_close(torch.autograd.grad(5 * alone, bias)[0], found[2])
    fixed, _ = smoothed_cross_entropy(states, weight, bias.detach(), targets, **how)  # all but the bias learn
    assert_close(torch.autograd.grad(5 * fixed, (states, weight)), found[:2])
    kept = torch.tensor([each for each in range(VOCABULARY) if each != never])
    targets = targets - (targets > (VOCABULARY if never is None else never)).long()
    logits = (states @ weight.T + bias)[:, kept]
    expected = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    assert_close(loss, expected)  # as if the token that never comes did not exist
    assert_close(found, torch.autograd.grad(5 * expected, (states, weight, bias)))
    assert found[2].abs().min() > 0 or never is not None
    assert never is None or not (found[2][never] or found[1][never].any())
    assert (found[1].abs().sum(dim=1) > 0).sum() == len(kept)  # all others have one


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_a_bias_that_is_no_parameter_has_no_gradient(smoothing):
    states, weight, bias, targets = inputs()
    loss, _ = smoothed_cross_entropy(states, weight, bias, targets, smoothing=smoothing, chunk=3)
    saved = [tensor for tensor in loss.grad_fn.saved_tensors if tensor is not None]
    assert [tuple(tensor.shape) for tensor in saved] == [(POSITIONS, WIDTH), (VOCABULARY, WIDTH)]
    loss.backward()
    assert bias.grad is None
    assert weight.grad is not None
    bias.requires_grad_()
    learned, _ = smoothed_cross_entropy(states, weight, bias, targets, smoothing=smoothing, chunk=3)
    assert (VOCABULARY,) in [tuple(tensor.shape) for tensor in learned.grad_fn.saved_tensors]  # and the test can tell
    assert_close(learned, loss)


def test_the_gradient_of_a_bias_adds_up_in_full_precision_whatever_the_states_have():
    count = 601  # of parts so small that half precision would no longer see them beside their sum
    states, weight, bias, _ = inputs()
    states, targets = states[:1].expand(count, WIDTH), torch.full((count,), 3)
    bias.requires_grad_()
    expected = torch.autograd.grad(smoothed_cross_entropy(states, weight, bias, targets)[0], bias)[0]
    loss, _ = smoothed_cross_entropy(states.bfloat16(), weight, bias, targets, chunk=1)
    found = torch.autograd.grad(loss, bias)[0]
    assert found.dtype == torch.float32
    assert_close(found, expected, atol=0.01 * count, rtol=0.05)
