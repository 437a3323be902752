"""Training ViT-B/16 on one GPU: manyheads, transformers, timm and torchvision, all compiled, each in its own process.

    python benchmarks/vit_train_gpu.py                       about 4 minutes on an H200, most of them compiling
    python benchmarks/vit_train_gpu.py --profile             and the kernels that a step of ours spends its time in
    python benchmarks/vit_train_gpu.py --small --rounds 1    seconds, also without a GPU, to see that it works

Images of 224 px as random bfloat16 tensors on the device, 1,000 labels, bfloat16 autocast over float32 weights, no
dropout, fused AdamW, gradients clipped to norm 1. Ours is the step of our own training loop with its own loss; the
peers' is the usual one: forward, cross-entropy, backward, clip, step. A peer that is not installed is left out, which
is said. All have SDPA attention and torch.compile.

Each contender is compiled for each batch size, then timed at each; its best counts. Then rounds of 20 steps are taken
in turn. Printed: images/s, the ratio to each peer, and MFU against the H200's 989 TFLOP/s.
"""

import argparse
import importlib.util
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median

from common import Worker, describe_machine, in_turns, report, serve

SIDE, LABELS, STEPS, WARM, INPUTS = 224, 1000, 20, 3, 4
OURS = "manyheads"
PEERS = {"transformers": "transformers", "timm": "timm", "torchvision": "torchvision"}
PEAK = 989e12
FLOPS_OF_AN_IMAGE = 3 * 2 * 17.56e9
"""Of a step: forward and twice as much backward, two for each of the multiplications of the whole model."""


# The contenders: a function that takes a batch size and gives one that takes so many steps


def sizes(small: bool) -> dict[str, int]:
    return {"width": 64, "layers": 2, "heads": 2} if small else {"width": 768, "layers": 12, "heads": 12}


def inputs(rows: int) -> list:
    """Some batches of pixels and labels where the model is."""
    import torch

    drawn = torch.Generator().manual_seed(rows)
    pixels = [torch.randn(rows, 3, SIDE, SIDE, generator=drawn).to(device(), torch.bfloat16) for _ in range(2)]
    labels = [torch.randint(LABELS, (rows,), generator=drawn).to(device()) for _ in range(INPUTS)]
    # Turned round they are others: drawing numbers takes longer than a step.
    return [(one, other) for one, other in zip([*pixels, *(each.flip(0) for each in pixels)], labels)]


def device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def prepare_ours(small: bool, compiled: bool):
    import torch

    from manyheads.data.batches import Batch
    from manyheads.models.vit import ViT, ViTClassifier, ViTConfig
    from manyheads.train.config import TrainConfig
    from manyheads.train.loop import Training, _LogInterval
    from manyheads.train.objectives import image_loss

    config = ViTConfig(image_size=SIDE, patch_size=16, **sizes(small))
    model = ViTClassifier(ViT(config), tuple(str(number) for number in range(LABELS)))
    train = TrainConfig(
        optimizer="adamw", weight_decay=0.05, learning_rate=1e-3, warmup=100, compile=compiled, device=device()
    )

    class Job:
        def loss(self, model, batch):
            return image_loss(model(batch.pixels), batch.labels)

    training = Training(Path(tempfile.mkdtemp()), train, model, config.width, None, Job())  # type: ignore
    training.interval = _LogInterval()

    def of(rows: int):
        batches = [Batch(rows, pixels=pixels, labels=labels) for pixels, labels in inputs(rows)]
        autocast_on_cpu = torch.autocast("cpu", torch.bfloat16, enabled=device() == "cpu")

        def steps(count: int) -> None:
            with autocast_on_cpu:
                for number in range(count):
                    training._update([batches[number % INPUTS]])

        return steps

    return of


def peer(name: str, small: bool):
    """A peer's model, and what gives logits of it."""
    shape = sizes(small)
    if name == "transformers":
        from transformers import ViTConfig, ViTForImageClassification

        config = ViTConfig(
            image_size=SIDE,
            patch_size=16,
            hidden_size=shape["width"],
            num_hidden_layers=shape["layers"],
            num_attention_heads=shape["heads"],
            intermediate_size=4 * shape["width"],
            num_labels=LABELS,
            attn_implementation="sdpa",
        )
        return ViTForImageClassification(config), lambda found: found.logits
    if name == "timm":
        import timm

        model = (
            timm.create_model("vit_base_patch16_224", num_classes=LABELS)
            if not small
            else timm.create_model("vit_tiny_patch16_224", num_classes=LABELS)
        )
        return model, lambda found: found
    from torchvision.models import VisionTransformer

    model = VisionTransformer(SIDE, 16, shape["layers"], shape["heads"], shape["width"], 4 * shape["width"])
    return model, lambda found: found


def prepare_peer(name: str, small: bool, compiled: bool):
    import torch

    model, logits_of = peer(name, small)
    model = model.to(device()).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.05, fused=True)
    called = torch.compile(model) if compiled else model

    def of(rows: int):
        batches = inputs(rows)

        def steps(count: int) -> None:
            for number in range(count):
                pixels, labels = batches[number % INPUTS]
                with torch.autocast(device(), torch.bfloat16):
                    loss = torch.nn.functional.cross_entropy(logits_of(called(pixels)).float(), labels)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()

        return steps

    return of


# The worker


