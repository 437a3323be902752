"""One epoch of Multi30k as a user runs it: manyheads' training against transformers' Seq2SeqTrainer.

    python benchmarks/train_epoch.py DATA/multi30k         about 20 minutes on 2 quiet cores
    python benchmarks/train_epoch.py DATA/multi30k --pairs 2000 --rounds 1     a minute, to see that it works;
    with fewer than 200 batches Seq2SeqTrainer groups by length in smaller pools, and its figures are too low

The Transformer of 3+3 layers, width 256, 4 heads, inner 1024, in float32, from the same weights, with the same 8,000
token vocabulary trained beforehand. Both: about 2,000 target tokens a batch in the mean, dropout 0.1, label smoothing
0.1, clipping at norm 1, the same fused Adam (AdamW with no decay is Adam) and the same inverse-square-root schedule, a
line of metrics every 50 steps, nothing validated and no checkpoint saved. Ours batches by token budget; theirs by
sentences, with train_sampling_strategy="group_by_length" and DataCollatorForSeq2Seq padding each batch to its longest.
It groups by the length of the source, as it does unless told otherwise (--length-of longer: by the longer side, as
ours does); the lengths are given to it, so that it need not compute them.

Each run has a process of its own; the contenders alternate. Timed is training alone: from the call that trains to the
last update, without imports, reading or tokenising. The second figure has reading and tokenising in it. At the end the
loss on validation data says that both have learned alike.

Prints steps, the share of padding, the losses (per token), target tokens/s (padding not counted) with the ratio of ours
to theirs, and seconds an epoch.
"""

import argparse
import gzip
import json
import sys
import tempfile
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import median

from common import Worker, describe_machine, marian_twin, report, serve

CONTENDERS = ("manyheads", "transformers Seq2SeqTrainer")
VOCABULARY, BATCH_TOKENS, WARMUP, LOG_EVERY = 8000, 2048, 400, 50


def prepare(data: Path, work: Path, pairs: int | None) -> None:
    """What both begin with: plain files of the pairs in use, a tokenizer, and the model's first weights."""
    import torch

    from manyheads.interop.directory import save_model
    from manyheads.models.transformer import Transformer, transformer_small
    from manyheads.text.tokenizer import Tokenizer

    for part, most in (("train", pairs), ("val", None)):
        for side in ("en", "de"):
            with gzip.open(data / f"{part}.{side}.gz", "rt", encoding="utf-8") as file:
                (work / f"{part}.{side}").write_text("".join(islice(file, most)), encoding="utf-8")
    tokenizer = Tokenizer.train((line for side in ("en", "de") for line in lines(work / f"train.{side}")), VOCABULARY)
    ids = {"pad": tokenizer.pad, "start": tokenizer.start, "end": tokenizer.end}
    torch.manual_seed(1)
    model = Transformer(replace(transformer_small(), vocabulary=len(tokenizer), **ids))
    save_model(work / "first", model, tokenizer, "The weights that both contenders begin with.")


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def train_ours(work: Path) -> dict:
    """`manyheads train translate`, with its own data preparation, batches and loop."""
    import torch.utils.tensorboard  # noqa: F401  the loop would import it inside the time that is taken

    from manyheads.interop.directory import load_model
    from manyheads.tasks.run import prepare as prepare_data
    from manyheads.tasks.translate.recipe import PairData, TranslateRecipe
    from manyheads.tasks.translate.training import Translation
    from manyheads.train.config import TrainConfig
    from manyheads.train.loop import Training

    model, _ = load_model(work / "first")
    files = {"source": (str(work / "train.en"),), "target": (str(work / "train.de"),)}
    files |= {"valid_source": (str(work / "val.en"),), "valid_target": (str(work / "val.de"),)}

    class Clocked(Translation):
        """Translation, but the validation that ends a run only stops the clock."""

        def validate(self, model):
            self.ended = time.perf_counter()
            return {"loss": 0.0}

        def keep(self, model, which, scores):
            pass

    with tempfile.TemporaryDirectory() as temporary:
        run, began = Path(temporary), time.perf_counter()
        data = PairData(**files, tokenizer=str(work / "first" / "tokenizer.json"), batch_tokens=BATCH_TOKENS)
        task = Clocked(TranslateRecipe(data=data, model=model.config))
        task.run = run
        prepare_data(task)
        batches = task.batches()
        steps = len(batches)
        never = 10 * steps
        seldom = {"log_every": LOG_EVERY, "valid_every": never, "checkpoint_every": never}
        train = TrainConfig(steps=steps, warmup=WARMUP, device="cpu", best_by="loss", **seldom)
        training = Training(run, train, model, model.config.width, batches, task)
        tokenised = time.perf_counter()
        training.fit()
        cells = sum(batch.source.numel() + batch.target.numel() for batch in batches.epoch(0))
        lengths = {side: int(task.train[side].lengths.sum()) for side in ("source", "target")}
    return {
        "seconds": task.ended - tokenised,
        "padding": 1 - sum(lengths.values()) / cells,
        "total": task.ended - began,
        "steps": steps,
        "tokens": lengths["target"],
        "pairs": len(task.train),
        "loss": validation_loss(model, work),
    }


