"""Decoding with the shape of GPT-2 XL on one GPU: manyheads and transformers, bfloat16, batch 1, 64 + 128 tokens.

    python benchmarks/gpt_decode_gpu.py                  about 4 minutes on an H200
    python benchmarks/gpt_decode_gpu.py --ours           ours alone

Random weights, the same for both. transformers decodes with its static cache and a compiled forward; ours with its
recorded steps. The end of a text is forbidden, so that all 128 tokens come. Printed: output tokens/s with the prompt's
pass counted in, and the limit that reading the weights once a token sets.
"""

import argparse
import time
from dataclasses import replace

import torch
from common import describe_machine, in_turns, report

PROMPT, TOKENS = 64, 128


def prepare_ours(model):
    from manyheads.generate.greedy import decoded
    from manyheads.generate.prompts import prompt_steps
    from manyheads.generate.steps import SpecialIds
    from manyheads.ops.sampling import best_allowed

    prompt = torch.randint(50_257, (PROMPT,), generator=torch.Generator().manual_seed(3)).tolist()

    def decode() -> list[int]:
        with torch.inference_mode():
            steps = prompt_steps(model, [prompt], PROMPT + TOKENS)
            found = decoded(
                steps,
                torch.tensor([TOKENS]),
                SpecialIds(),
                lambda logits, _: best_allowed(logits, 1, ())[1][:, 0],
            )
            ids = [int(newest) for _, newest in found]
            steps.close()
            return ids

    return decode, prompt


def prepare_transformers(model, prompt: list[int]):
    from transformers import GPT2Config, GPT2LMHeadModel

    from manyheads.interop.gpt import GPTNames

    theirs = GPT2LMHeadModel(GPT2Config(**GPTNames().write_config(model.config)))
    theirs.load_state_dict(
        {name: tensor.float().cpu() for name, tensor in GPTNames().write_tensors(model).items()}, strict=False
    )
    theirs.tie_weights()
    theirs = theirs.to("cuda", torch.bfloat16).eval()
    theirs.generation_config.eos_token_id = theirs.generation_config.pad_token_id = None
    ids = torch.tensor([prompt], device="cuda")

    def decode() -> list[int]:
        with torch.inference_mode():
            found = theirs.generate(
                ids, max_new_tokens=TOKENS, do_sample=False, cache_implementation="static", pad_token_id=0
            )
        return found[0, PROMPT:].tolist()

    return decode


def main() -> None:
    parser = argparse.ArgumentParser(description="output tokens/s of GPT-2 XL's shape on a GPU")
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--preset", default="gpt2_xl")
    options = parser.parse_args()
    from manyheads.models.gpt import GPT, PRESETS

    describe_machine()
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = GPT(replace(PRESETS[options.preset](), vocabulary=50_257)).to(torch.bfloat16).eval()
    ours, prompt = prepare_ours(model)
    contenders = {"manyheads": ours}
    if not options.ours:
        contenders["transformers, static cache, compiled"] = prepare_transformers(model, prompt)
    outputs = {}
    for name, decode in contenders.items():
        began = time.perf_counter()
        outputs[name] = decode()
        decode()
        print(f"{name}: warm after {time.perf_counter() - began:.1f} s", flush=True)
    for name, found in outputs.items():
        same = sum(one == other for one, other in zip(found, outputs["manyheads"]))
        print(f"{name}: {len(found)} tokens, {same} equal to ours")

    def rate(decode) -> float:
        torch.cuda.synchronize()
        began = time.perf_counter()
        decode()
        torch.cuda.synchronize()
        return TOKENS / (time.perf_counter() - began)

    rates = in_turns({name: lambda decode=decode: rate(decode) for name, decode in contenders.items()}, options.rounds)
    if options.ours:
        print({name: [round(value, 1) for value in values] for name, values in rates.items()})
    else:
        report(f"decoding {options.preset}", rates, "output tokens/s")


if __name__ == "__main__":
    main()