def work(name: str, small: str):
    import torch

    compiled = device() == "cuda"
    torch.set_float32_matmul_precision("high")
    # Each batch size has a graph of its own, as if it were the only one.
    torch._dynamo.config.automatic_dynamic_shapes = False  # type: ignore
    of = prepare_ours(bool(small), compiled) if name == OURS else prepare_peer(name, bool(small), compiled)

    def answer(rows: int, count: int = STEPS, profile: bool = False) -> dict:
        """How long so many steps take; memory is given back, since others run in between."""
        for tries in range(5):
            try:
                return timed(of(rows), rows, count, profile)
            except torch.cuda.OutOfMemoryError:
                if tries == 4:
                    raise
                torch.cuda.empty_cache()
                time.sleep(5)
        raise AssertionError

    return answer


def timed(steps, rows: int, count: int, profile: bool) -> dict:
    import torch

    cuda = device() == "cuda"
    wait = torch.cuda.synchronize if cuda else lambda: None
    steps(WARM)
    wait()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    if profile:
        found = {"kernels": kernels(steps)}
    else:
        began = time.perf_counter()
        steps(count)
        wait()
        seconds = time.perf_counter() - began
        peak = torch.cuda.max_memory_allocated() / 2**30 if cuda else 0.0
        found = {"rate": count * rows / seconds, "peak": peak}
    if cuda:
        torch.cuda.empty_cache()
    return found


def kernels(steps, count: int = 4, most: int = 15) -> list[str]:
    """The kernels that take longest, with their share of the time and how often each runs in a step."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        steps(count)
        if device() == "cuda":
            torch.cuda.synchronize()
    # Regions that were given a name take as long as the kernels in them.
    regions = ("Torch-Compiled", "##", "Optimizer.", "AOT", "CompiledF", "autograd::", "ProfilerStep")
    events = [
        each
        for each in found.key_averages()
        if "cuda" in str(each.device_type).lower()
        and not getattr(each, "is_user_annotation", False)
        and not each.key.startswith(regions)
    ]
    whole = sum(each.self_device_time_total for each in events)
    lines = [f"all kernels: {whole / count / 1000:.2f} ms a step"]
    for each in sorted(events, key=lambda each: -each.self_device_time_total)[:most]:
        spent = each.self_device_time_total
        share, times = 100 * spent / whole, each.count / count
        lines.append(f"{share:5.1f}%  {spent / count / 1000:7.3f} ms  {times:6.1f} ×  {each.key[:110]}")
    return lines


# The parent


def contenders(asked: list[str]) -> list[str]:
    """Ours and the peers that are installed."""
    missing = [name for name in asked if importlib.util.find_spec(PEERS[name]) is None]
    if missing:
        print(f"not installed here, so left out: {', '.join(missing)}", flush=True)
    return [OURS, *(name for name in asked if name not in missing)]


def best_sizes(workers: dict[str, Worker], batches: list[int]) -> dict[str, int]:
    """The batch size with which each contender is fastest; all compile at once, then each is timed alone."""
    began = time.perf_counter()
    with ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(lambda worker: [worker.ask(rows=rows, count=1) for rows in batches], workers.values()))
    print(f"compiled within {time.perf_counter() - began:.0f} s", flush=True)
    best: dict[str, int] = {}
    for name, worker in workers.items():
        found = {rows: worker.ask(rows=rows, count=max(STEPS // 2, 1)) for rows in batches}
        best[name] = max(found, key=lambda rows: found[rows]["rate"])
        shown = ", ".join(
            f"{rows}: {each['rate']:,.0f} images/s, {each['peak']:.1f} GiB" for rows, each in found.items()
        )
        print(f"  {name}, by batch size  {shown}", flush=True)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description="images/s of training ViT-B/16 on a GPU")
    parser.add_argument("--batches", type=int, nargs="+", help="batch sizes; unset: 128 256 512")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--profile", action="store_true", help="print the kernels that take longest, of all contenders")
    parser.add_argument("--small", action="store_true", help="a model of two layers")
    options = parser.parse_args()
    describe_machine()
    names = contenders(options.peers)
    batches = options.batches or ([2] if options.small else [128, 256, 512])
    # Several compile side by side.
    environment = {"TORCHINDUCTOR_COMPILE_THREADS": "4"}
    with ThreadPoolExecutor(len(names)) as pool:
        small = "small" if options.small else ""
        made = pool.map(lambda name: Worker(__file__, name, small, environment=environment), names)
        workers = dict(zip(names, made))
    best = best_sizes(workers, batches)

    def rate(name: str) -> float:
        return workers[name].ask(rows=best[name])["rate"]

    rates = in_turns({name: partial(rate, name) for name in names}, options.rounds, warmup=0)
    if options.profile:
        for name in names:
            print(f"\n{name}, {best[name]} images a batch")
            print("\n".join(workers[name].ask(rows=best[name], profile=True)["kernels"]))
    for worker in workers.values():
        worker.close()
    if len(names) > 1:
        report("training ViT-B/16 at 224 px", rates, "images/s", OURS)
    for name, values in rates.items():
        share = 100 * median(values) * FLOPS_OF_AN_IMAGE / PEAK
        print(f"  {name}: {median(values):,.0f} images/s, {best[name]} a batch, MFU {share:.1f}%")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        serve(lambda: work(*sys.argv[2:]))
    else:
        main()