def train_theirs(work: Path, batch: int, length_of: str) -> dict:
    """Seq2SeqTrainer as its documentation shows it for translation."""
    from datasets import Dataset, disable_caching, disable_progress_bars
    from transformers import AutoTokenizer, DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

    from manyheads.interop.directory import load_model
    from manyheads.interop.marian import MarianNames

    disable_caching()
    disable_progress_bars()
    ours, _ = load_model(work / "first")
    model = marian_twin(ours)
    tokenizer = AutoTokenizer.from_pretrained(work / "first")
    with tempfile.TemporaryDirectory() as temporary:
        began = time.perf_counter()
        arguments = Seq2SeqTrainingArguments(
            output_dir=temporary,
            num_train_epochs=1,
            per_device_train_batch_size=batch,
            train_sampling_strategy="group_by_length",
            optim="adamw_torch_fused",
            adam_beta2=0.98,
            adam_epsilon=1e-9,
            weight_decay=0.0,
            learning_rate=(ours.config.width * WARMUP) ** -0.5,
            lr_scheduler_type="inverse_sqrt",
            warmup_steps=WARMUP,
            max_grad_norm=1.0,
            label_smoothing_factor=0.1,
            logging_steps=LOG_EVERY,
            **{"save_strategy": "no", "eval_strategy": "no", "report_to": "none", "disable_tqdm": True},
            **{"use_cpu": True, "dataloader_pin_memory": False, "seed": 1},
        )

        def tokenised(rows):
            found = tokenizer(rows["en"], text_target=rows["de"], return_token_type_ids=False)
            sizes = zip(map(len, found["input_ids"]), map(len, found["labels"]))
            return {**found, "length": [max(both) if length_of == "longer" else both[0] for both in sizes]}

        rows = Dataset.from_dict({side: lines(work / f"train.{side}") for side in ("en", "de")})
        rows = rows.map(tokenised, batched=True, remove_columns=["en", "de"])
        collator = DataCollatorForSeq2Seq(tokenizer, model=model)
        cells = []

        def collated(features):
            found = collator(features)
            cells.append(found["input_ids"].numel() + found["labels"].numel())
            return found

        trainer = Seq2SeqTrainer(
            model=model,
            args=arguments,
            train_dataset=rows,
            processing_class=tokenizer,
            data_collator=collated,
        )
        ready = time.perf_counter()
        trainer.train()
        ended = time.perf_counter()
    bias = ours.output.bias.clone()
    MarianNames().read_tensors(ours, model.state_dict())
    ours.output.bias.copy_(bias)
    tokens = {side: sum(map(len, rows[side])) for side in ("input_ids", "labels")}
    return {
        "seconds": ended - ready,
        "padding": 1 - sum(tokens.values()) / sum(cells),
        "total": ended - began,
        "steps": trainer.state.global_step,
        "tokens": tokens["labels"],
        "pairs": len(rows),
        "loss": validation_loss(ours, work),
    }


def validation_loss(model, work: Path) -> float:
    """Negative log-likelihood of a target token, by one and the same code for both."""
    import torch

    from manyheads.data.pairs import pair_batches, pair_store
    from manyheads.text.tokenizer import Tokenizer
    from manyheads.train.objectives import translation_loss

    tokenizer = Tokenizer.load(work / "first")
    store = pair_store(*(tokenizer.encode(lines(work / f"val.{side}")) for side in ("en", "de")))
    model.eval()
    with torch.no_grad():
        batches = pair_batches(store, tokens=BATCH_TOKENS, pad=tokenizer.pad, seed=0, shuffle=False)
        losses = [translation_loss(model, batch) for batch in batches.epoch(0)]
    return float(sum(loss.likelihood for loss in losses)) / sum(loss.tokens for loss in losses)


def compare(work: Path, rounds: int, length_of: str) -> None:
    """Alternates the two; the first run of ours says how many sentences make their batch as large as ours."""
    found = {name: [] for name in CONTENDERS}
    batch = 0
    for number in range(rounds):
        order = CONTENDERS if number % 2 == 0 else CONTENDERS[::-1]
        for name in order:
            with Worker(__file__, name, str(work), str(batch), length_of) as worker:
                result = worker.ask()
            found[name].append(result)
            batch = batch or round(result["pairs"] / result["steps"])
            print(f"  {name}: {json.dumps(result)}", flush=True)
    assert len({run["tokens"] for runs in found.values() for run in runs}) == 1, "not the same target tokens"
    print(f"\ntheirs: {batch} sentences a batch, grouped by the length of the {length_of}")
    for name, (first, *_) in found.items():
        print(f"{name}: {first['steps']} steps, {first['padding']:.1%} padding, validation loss {first['loss']:.3f}")
    for what, title in (("seconds", "training"), ("total", "reading, tokenising and training")):
        rates = {name: [run["tokens"] / run[what] for run in runs] for name, runs in found.items()}
        report(f"one epoch, {title}", rates, "target tokens/s")
        shown = (f"{name} {median(run[what] for run in runs):,.1f}" for name, runs in found.items())
        print(f"  seconds an epoch: {', '.join(shown)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="one epoch of Multi30k, ours against Seq2SeqTrainer")
    parser.add_argument("data", type=Path, help="the directory with train.en.gz, train.de.gz, val.en.gz and val.de.gz")
    parser.add_argument("--pairs", type=int, help="use only this many training pairs")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--length-of", choices=("source", "longer"), default="source", help="what theirs groups by")
    options = parser.parse_args()
    describe_machine()
    with tempfile.TemporaryDirectory() as work:
        prepare(options.data, Path(work), options.pairs)
        compare(Path(work), options.rounds, options.length_of)


def work_for(name: str, work: str, batch: str, length_of: str) -> dict:
    return train_ours(Path(work)) if name == CONTENDERS[0] else train_theirs(Path(work), int(batch), length_of)


if __name__ == "__main__":
    if "--worker" in sys.argv:
        serve(lambda: lambda: work_for(*sys.argv[2:]))
    else:
        main()
