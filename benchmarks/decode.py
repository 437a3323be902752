"""Decoding on a CPU: manyheads, transformers' Marian.generate and CTranslate2, in float32, each in its own process.

    python benchmarks/decode.py --shape small           about 2 minutes on 2 quiet cores
    python benchmarks/decode.py --shape base            about 5 minutes
    python benchmarks/decode.py --shape small --rounds 1 --tokens 4        seconds, to see that it works

base: 6+6 layers, width 512, 8 heads, inner 2048, vocabulary 32,000; small: 3+3 layers, width 256, 4 heads, inner 1024,
vocabulary 8,000. Random weights, saved once by manyheads and opened by all. The same 64 sentences of 5 to 40 tokens;
32 output tokens each, since the end is forbidden by its bias, which is checked for every contender. Greedy, and beam 4
without a length penalty. Timed: lists of source tokens in, lists of output tokens out.

Each contender is tried as its users would set it up at best. transformers: one batch, SDPA attention, no bad_words_ids
(the bias already forbids padding). CTranslate2: two workers of one thread on batches of 32, and one worker of two
threads on the batch of 64. All load once and are then asked in turn; the other processes sleep meanwhile.

Prints whether the outputs agree, then output tokens/s and sentences/s: the median, the range over rounds, and the ratio
of ours to each peer.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from common import Worker, describe_machine, in_turns, report, serve

SHAPES = {
    "base": {"width": 512, "heads": 8, "inner": 2048, "layers": 6, "vocabulary": 32_000},
    "small": {"width": 256, "heads": 4, "inner": 1024, "layers": 3, "vocabulary": 8_000},
}
ENGINE_32, ENGINE_64 = "CTranslate2, 2 workers × batch 32", "CTranslate2, 1 worker × batch 64"
CONTENDERS = ("manyheads", "transformers Marian.generate", ENGINE_32, ENGINE_64)
# A fixed number of threads in MKL keeps CTranslate2's two workers out of each other's way.
ENVIRONMENTS = {ENGINE_32: {"MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}}


def build(directory: Path, shape: str) -> None:
    """A model with random weights and a word for every row, saved by us and converted for CTranslate2."""
    import ctranslate2
    import tokenizers
    import torch
    from tokenizers import models, pre_tokenizers

    from manyheads.interop.directory import save_model
    from manyheads.models.transformer import Transformer, TransformerConfig
    from manyheads.nn.layers import NEVER
    from manyheads.text.tokenizer import END, PAD, UNKNOWN, Tokenizer

    size = SHAPES[shape]["vocabulary"]
    # Marian's order: the end first, the pad last, where CTranslate2 cuts it off.
    words = [END, UNKNOWN, *(f"w{number}" for number in range(2, size - 1)), PAD]
    model = tokenizers.Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, UNKNOWN))
    model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    model.add_special_tokens([END, UNKNOWN, PAD])
    tokenizer = Tokenizer(model, pad=PAD, end=END)
    torch.manual_seed(5)
    translator = Transformer(TransformerConfig(**SHAPES[shape], pad=size - 1, start=size - 1, end=0))
    assert len(tokenizer) == size
    with torch.no_grad():
        for parameter in translator.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))  # norms and biases that are not one and zero
        translator.output.bias[translator.config.end] = NEVER
    save_model(directory / "model", translator, tokenizer, "Random weights, for benchmarks/decode.py.")
    ctranslate2.converters.TransformersConverter(str(directory / "model")).convert(str(directory / "converted"))


def sentences(shape: str, count: int) -> list[list[int]]:
    """Random ids, 5 to 40 a sentence with its end, the same in every process."""
    random = Random(9)
    last = SHAPES[shape]["vocabulary"] - 2
    return [[random.randint(2, last) for _ in range(random.randint(4, 39))] + [0] for _ in range(count)]


def prepare_ours(directory: Path, rows: list[list[int]]):
    from manyheads.interop.directory import load_model
    from manyheads.tasks.translate.use import decode_all

    model, _ = load_model(directory / "model")

    def decode(beam: int, tokens: int) -> list[list[int]]:
        return [found[0].ids for found in decode_all(model, rows, beam=beam, alpha=0.0, limit=tokens, scored=False)]

    return decode


def prepare_transformers(directory: Path, rows: list[list[int]]):
    import torch
    from transformers import MarianMTModel

    model = MarianMTModel.from_pretrained(directory / "model").eval()
    model.generation_config.bad_words_ids = model.generation_config.max_length = None
    pad = model.config.pad_token_id

    def decode(beam: int, tokens: int) -> list[list[int]]:
        longest = max(map(len, rows))
        source = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
        options = {"num_beams": beam, "do_sample": False, "max_new_tokens": tokens}
        if beam > 1:
            options |= {"length_penalty": 0.0, "early_stopping": False}
        with torch.inference_mode():
            found = model.generate(input_ids=source, attention_mask=(source != pad).long(), **options)
        return found[:, 1:].tolist()

    return decode


def prepare_engine(directory: Path, rows: list[list[int]], workers: int, batch: int):
    import ctranslate2

    last = max(max(row) for row in rows) + 1
    words = ["</s>", "<unk>", *(f"w{number}" for number in range(2, last))]
    source = [[words[each] for each in row] for row in rows]
    threads = {"inter_threads": workers, "intra_threads": 2 // workers}
    engine = ctranslate2.Translator(str(directory / "converted"), device="cpu", compute_type="float32", **threads)

    def decode(beam: int, tokens: int) -> list[list[str]]:
        limits = {"max_decoding_length": tokens, "min_decoding_length": tokens}
        found = engine.translate_batch(source, beam_size=beam, max_batch_size=batch, length_penalty=0.0, **limits)
        return [result.hypotheses[0] for result in found]

    return decode


def work(name: str, directory: str, shape: str, count: str):
    """The worker: loads once, then answers how long a whole decoding took and what came out."""
    rows = sentences(shape, int(count))
    if name == CONTENDERS[0]:
        decode = prepare_ours(Path(directory), rows)
    elif name == CONTENDERS[1]:
        decode = prepare_transformers(Path(directory), rows)
    else:
        workers, batch = (2, 32) if name == ENGINE_32 else (1, 64)
        decode = prepare_engine(Path(directory), rows, workers, batch)

    def answer(beam: int, tokens: int) -> dict:
        began = time.perf_counter()
        found = decode(beam, tokens)
        seconds = time.perf_counter() - began
        if isinstance(found[0][0], str):  # the engine answers in words
            found = [[int(word[1:]) if word[0] == "w" else 1 for word in row] for row in found]
        return {"seconds": seconds, "ids": found}

    return answer


def check(workers: dict[str, Worker], beam: int, tokens: int) -> None:
    """Every contender makes all its tokens; how many sentences of each are ours to the last token is printed."""
    outputs = {name: worker.ask(beam=beam, tokens=tokens)["ids"] for name, worker in workers.items()}
    ours = outputs[CONTENDERS[0]]
    for name, found in outputs.items():
        short = sum(len(row) != tokens for row in found)
        if short or len(found) != len(ours):
            raise SystemExit(f"{name} made {short} sentences that are not {tokens} tokens long")
        if name != CONTENDERS[0]:
            equal = sum(row == other for row, other in zip(found, ours))
            print(f"  {name}: {equal} of {len(ours)} sentences equal ours", flush=True)


def compare(workers: dict[str, Worker], beam: int, rounds: int, tokens: int, count: int) -> None:
    title = "greedy" if beam == 1 else f"beam {beam}"
    print(f"\n{title}: every sentence has {tokens} tokens, or this stops")
    check(workers, beam, tokens)

    def rate(worker: Worker) -> float:
        return count * tokens / worker.ask(beam=beam, tokens=tokens)["seconds"]

    rates = in_turns({name: lambda worker=worker: rate(worker) for name, worker in workers.items()}, rounds)
    report(title, rates, f"output tokens/s (divide by {tokens} for sentences/s)")


def main() -> None:
    parser = argparse.ArgumentParser(description="output tokens/s of translators with random weights")
    parser.add_argument("--shape", choices=tuple(SHAPES), default="small")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=32, help="output tokens of each sentence")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    options = parser.parse_args()
    describe_machine()
    with tempfile.TemporaryDirectory() as directory:
        build(Path(directory), options.shape)
        arguments = (directory, options.shape, str(options.sentences))
        workers = {name: Worker(__file__, name, *arguments, environment=ENVIRONMENTS.get(name)) for name in CONTENDERS}
        print(f"shape {options.shape}, {options.sentences} sentences", flush=True)
        for beam in options.beams:
            compare(workers, beam, options.rounds, options.tokens, options.sentences)
        for worker in workers.values():
            worker.close()


if __name__ == "__main__":
    if "--worker" in sys.argv:
        serve(lambda: work(*sys.argv[2:]))
    else:
        main()
