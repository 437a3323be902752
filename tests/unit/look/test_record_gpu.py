"""Recording on a GPU, where steps are replayed from a graph and blocks are fused: the same ids, the same bits."""

import pytest
import torch

from manyheads.generate.greedy import decoded, greedy
from manyheads.generate.prompts import PromptSteps, prompt_steps
from manyheads.generate.steps import SpecialIds
from manyheads.look.heads import heads_off
from manyheads.look.record import recorded_attention
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="recording on a GPU needs a GPU")
SIZES = {"vocabulary": 331, "width": 192, "layers": 3, "heads": 3, "context": 512}


def models(precision=torch.bfloat16):
    torch.manual_seed(3)
    for model in (GPT(GPTConfig(**SIZES)), Llama(LlamaConfig(**SIZES, key_value_heads=1))):
        for name, weight in model.named_parameters():
            if name.endswith("projection.weight"):
                weight.data.normal_(std=0.2)
        yield model.eval().to("cuda", precision)


def written(model, prompts):
    """Greedy ids of each prompt, and the logits that they were chosen by."""
    steps, logits = prompt_steps(model, prompts, 64), []
    ids = [[] for _ in prompts]

    def best(found, rows):
        logits.append(found.clone())
        return found.argmax(dim=1)

    for rows, newest in decoded(steps, torch.full((len(prompts),), 20), SpecialIds(stop_ids=(1,)), best):
        for row, each in zip(rows.tolist(), newest.tolist()):
            ids[row].append(each)
    steps.close()
    return [row[: row.index(1)] if 1 in row else row for row in ids], logits


@pytest.mark.parametrize(("precision", "close"), [(torch.float32, 1e-4), (torch.bfloat16, 0.2)])
def test_ids_are_the_same_and_steps_are_joined(precision, close):
    """In bfloat16 a pass over all of a text rounds otherwise than its steps, so that only gross errors show."""
    prompts = [[5, 6, 7, 8, 9], [10, 11], [12, 13, 14]]
    for model in models(precision):
        with torch.inference_mode():
            expected, _ = written(model, prompts)
            with recorded_attention(model) as weights:
                found, _ = written(model, prompts)
            assert found == expected
            assert written(model, prompts)[0] == expected  # and replayed again afterwards
            assert weights.largest_difference < 0.05
            for row, (prompt, ids) in enumerate(zip(prompts, found)):
                whole = [*prompt, *ids][: len(prompt) + min(len(ids) + 1, 20) - 1]
                with recorded_attention(model) as alone:
                    model(torch.tensor([whole], device="cuda"))
                for name, each in alone.items():
                    length = len(whole)
                    difference = (weights[name][row, :, :length, :length] - each[0]).abs().max()
                    assert float(difference) < close, (type(model), name, row, float(difference))


def test_a_step_s_logits_are_the_same_bits():
    """Of the first step behind the prompt, before ids could hide a difference, and of all that follow it."""
    for model in models():
        prompts = [[5, 6, 7, 8, 9]]
        with torch.inference_mode():
            _, plain = written(model, prompts)
            with recorded_attention(model, layers=[1], heads=[2]):
                _, watched = written(model, prompts)
        assert len(plain) == len(watched)
        for before, after in zip(plain, watched):
            assert torch.equal(before, after)


def test_heads_off_are_off_in_every_step():
    for model in models():
        with torch.inference_mode(), heads_off(model, {(0, 0), (1, 1)}):
            steps = PromptSteps(model, [[5, 6, 7]], 64)
            plain = greedy(steps, torch.tensor([12]), SpecialIds(stop_ids=(1,)), scored=False)[0].ids
            assert written(model, [[5, 6, 7]])[0][0][:12] == plain
