"""Decoding with the shape of GPT-2 124M on a CPU: manyheads and transformers, float32, each in its own process.

    python benchmarks/gpt_decode.py                     about 6 minutes on 2 quiet cores
    python benchmarks/gpt_decode.py --rounds 1 --tokens 8      a minute, to see that it works

Random weights, saved once by manyheads and opened by both. Prompts of 64 random tokens, batches of 1 and of 8, greedy,
128 new tokens each, since no token ends a text. Timed: ids in, ids out, the prompt's pass included. Printed: whether
the outputs agree, output tokens/s of all rows together, and the ratio.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from random import Random

from common import Worker, describe_machine, in_turns, report, serve

CONTENDERS = ("manyheads", "transformers GPT2.generate")
VOCABULARY, PROMPT = 50_257, 64


def build(directory: Path) -> None:
    """GPT-2 small with random weights, and a word for every row."""
    import tokenizers
    import torch
    from tokenizers import models

    from manyheads.interop.directory import save_model
    from manyheads.models.gpt import GPT, gpt2_small
    from manyheads.text.language import LanguageTokenizer

    words = {f"w{number}": number for number in range(VOCABULARY)}
    tokenizer = LanguageTokenizer(tokenizers.Tokenizer(models.WordLevel(words, "w0")), end=None)
    torch.manual_seed(4)
    model = GPT(replace(gpt2_small(), vocabulary=VOCABULARY))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))  # norms and biases that are not one and zero
    save_model(directory, model, tokenizer, "Random weights, for benchmarks/gpt_decode.py.")


def prompts(rows: int) -> list[list[int]]:
    random = Random(rows)
    return [[random.randrange(VOCABULARY) for _ in range(PROMPT)] for _ in range(rows)]


def prepare_ours(directory: Path):
    import torch

    from manyheads.generate.greedy import greedy
    from manyheads.generate.prompts import PromptSteps
    from manyheads.generate.steps import SpecialIds
    from manyheads.interop.directory import load_model

    model, _ = load_model(directory)

    def decode(rows: int, tokens: int) -> list[list[int]]:
        with torch.inference_mode():
            steps = PromptSteps(model, prompts(rows), PROMPT + tokens)
            found = greedy(steps, torch.full((rows,), tokens), SpecialIds(), scored=False)
        return [each.ids for each in found]

    return decode


def prepare_transformers(directory: Path):
    import torch
    from transformers import GPT2LMHeadModel

    model = GPT2LMHeadModel.from_pretrained(directory).eval()
    model.generation_config.eos_token_id = None

    def decode(rows: int, tokens: int) -> list[list[int]]:
        ids = torch.tensor(prompts(rows))
        with torch.inference_mode():
            found = model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False, pad_token_id=0
            )
        return found[:, PROMPT:].tolist()

    return decode


def work(name: str, directory: str):
    decode = (prepare_ours if name == CONTENDERS[0] else prepare_transformers)(Path(directory))

    def answer(rows: int, tokens: int) -> dict:
        began = time.perf_counter()
        found = decode(rows, tokens)
        return {"seconds": time.perf_counter() - began, "ids": found}

    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description="output tokens/s of GPT-2 124M's shape on a CPU")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8])
    options = parser.parse_args()
    describe_machine()
    with tempfile.TemporaryDirectory() as directory:
        build(Path(directory))
        workers = {name: Worker(__file__, name, directory) for name in CONTENDERS}
        for rows in options.rows:
            outputs = {name: worker.ask(rows=rows, tokens=options.tokens)["ids"] for name, worker in workers.items()}
            if any(len(row) != options.tokens for found in outputs.values() for row in found):
                raise SystemExit(f"a contender did not write {options.tokens} tokens")
            equal = sum(one == other for one, other in zip(*outputs.values()))
            print(f"\nbatch {rows}: {equal} of {rows} texts equal", flush=True)

            def rate(worker: Worker, rows: int = rows) -> float:
                return rows * options.tokens / worker.ask(rows=rows, tokens=options.tokens)["seconds"]

            turns = {name: lambda worker=worker: rate(worker) for name, worker in workers.items()}
            report(f"batch {rows}", in_turns(turns, options.rounds), "output tokens/s")
        for worker in workers.values():
            worker.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        serve(lambda: work(*sys.argv[2:]))
    else:
        main()
