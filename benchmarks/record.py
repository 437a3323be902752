"""What looking costs: one head recorded in a long text, and decoding while nothing is recorded.

    python benchmarks/record.py                       about 4 minutes on 2 quiet cores
    python benchmarks/record.py --before CHECKOUT     and decoding against another checkout, about 3 minutes more

Recording: GPT-2 small's shape with random weights, 2,048 tokens, logits of all of them. manyheads records one head of
one layer under its fast kernel; transformers, with eager attention, returns the weights of all heads, which is the only
way it has. Extra memory is the highest resident size of the pass that returns weights above that of the same model's
pass that does not (transformers: with SDPA, its default).

Decoding: 64 sentences through a translator of 3+3 layers of width 256, greedy and beam 4, and one prompt through
GPT-2 small's shape, with this checkout's code and with that of CHECKOUT, for instance one from before recording was
there: `git worktree add ../before REVISION`. Each in its own process, in turns.
"""

import argparse
import gc
import os
import random
import sys
import time
from pathlib import Path

from common import Worker, describe_machine, in_turns, ratio, report, serve

TOKENS = 2048
OURS, THEIRS = "manyheads, one head of one layer", "transformers eager, all weights"
NOW, BEFORE = "this checkout", "the other checkout"
DECODED = ("greedy", "beam 4", "GPT-2")


def memory(what: str) -> float:
    """VmRSS or VmHWM, the highest since it was last set back, in megabytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(what))


def peak(run) -> tuple[float, float]:
    """Seconds of a run, and how far memory rose above where it began."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before, began = memory("VmRSS"), time.perf_counter()
    kept = run()
    seconds, high = time.perf_counter() - began, memory("VmHWM")
    del kept
    return seconds, high - before


def record_ours():
    import torch

    from manyheads import recorded_attention
    from manyheads.models.gpt import GPT, gpt2_small

    torch.manual_seed(1)
    config = gpt2_small()
    model = GPT(type(config)(vocabulary=50_257, context=TOKENS)).eval()
    ids = torch.randint(50_257, (1, TOKENS))

    @torch.inference_mode()
    def plain():
        return model(ids)

    @torch.inference_mode()
    def recorded():
        with recorded_attention(model, layers=[5], heads=[3]) as weights:
            return model(ids), weights

    return plain, recorded


def record_theirs():
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    models = {
        kind: GPT2LMHeadModel(GPT2Config(n_positions=TOKENS, attn_implementation=kind)).eval()
        for kind in ("sdpa", "eager")
    }
    ids = torch.randint(50_257, (1, TOKENS))

    @torch.inference_mode()
    def plain():
        return models["sdpa"](ids, use_cache=False)

    @torch.inference_mode()
    def recorded():
        return models["eager"](ids, use_cache=False, output_attentions=True)

    return plain, recorded


def decoders():
    """The three decodings, with whatever manyheads is on the path."""
    import torch

    from manyheads.generate.greedy import greedy
    from manyheads.generate.prompts import PromptSteps
    from manyheads.generate.steps import SpecialIds
    from manyheads.models.gpt import GPT, gpt2_small
    from manyheads.models.transformer import Transformer, TransformerConfig
    from manyheads.tasks.translate.use import decode_all

    torch.manual_seed(1)
    translator = Transformer(TransformerConfig(vocabulary=8000, width=256, layers=3, heads=4, inner=1024)).eval()
    drawn = random.Random(9)
    rows = [[drawn.randint(2, 7999) for _ in range(drawn.randint(4, 39))] + [1] for _ in range(64)]
    gpt = GPT(type(gpt2_small())(vocabulary=50_257)).eval()

    @torch.inference_mode()
    def written():
        greedy(PromptSteps(gpt, [list(range(64))], 128), torch.tensor([48]), SpecialIds(), scored=False)

    runs = {
        "greedy": lambda: decode_all(translator, rows, beam=1, limit=32, scored=False),
        "beam 4": lambda: decode_all(translator, rows, beam=4, limit=32),
        "GPT-2": written,
    }

    def answer(what: str) -> dict:
        began = time.perf_counter()
        runs[what]()
        return {"seconds": time.perf_counter() - began}

    return answer


def work(name: str):
    if name in (NOW, BEFORE):
        return decoders()
    plain, recorded = record_ours() if name == OURS else record_theirs()

    def answer() -> dict:
        _, without = peak(plain)
        seconds, high = peak(recorded)
        return {"seconds": seconds, "extra": high - without}

    return answer


def compare_recording(rounds: int) -> None:
    found_extra: dict[str, list[float]] = {OURS: [], THEIRS: []}
    with Worker(__file__, OURS) as ours, Worker(__file__, THEIRS) as theirs:

        def rate(name: str, worker: Worker) -> float:
            found = worker.ask()
            found_extra[name].append(found["extra"])
            return TOKENS / found["seconds"]

        rates = in_turns({OURS: lambda: rate(OURS, ours), THEIRS: lambda: rate(THEIRS, theirs)}, rounds)
    extra = {name: values[-rounds:] for name, values in found_extra.items()}  # without the warm-up
    report(f"one pass of {TOKENS:,} tokens with weights", rates, "tokens/s", OURS)
    print(f"  time, ours / theirs: {ratio(rates[THEIRS], rates[OURS])}")
    for name, values in extra.items():
        print(f"  extra memory, {name}: {sorted(values)[len(values) // 2]:,.0f} MB")
    print(f"  extra memory, ours / theirs: {ratio(extra[OURS], extra[THEIRS])}", flush=True)


def compare_decoding(before: Path, rounds: int) -> None:
    source = Path(__file__).resolve().parents[1] / "src"
    paths = {NOW: source, BEFORE: before.resolve() / "src"}
    workers = {name: Worker(__file__, name, environment={"PYTHONPATH": str(path)}) for name, path in paths.items()}
    for what in DECODED:
        asked = {name: lambda worker=worker: 1 / worker.ask(what=what)["seconds"] for name, worker in workers.items()}  # noqa: B023
        rates = in_turns(asked, rounds)
        report(f"decoding, nothing recorded: {what}", rates, "times a second", NOW)
    for worker in workers.values():
        worker.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="the cost of recording, and of its being possible")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=Path, help="a checkout to decode against")
    parser.add_argument("--decode-rounds", type=int, default=20)
    options = parser.parse_args()
    describe_machine()
    compare_recording(options.rounds)
    if options.before:
        compare_decoding(options.before, options.decode_rounds)


if __name__ == "__main__":
    os.environ.setdefault("OMP_PROC_BIND", "true")
    if "--worker" in sys.argv:
        serve(lambda: work(sys.argv[2]))
    else:
        main()
