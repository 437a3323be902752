"""Training GPT-2 124M on one GPU: manyheads, nanoGPT and transformers, all compiled, in one run.

    python benchmarks/gpt_train_gpu.py --nanogpt PATH_OF_A_CLONE          about 4 minutes on an H200

Batches of 32 × 1024 random tokens, bfloat16 autocast over float32 weights, vocabulary 50,304, dropout 0, fused AdamW,
gradients clipped to norm 1. Ours and transformers' are GPT-2 as published, with biases; nanoGPT's runs both with them
and as it comes, without. Ours is the step of our own training loop with its own loss; nanoGPT's and
transformers' are the step that nanoGPT's train.py takes. Each contender warms up until it is compiled; then rounds of
20 steps are taken in turn. Printed: tokens/s, the ratio to each peer, the peak of memory of a step, and MFU against the
H200's 989 TFLOP/s.

`--loss` measures instead what the loss alone needs at its peak: all logits at once, as the peers have it, against ours.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import torch
from common import describe_machine, in_turns, report

VOCABULARY, CONTEXT, STEPS = 50_304, 1024, 20
PEAK = 989e12


def prepare_ours(rows: int):
    from dataclasses import replace

    import numpy as np

    from manyheads.data.ragged import Store
    from manyheads.data.text import text_batches
    from manyheads.models.gpt import GPT, gpt2_small
    from manyheads.train.config import TrainConfig
    from manyheads.train.loop import Training, _LogInterval
    from manyheads.train.objectives import language_loss

    config = replace(gpt2_small(), vocabulary=VOCABULARY, dropout=0.0, attention_dropout=0.0)
    train = TrainConfig(
        optimizer="adamw", weight_decay=0.1, learning_rate=6e-4, beta2=0.95, warmup=10, compile=True, device="cuda"
    )
    ids = np.random.default_rng(1).integers(VOCABULARY, size=200 * rows * CONTEXT, dtype=np.uint16)
    batches = text_batches(Store({"ids": ids}), rows=rows, length=CONTEXT, seed=1)

    class Job:
        def loss(self, model, batch):
            return language_loss(model, batch)

    training = Training(Path(tempfile.mkdtemp()), train, GPT(config), config.width, batches, Job())  # type: ignore
    training.interval = _LogInterval()
    groups = training._groups()

    def steps(count: int) -> None:
        for _ in range(count):
            training._update(next(groups))

    return steps


def nanogpt_step(model, optimizer, rows: int, loss_of):
    """The step of nanoGPT's train.py: a batch from pinned memory, autocast, clip, step."""
    data = torch.randint(VOCABULARY, (rows * CONTEXT * 50,))

    def batch():
        starts = torch.randint(len(data) - CONTEXT - 1, (rows,)).tolist()
        x = torch.stack([data[start : start + CONTEXT] for start in starts]).pin_memory()
        y = torch.stack([data[start + 1 : start + 1 + CONTEXT] for start in starts]).pin_memory()
        return x.cuda(non_blocking=True), y.cuda(non_blocking=True)

    def steps(count: int) -> None:
        x, y = batch()
        for _ in range(count):
            with torch.autocast("cuda", torch.bfloat16):
                loss = loss_of(model, x, y)
            x, y = batch()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

    return steps


def prepare_nanogpt(rows: int, path: str, bias: bool):
    sys.path.insert(0, path)
    from model import GPT, GPTConfig  # type: ignore

    model = GPT(GPTConfig(block_size=CONTEXT, vocab_size=VOCABULARY, dropout=0.0, bias=bias)).cuda()
    optimizer = model.configure_optimizers(0.1, 6e-4, (0.9, 0.95), "cuda")
    return nanogpt_step(torch.compile(model), optimizer, rows, lambda model, x, y: model(x, y)[1])


def prepare_transformers(rows: int):
    from transformers import GPT2Config, GPT2LMHeadModel

    off = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, **off, use_cache=False)).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    def loss_of(model, x, y):
        logits = model(input_ids=x).logits
        return torch.nn.functional.cross_entropy(logits.float().view(-1, VOCABULARY), y.view(-1))

    return nanogpt_step(torch.compile(model), optimizer, rows, loss_of)


def measured(steps, rows: int):
    def rate() -> float:
        torch.cuda.synchronize()
        began = time.perf_counter()
        steps(STEPS)
        torch.cuda.synchronize()
        return STEPS * rows * CONTEXT / (time.perf_counter() - began)

    return rate


def flops_of_a_token() -> float:
    """6 for each weight that multiplies, and attention's own: nanoGPT's count."""
    weights = 12 * 12 * 768**2 + VOCABULARY * 768
    return 6 * weights + 12 * 12 * 768 * CONTEXT


def compare_losses(rows: int) -> None:
    from manyheads.ops.losses import smoothed_cross_entropy

    weight = torch.randn(50_257, 768, device="cuda", requires_grad=True)
    bias, targets = torch.zeros(50_257, device="cuda"), torch.randint(50_257, (rows * CONTEXT,), device="cuda")

    def at_once(states):
        logits = torch.nn.functional.linear(states, weight)
        torch.nn.functional.cross_entropy(logits.float(), targets).backward()

    def in_chunks(states):
        smoothed_cross_entropy(states, weight, bias, targets)[0].backward()

    for name, loss in (("all logits at once", at_once), ("ours, in chunks", in_chunks)):
        states = torch.randn(rows * CONTEXT, 768, device="cuda", requires_grad=True)
        for _ in range(2):
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            with torch.autocast("cuda", torch.bfloat16):
                loss(states)
            peak = torch.cuda.max_memory_allocated() - before
        print(
            f"{name:<22} {peak / 2**30:6.2f} GiB above weights and states, {rows} × {CONTEXT} positions, 50,257 tokens"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="tokens/s of training GPT-2 124M on a GPU")
    parser.add_argument("--nanogpt", help="a clone of nanoGPT")
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--loss", action="store_true", help="measure the memory of the loss alone")
    parser.add_argument("--without-transformers", action="store_true")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    describe_machine()
    compare_losses(options.rows)
    if options.loss:
        return
    contenders = {"manyheads": prepare_ours(options.rows)}
    if options.nanogpt:
        contenders["nanoGPT, compiled, its default without biases"] = prepare_nanogpt(
            options.rows, options.nanogpt, False
        )
        contenders["nanoGPT, compiled, GPT-2 with its biases"] = prepare_nanogpt(options.rows, options.nanogpt, True)
    if not options.without_transformers:
        contenders["transformers GPT2, compiled"] = prepare_transformers(options.rows)
    for name, steps in contenders.items():
        torch.cuda.reset_peak_memory_stats()
        before, began = torch.cuda.memory_allocated(), time.perf_counter()
        steps(10)
        torch.cuda.synchronize()
        peak = (torch.cuda.max_memory_allocated() - before) / 2**30
        print(
            f"{name}: compiled and warm after {time.perf_counter() - began:.0f} s, a step's peak {peak:.1f} GiB",
            flush=True,
        )
    rates = in_turns({name: measured(steps, options.rows) for name, steps in contenders.items()}, options.rounds)
    report("training GPT-2 124M", rates, "tokens/s")
    from statistics import median

    for name, values in rates.items():
        print(f"  MFU of {name}: {100 * median(values) * flops_of_a_token() / PEAK:.1f}%")


if __name__ == "__main__":
    main()
