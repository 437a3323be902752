"""Shows that a change of the code changes no result: every training, before and after, gives the same bytes.

    python tools/same_models.py before.json            at one commit: trains all of them and writes their checksums
    python tools/same_models.py before.json --compare  at another, on the same machine: names what differs

About ten minutes on two cores. Weights depend on the machine and the number of threads, so that the file means nothing
elsewhere. `--only` takes part of a name.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

NAMES = ("Ada", "Grace", "Alan", "Emmy", "Kurt", "Sofia", "Paul", "Mary")
PLACES = ("Bonn", "Paris", "Oslo", "Lima", "Rome", "Kyoto")
THINGS = ("bread", "rice", "tea", "wine", "cheese", "fish", "honey")
GOOD, BAD = ("good", "great", "lovely", "fine"), ("bad", "awful", "dull", "poor")
FEW = ("train.steps=30", "train.valid_every=15", "train.checkpoint_every=10", "train.log_every=10")
SHORT = (*FEW, "train.warmup=5")
TINY = (*SHORT, "data.vocabulary=400")


def write_data(folder: Path) -> None:
    """Small files of every layout, the same each time."""
    draw = random.Random(7)

    def pick(words: tuple[str, ...]) -> str:
        return draw.choice(words)

    def write(name: str, lines: list[str]) -> None:
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    facts = [f"{pick(NAMES)} eats {pick(THINGS)} and {pick(THINGS)} in {pick(PLACES)} ." for _ in range(600)]
    write("text.txt", facts)
    write("pairs.tsv", [f"{fact}\t{' '.join(reversed(fact.split()))}" for fact in facts])
    rated = [(fact, index % 3 == 0) for index, fact in enumerate(facts[:240])]
    write("labels.tsv", [f"{pick(GOOD if good else BAD)} {fact}\t{'good' if good else 'bad'}" for fact, good in rated])
    write("both.tsv", [f"{fact}\t{pick(GOOD if good else BAD)}\t{'yes' if good else 'no'}" for fact, good in rated])
    write("numbers.tsv", [f"{fact}\t{len(fact) / 10}" for fact in facts[:200]])
    choices = []
    for fact in facts[:160]:
        right = draw.randrange(3)
        others = [fact.split()[0] if place == right else pick(NAMES) for place in range(3)]
        choices.append(json.dumps({"context": fact, "choices": others, "answer": right}))
    write("choices.jsonl", choices)
    tagged = []
    for fact in facts[:200]:
        for word in fact.split():
            tagged.append(f"{word}\t{'B-PER' if word in NAMES else 'B-LOC' if word in PLACES else 'O'}")
        tagged.append("")
    write("words.conll", tagged)
    write("scored.tsv", [f"{a}\t{b}\t{draw.randrange(6)}" for a, b in zip(facts[:200], facts[200:400])])
    write("together.tsv", [f"{a}\t{pick(GOOD)} {a}" for a in dict.fromkeys(facts[:250])])
    paragraphs = []
    for number, fact in enumerate(facts[:150]):
        place = fact.split()[-2]
        answers = [{"text": place, "answer_start": fact.rindex(place)}] if number % 5 else []
        asked = {"id": str(number), "question": "Where?", "answers": answers, "is_impossible": not answers}
        paragraphs.append({"title": str(number), "paragraphs": [{"context": fact, "qas": [asked]}]})
    (folder / "questions.json").write_text(json.dumps({"data": paragraphs}), encoding="utf-8")


def runs(data: Path, out: Path) -> dict[str, list[str]]:
    """The command of each training; later ones may begin with earlier ones' models."""
    bert = ("--preset", "bert_tiny")
    return {
        "translate-sample": ["translate", "--set", *FEW, "train.average=2"],
        "translate-pairs": [
            *("translate", "--pairs", f"{data}/pairs.tsv", "--preset", "transformer_tiny", "--set", *TINY),
        ],
        "translate-rotary": [
            *("translate", "--pairs", f"{data}/pairs.tsv", "--preset", "transformer_tiny"),
            *("--set", *TINY, "model.positions.kind=rotary", "train.accumulate=2"),
        ],
        "language-sample": ["language", "--set", *FEW],
        "language-text": [
            *("language", "--text", f"{data}/text.txt", "--tokenizer", "characters", "--document-mask"),
            *("--set", *SHORT, "data.rows=8", "model.context=64"),
        ],
        "language-pairs": [
            *("language", "--pairs", f"{data}/pairs.tsv", "--preset", "llama_tiny"),
            *("--set", *TINY, "data.rows=8", "model.context=64"),
        ],
        "masked-sample": ["masked", "--set", *FEW],
        "masked-text": [
            *("masked", "--text", f"{data}/text.txt", *bert, "--set", *TINY, "data.rows=8", "model.context=48"),
        ],
        "classify-text": ["classify", "--train", f"{data}/labels.tsv", *bert, "--set", *TINY],
        "classify-pair": ["classify", "--train", f"{data}/both.tsv", "--model", f"{out}/masked-text", "--set", *FEW],
        "classify-frozen": [
            *("classify", "--train", f"{data}/labels.tsv", "--model", f"{out}/masked-text", "--freeze", "--set", *FEW),
        ],
        "classify-numbers": ["classify", "--train", f"{data}/numbers.tsv", "--regression", *bert, "--set", *TINY],
        "classify-choice": ["classify", "--train", f"{data}/choices.jsonl", *bert, "--set", *TINY],
        "classify-gpt": ["classify", "--train", f"{data}/labels.tsv", "--preset", "gpt2_tiny", "--set", *TINY],
        "classify-gpt-tuned": [
            *("classify", "--train", f"{data}/both.tsv", "--model", f"{out}/language-sample", "--set", *FEW),
        ],
        "tag": ["tag", "--train", f"{data}/words.conll", *bert, "--set", *TINY],
        "tag-tuned": ["tag", "--train", f"{data}/words.conll", "--model", f"{out}/masked-text", "--set", *FEW],
        "similarity-scored": ["similarity", "--pairs", f"{data}/scored.tsv", *bert, "--set", *TINY],
        "similarity-together": [
            *("similarity", "--pairs", f"{data}/together.tsv", "--model", f"{out}/masked-text", "--set", *FEW),
        ],
        "answer": ["answer", "--data", f"{data}/questions.json", *bert, "--set", *TINY, "data.longest=32"],
    }


