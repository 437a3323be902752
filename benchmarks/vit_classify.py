"""Classifying pictures on a CPU: manyheads and the pipeline of transformers, float32, each in its own process.

    python benchmarks/vit_classify.py                                   about 3 minutes on 2 quiet cores
    python benchmarks/vit_classify.py --rounds 1 --pictures 16          seconds, to see that it works

ViT-Ti/16 at 224 px with random weights and 1,000 labels, saved once by manyheads as a ViTForImageClassification and
opened by both. The pictures are JPEGs of the sizes of photos in ImageNet, drawn at random: waves of colour, shapes and
noise, about as large as files as photos are. Timed: paths in, the likeliest label with its probability out; reading,
decoding and resizing included.

The pipeline is asked for one label of each (top_k=1), as it comes, in batches of one; and with the batch size and the
number of reading processes that are best for it here, which are found first. Ours is asked as its users do,
`ImageClassifier.load(directory)(files)`. Printed: how far apart the answers are, images/s, and the ratio of ours to
each.
"""

import argparse
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

from common import Worker, describe_machine, in_turns, report, serve

OURS, PEER = "manyheads", "transformers' pipeline"
LABELS = 1000
SIZES = ((500, 375), (375, 500), (500, 333), (500, 375), (333, 500), (640, 480), (500, 500), (400, 300))
BATCHES, PROCESSES = (1, 4, 16, 64), (0, 2)
CLOSE = 1e-4  # between probabilities


def build(directory: Path) -> None:
    """ViT-Ti/16 with random weights, whose labels differ from picture to picture."""
    import torch

    from manyheads.data.images import ImageProcessor
    from manyheads.interop.directory import save_model
    from manyheads.models.vit import PRESETS, ViT, ViTClassifier

    torch.manual_seed(14)
    model = ViTClassifier(ViT(PRESETS["vit_ti16"]()), tuple(f"label {number}" for number in range(LABELS)))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))  # norms and biases that are not one and zero
        model.score.weight.normal_()
    save_model(directory, model, ImageProcessor(), "Random weights, for benchmarks/vit_classify.py.")


def draw(folder: Path, count: int) -> list[str]:
    """JPEGs of waves, ellipses and noise."""
    import numpy as np
    from PIL import Image

    random = np.random.default_rng(14)
    folder.mkdir()
    for number in range(count):
        width, height = SIZES[number % len(SIZES)]
        down, across = np.mgrid[0:height, 0:width].astype(np.float32)
        shades = np.zeros((height, width, 3), dtype=np.float32)
        for _ in range(6):
            length, angle, phase = random.uniform(10, 300), *random.uniform(0, 2 * np.pi, 2)
            wave = np.sin((across * np.cos(angle) + down * np.sin(angle)) * 2 * np.pi / length + phase)
            shades += wave[..., None] * random.uniform(-30, 30, 3)
        for _ in range(4):
            x, y, wide, high = random.uniform((0, 0, 20, 20), (width, height, width / 3, height / 3))
            shades[((across - x) / wide) ** 2 + ((down - y) / high) ** 2 < 1] += random.uniform(-80, 80, 3)
        shades += 128 + random.normal(0, 12, shades.shape)
        Image.fromarray(shades.clip(0, 255).astype(np.uint8)).save(folder / f"{number:04}.jpg", quality=90)
    return files(folder)


def files(folder: Path) -> list[str]:
    return sorted(map(str, folder.iterdir()))


def prepare_ours(directory: str):
    from manyheads.tasks.images.use import ImageClassifier

    classifier = ImageClassifier.load(directory, device="cpu")

    def classify(pictures: list[str], batch: int, processes: int) -> list[tuple[str, float]]:
        return [(found.name, found.probability) for found in classifier(pictures)]

    return classify


