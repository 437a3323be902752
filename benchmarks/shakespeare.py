"""Training nanoGPT's character model of Shakespeare on a CPU: manyheads and nanoGPT's own code, in turns.

    python benchmarks/shakespeare.py TEXT --nanogpt PATH_OF_A_CLONE          about 6 minutes on 2 quiet cores

4 layers, 4 heads, width 128, context 64, batch 12, 2000 iterations: the command that nanoGPT's README gives for a
MacBook, and our recipes/shakespeare-cpu.toml. TEXT is tiny Shakespeare, plain, .gz or .xz; nanoGPT's prepare.py runs on
it once. Timed: the whole command, from start to a saved model, each with its own validations: nanoGPT looks at 20
batches of each side every 250 iterations, ours at the whole validation text every 1000.
"""

import argparse
import gzip
import lzma
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import describe_machine, in_turns, report

RECIPE = Path(__file__).parent.parent / "recipes" / "shakespeare-cpu.toml"
NANOGPT = (
    "config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=20 --log_interval=1 --block_size=64 "
    "--batch_size=12 --n_layer=4 --n_head=4 --n_embd=128 --max_iters=2000 --lr_decay_iters=2000 --dropout=0.0"
)


def timed(command: list[str], where: Path) -> tuple[float, str]:
    began = time.perf_counter()
    done = subprocess.run(command, cwd=where, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return time.perf_counter() - began, done.stdout + done.stderr


def main() -> None:
    parser = argparse.ArgumentParser(description="wall time and loss of nanoGPT's character model on a CPU")
    parser.add_argument("text", type=Path)
    parser.add_argument("--nanogpt", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", nargs="*", default=[], help="changes to our recipe")
    options = parser.parse_args()
    describe_machine()
    openers = {".gz": gzip.open, ".xz": lzma.open}
    scratch = Path(tempfile.mkdtemp())
    shutil.copytree(options.nanogpt, scratch / "nanogpt", ignore=shutil.ignore_patterns(".git", "out*"))
    data = scratch / "nanogpt" / "data" / "shakespeare_char"
    with openers.get(options.text.suffix, open)(options.text, "rb") as file:
        (data / "input.txt").write_bytes(file.read())
    timed([sys.executable, "prepare.py"], data)
    losses: dict[str, list[float]] = {"manyheads": [], "nanoGPT": []}
    seconds: dict[str, list[float]] = {"manyheads": [], "nanoGPT": []}

    def nanogpt() -> float:
        took, text = timed([sys.executable, "train.py", *NANOGPT.split()], scratch / "nanogpt")
        losses["nanoGPT"].append(float(re.findall(r"val loss ([\d.]+)", text)[-1]))
        seconds["nanoGPT"].append(took)
        return 2000 / took

    def ours() -> float:
        run = scratch / f"run{len(losses['manyheads'])}"
        command = [sys.executable, "-m", "manyheads", "train", "language", "--recipe", str(RECIPE.absolute())]
        command += ["--text", str(options.text.absolute()), "--out", str(run)]
        took, text = timed(command + (["--set", *options.set] if options.set else []), scratch)
        losses["manyheads"].append(float(re.findall(r"validation at step \d+: loss ([\d.]+)", text)[-1]))
        seconds["manyheads"].append(took)
        return 2000 / took

    rates = in_turns({"manyheads": ours, "nanoGPT": nanogpt}, options.rounds, warmup=0)
    report("2000 iterations from start to saved model", rates, "iterations/s")
    for name in losses:
        shown = ", ".join(f"{value:.0f}" for value in seconds[name])
        print(f"  {name}: validation loss {losses[name]}, seconds {shown}")
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