def checksums(run: Path) -> dict[str, str]:
    """Of every file of a run's model, but for what names the version or the folder."""
    folder = run / "model"
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "README.md"
    } | {"README.md": hashlib.sha256(_card(folder / "README.md", run.parent)).hexdigest()}


def _card(path: Path, folder: Path) -> bytes:
    return path.read_bytes().replace(str(folder.parent).encode(), b"")


def train(name: str, command: list[str], out: Path) -> dict[str, str]:
    run = out / name
    arguments = ["demo", "--out", str(run)] if name == "demo" else ["train", *command, "--out", str(run)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-m", "manyheads", *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{name} failed: {' '.join(arguments)}\n{done.stderr}")
    return checksums(run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    before = json.loads(options.file.read_text()) if options.compare else {}
    found: dict[str, dict[str, str]] = {}
    different = 0
    # The same path each time, since a card shows its recipe, and that the folders of its data.
    with tempfile.TemporaryDirectory(prefix="manyheads-same-") as folder:
        data, out = Path(folder) / "data", Path(folder) / "out"
        data.mkdir()
        write_data(data)
        for name, command in {**runs(data, out), "demo": []}.items():
            if options.only not in name:
                continue
            found[name] = train(name, command, out)
            if options.compare:
                changed = sorted(set(before[name].items()) ^ set(found[name].items()))
                different += bool(changed)
                files = ", ".join({file for file, _ in changed})
                print(f"{name}: {f'DIFFERS in {files}' if changed else 'the same'}")
            else:
                print(name, flush=True)
    if not options.compare:
        options.file.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