def prepare_peer(directory: str):
    from transformers import pipeline

    classifier = pipeline("image-classification", model=directory, device="cpu")

    def classify(pictures: list[str], batch: int, processes: int) -> list[tuple[str, float]]:
        found = classifier(pictures, batch_size=batch, num_workers=processes, top_k=1)
        return [(each[0]["label"], each[0]["score"]) for each in found]  # type: ignore

    return classify


def work(name: str, directory: str, folder: str):
    """The worker: loads once, then answers what all pictures show and how long that took."""
    classify, pictures = (prepare_ours if name == OURS else prepare_peer)(directory), files(Path(folder))

    def answer(batch: int = 1, processes: int = 0, count: int | None = None) -> dict:
        began = time.perf_counter()
        found = classify(pictures[:count], batch, processes)
        return {"seconds": time.perf_counter() - began, "found": found}

    return answer


def best_way(worker: Worker, rounds: int, count: int) -> tuple[int, int]:
    """The batch size and the processes with which the pipeline is fastest, each tried in turn."""

    def rate(batch: int, processes: int) -> float:
        return 1 / worker.ask(batch=batch, processes=processes, count=count)["seconds"]

    ways = {f"{batch} by {processes}": (batch, processes) for batch in BATCHES for processes in PROCESSES}
    tried = in_turns({name: partial(rate, *way) for name, way in ways.items()}, rounds)
    rates = {name: median(found) for name, found in tried.items()}
    most = max(rates.values())
    shown = ", ".join(f"{name}: {rate / most:.2f}" for name, rate in rates.items())
    print(f"the pipeline's speed by batch size and reading processes, as a part of the best: {shown}", flush=True)
    return ways[max(rates, key=rates.__getitem__)]


def check(workers: dict[str, Worker]) -> None:
    """All labels are ours and all probabilities close to ours, or this stops."""
    ours = workers[OURS].ask()["found"]
    theirs = workers[PEER].ask()["found"]
    equal = sum(one[0] == other[0] for one, other in zip(ours, theirs, strict=True))
    apart = max(abs(one[1] - other[1]) for one, other in zip(ours, theirs))
    different = len({label for label, _ in ours})
    print(f"{equal} of {len(ours)} labels equal ({different} different ones); probabilities up to {apart:.1e} apart")
    if equal < len(ours) or apart > CLOSE:
        raise SystemExit("the pipeline's answers are not ours")


def main() -> None:
    parser = argparse.ArgumentParser(description="images/s of classifying with ViT-Ti/16 on a CPU")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--pictures", type=int, default=256)
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"  # all files are here
    describe_machine()
    with tempfile.TemporaryDirectory() as place:
        directory, folder = Path(place, "model"), Path(place, "pictures")
        build(directory)
        pictures = draw(folder, options.pictures)
        large = sum(Path(each).stat().st_size for each in pictures) / len(pictures) / 1024
        print(
            f"{len(pictures)} JPEGs of {large:.0f} kB on average, OMP_NUM_THREADS {os.environ.get('OMP_NUM_THREADS')}"
        )
        tuned = f"{PEER}, best batch"
        workers = {name: Worker(__file__, name, str(directory), str(folder)) for name in (OURS, PEER, tuned)}
        check(workers)
        batch, processes = best_way(workers[tuned], max(options.rounds // 3, 1), max(options.pictures // 4, 1))
        print(f"its best batch has {batch}, read by {processes or 'no'} processes of their own")
        asked = {OURS: {}, PEER: {}, tuned: {"batch": batch, "processes": processes}}

        def rate(name: str) -> float:
            return len(pictures) / workers[name].ask(**asked[name])["seconds"]

        rates = in_turns({name: partial(rate, name) for name in workers}, options.rounds)
        report("classifying with ViT-Ti/16 at 224 px", rates, "images/s")
        for worker in workers.values():
            worker.close()


if __name__ == "__main__":
    if "--worker" in sys.argv:
        serve(lambda: work(*sys.argv[2:]))
    else:
        main()
