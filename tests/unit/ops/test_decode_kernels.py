"""The kernels of decoding on a GPU, and the steps that use them; skipped where there is none."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from manyheads.generate.greedy import greedy
from manyheads.generate.prompts import PromptSteps, ReplayedSteps
from manyheads.generate.steps import SpecialIds
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.nn import fused

if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (9, 0):
    pytest.skip("the kernels need a GPU of Hopper's generation or later", allow_module_level=True)

decode_kernels = pytest.importorskip("manyheads.ops.decode_kernels")


def random(*size: int) -> torch.Tensor:
    return torch.randn(*size, device="cuda", dtype=torch.bfloat16)


@pytest.mark.parametrize(
    ("rows", "inputs", "outputs"), [(1, 1600, 4800), (3, 768, 100), (8, 6400, 1600), (2, 1601, 37)]
)
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("gelu", [False, True])
def test_the_linear_kernel_is_the_formula(rows, inputs, outputs, normed, gelu):
    x, weight, bias = random(rows, inputs), random(outputs, inputs) / inputs**0.5, random(outputs)
    residual, norm = random(rows, outputs), nn.LayerNorm(inputs).cuda().to(torch.bfloat16)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    expected = x.double()
    if normed:
        expected = nn.functional.layer_norm(expected, (inputs,), norm.weight.double(), norm.bias.double(), norm.eps)
    expected = expected @ weight.double().T + bias.double()
    expected = (nn.functional.gelu(expected, approximate="tanh") if gelu else expected) + residual.double()
    found = decode_kernels.linear(x, weight, bias, norm=norm if normed else None, gelu=gelu, residual_RN=residual)
    assert (found.double() - expected).norm() / expected.norm() < 5e-3


@pytest.fixture
def model() -> GPT:
    config = GPTConfig(vocabulary=301, context=40, width=192, layers=3, heads=3, dropout=0.0)
    made = GPT(replace(config, attention_dropout=0.0)).cuda().to(torch.bfloat16).eval()
    for parameter in made.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    return made


@torch.inference_mode()
def test_the_fused_block_is_the_block(model, monkeypatch):
    prompts, ids = [[5, 7, 9, 11], [3]], torch.tensor([8, 13])
    found = [ReplayedSteps(model, prompts, 40)(ids).float()]
    monkeypatch.setattr(fused, "fits", lambda *_: False)
    found.append(PromptSteps(model, prompts, 40)(ids).float())
    assert (found[0] - found[1]).norm() / found[1].norm() < 3e-2


@torch.inference_mode()
def test_replayed_steps_give_the_same_text_again_and_alone(model):
    prompts = [[5, 7, 9, 11], [3], [1, 2]]

    def texts(rows):
        steps = ReplayedSteps(model, rows, 80)
        found = [each.ids for each in greedy(steps, torch.full((len(rows),), 60), SpecialIds(), scored=False)]
        steps.close()
        return found

    together = texts(prompts)  # past the context
    assert texts(prompts) == together  # by the recording that was kept
    assert [texts([prompt])[0][:5] for prompt in prompts] == [row[:5] for row in together]
