"""`manyheads generate MODEL --prompt …`"""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from manyheads.cli.flags import Device, Json, holding_model
from manyheads.cli.lines import lines_of, print_json, refuse_other_text

PROMPTS_AT_ONCE = 64


def generate(
    model: Annotated[
        Path,
        typer.Argument(
            help="A run directory, or a GPT-2, GPT or Llama checkpoint as it is.",
            metavar="MODEL",
            callback=holding_model,
        ),
    ],
    prompt: Annotated[
        str | None, typer.Option(help="What the text begins with; none: standard input, one prompt a line, if any.")
    ] = None,
    tokens: Annotated[int, typer.Option(help="At most so many tokens are written.")] = 200,
    temperature: Annotated[float, typer.Option(help="0 is greedy search, 1 the model's own probabilities.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Only the k likeliest tokens; 0: all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Only the likeliest tokens that make up this probability.")] = 1.0,
    min_p: Annotated[float, typer.Option(help="Only tokens this many times as likely as the likeliest.")] = 0.0,
    repetition_penalty: Annotated[float, typer.Option(help="Above 1: what was said is said less often again.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same text.")] = 1,
    stop: Annotated[
        list[str] | None, typer.Option(help="Strings that end the text; they are not printed.", metavar="TEXT…")
    ] = None,
    samples: Annotated[int, typer.Option(help="Texts for each prompt.")] = 1,
    beam: Annotated[int, typer.Option(help="Beam search of this width in place of sampling; 0: none.")] = 0,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Let a language model go on from a prompt; one text streams as it is written, several come one after the other."""
    from manyheads.core.errors import ConfigError
    from manyheads.generate.sample import Sampling
    from manyheads.tasks.language.use import LanguageModel

    how = {"top_k": top_k, "top_p": top_p, "min_p": min_p, "repetition_penalty": repetition_penalty}
    sampling = Sampling(temperature=temperature, seed=seed, **how)
    if beam and (samples > 1 or stop):
        raise ConfigError("--beam finds one text for each prompt; leave --samples and --stop away")
    refuse_other_text(prompt)
    language_model = LanguageModel.load(model, device=device)
    options = {"tokens": tokens, "samples": samples, "stop": tuple(stop or ()), "sampling": sampling}
    # What a model that completes pairs was asked is not part of its answer.
    echo = not language_model.tokenizer.behind
    if prompt is not None and samples == 1 and not as_json and not beam:
        pieces = language_model.stream([prompt], **options)  # before anything is printed: a prompt may be refused
        print(prompt if echo else "", end="", flush=True)
        for _, piece in pieces:
            print(piece, end="", flush=True)
        print()
        return
    written = 0
    for group in [[prompt]] if prompt is not None else _prompts():
        if beam:
            texts = language_model.search(group, tokens=tokens, beam=beam)
            tables = [{"prompt": one, "text": text} for one, text in zip(group, texts)]
        else:
            texts = {"tokens": tokens, "samples": samples, "stop": stop or ()}
            completed = language_model.complete(group, **texts, **asdict(sampling))
            tables = [asdict(each) for completions in completed for each in completions]
        for table in tables:
            if as_json:
                print_json(table)
            else:
                print(f"{'---' + chr(10) if written and echo else ''}{table['prompt'] if echo else ''}{table['text']}")
            written += 1
        sys.stdout.flush()


def _prompts() -> Iterator[list[str]]:
    """Those of standard input, so many at a time; from a terminal none are waited for."""
    for texts in [[""]] if sys.stdin.isatty() else (lines.texts for lines in lines_of(None)):
        rest = iter(texts)
        while group := list(islice(rest, PROMPTS_AT_ONCE)):
            yield group
