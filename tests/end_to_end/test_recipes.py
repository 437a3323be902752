"""What the recipes promise, and text that is larger than memory should be: minutes each."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import PEAK, needs_peak

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shakespeare(data_set):
    return data_set("tinyshakespeare") / "input.txt.gz"


def least_loss(recipe: str, text: Path, run: Path) -> float:
    command = [sys.executable, "-m", "manyheads", "train", "language", "--recipe", str(ROOT / "recipes" / recipe)]
    subprocess.run([*command, "--text", str(text), "--out", str(run)], check=True)
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return min(record["loss"] for record in records if record["kind"] == "valid")


@pytest.mark.slow
def test_shakespeare_on_a_cpu_is_learned_as_the_recipe_says(shakespeare, tmp_path):
    assert least_loss("shakespeare-cpu.toml", shakespeare, tmp_path / "run") <= 1.80


@pytest.mark.slow
def test_muon_buys_a_tenth_of_a_nat_at_the_same_number_of_steps(shakespeare, tmp_path):
    adamw = least_loss("shakespeare-cpu.toml", shakespeare, tmp_path / "adamw")
    assert least_loss("shakespeare-muon.toml", shakespeare, tmp_path / "muon") <= adamw - 0.1


PREPARE = f"""
{PEAK}
import sys
from manyheads.tasks.run import prepare, resolve
from manyheads.tasks.task import task_of
data = {{"text": (sys.argv[1],), "tokenizer": sys.argv[2]}}
task = task_of("language")(resolve("language", flags={{"data": data}}))
task.run = Path(sys.argv[3])
prepare(task, task.run)
tokens = sum(len(store["ids"].flat) for store in (task.train, task.valid))
print(tokens, peak())
"""


@needs_peak
@pytest.mark.slow
def test_memory_does_not_grow_with_the_text(tmp_path):
    """A text of 600 MB, of which no 600 MB ever stand in memory, let alone its ids."""
    from manyheads.text.language import LanguageTokenizer

    lines = [f"the {number} cats saw {number * 7} dogs under the old bridge\n" for number in range(20_000)]
    block = "".join(lines)
    LanguageTokenizer.train(lines, 600).save(tmp_path / "tokenizer")
    sizes = {}
    for megabytes in (60, 600):
        text = tmp_path / f"{megabytes}.txt"
        with text.open("w") as file:
            for _ in range(megabytes * 10**6 // len(block)):
                file.write(block)
        (tmp_path / f"run{megabytes}").mkdir()
        arguments = [str(text), str(tmp_path / "tokenizer"), str(tmp_path / f"run{megabytes}")]
        done = subprocess.run([sys.executable, "-c", PREPARE, *arguments], capture_output=True, text=True, check=True)
        tokens, kilobytes = map(int, done.stdout.split())
        assert tokens > megabytes * 10**5
        sizes[megabytes] = kilobytes
    assert sizes[600] < 1_500_000
    assert sizes[600] < sizes[60] + 400_000
