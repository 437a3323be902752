"""`manyheads train …`"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="Train a model of your own.", no_args_is_help=True)


def _files(help: str):
    return typer.Option(help=help, metavar="FILE…")


# Options that every training has.
Fields = Annotated[
    list[str] | None, typer.Option(help="The columns (from 1) or JSON fields of source and target.", metavar="A B")
]
Recipe = Annotated[Path | None, typer.Option(help="A recipe in TOML; flags come on top of it.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any field: --set model.layers=4 train.steps=2000.", metavar="FIELD=VALUE…"),
]
ShowRecipe = Annotated[bool, typer.Option("--show-recipe", help="Print the resolved recipe and stop.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Delete the run in --out and start anew.")]

# Options that every training from raw text has.
Text = Annotated[
    list[str] | None,
    _files("Text: files, folders or 'data/*.txt', plain, .gz or .xz; .jsonl with --field. None: a sample."),
]
Field = Annotated[str | None, typer.Option(help="The field of a .jsonl line that is its text; none: text.")]
ValidText = Annotated[list[str] | None, _files("Text for validation; none: the end of the text is held out.")]

# Options that every training of something on top of an encoder has.
Encoder = Annotated[
    Path | None,
    typer.Option("--model", help="The pre-trained encoder: a run or model directory, or a bert checkpoint."),
]
Freeze = Annotated[bool, typer.Option("--freeze", help="Only what stands on top of the model learns.")]
EncoderPreset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        help="Without --model, the size of an untrained one: bert_tiny, bert_mini, bert_small, bert_medium, bert_base "
        "or bert_large.",
    ),
]


@dataclass(frozen=True)
class Task:
    """What the command line needs to know of a training."""

    name: str
    build_recipe: Callable[..., Any]
    resumed_recipe: Callable[..., Any]
    train: Callable[..., Any]
    next: str
    """What to try when it is done; {out} is the run."""


def run(
    task: Task,
    out: Path,
    given: dict[str, Any],
    *,
    preset: str | None,
    recipe: Path | None,
    assignments: list[str] | None,
    show_recipe: bool,
    resume: bool,
    overwrite: bool,
) -> None:
    """Resolves the recipe, and trains by it or prints it."""
    from manyheads.core.configs import to_toml
    from manyheads.core.errors import ConfigError, Stopped
    from manyheads.core.log import say
    from manyheads.train.loop import run_is_new

    if resume:
        if preset or recipe or any(value not in (None, []) for value in given.values()):
            raise ConfigError("a run goes on with its own recipe; beside --resume only --out and --set are of use")
        run_is_new(out, resume=True, overwrite=overwrite)
        resolved = task.resumed_recipe(out, tuple(assignments or ()))
    else:
        resolved = task.build_recipe(preset=preset, file=recipe, data=given, assignments=tuple(assignments or ()))
    if show_recipe:
        print(to_toml(resolved, documented=True), end="")
        return
    try:
        progress = task.train(resolved, out, resume=resume, overwrite=overwrite)
    except Stopped as stopped:
        raise Stopped(
            f"{stopped}; go on with: manyheads train {task.name} --out {out} --resume", stopped.exit_code
        ) from None
    say(f"done after {progress.step} steps: the best model, of step {progress.best_step}, is in {out / 'model'}")
    say(f"try: {task.next.format(out=out)}")


@app.command()
def translate(
    source: Annotated[
        list[str] | None, _files("One sentence a line; plain, .gz or .xz. None: the sample corpus.")
    ] = None,
    target: Annotated[list[str] | None, _files("Their translations, line by line.")] = None,
    pairs: Annotated[list[str] | None, _files("Both in one file: .tsv or .jsonl, plain, .gz or .xz.")] = None,
    fields: Fields = None,
    valid_source: Annotated[list[str] | None, _files("Validation; none: some training pairs are held out.")] = None,
    valid_target: Annotated[list[str] | None, _files("Their translations.")] = None,
    valid_pairs: Annotated[list[str] | None, _files("Validation, both in one file.")] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="A tokenizer.json; none: one is trained.", metavar="FILE")
    ] = None,
    out: Annotated[Path, typer.Option(help="The run directory.")] = Path("runs/translate"),
    preset: Annotated[
        str | None,
        typer.Option(
            help="transformer_tiny, transformer_small (with your own data), transformer_base or transformer_big."
        ),
    ] = None,
    recipe: Recipe = None,
    set_: Set = None,
    show_recipe: ShowRecipe = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a translator: an encoder-decoder Transformer from sentence pairs."""
    from manyheads.tasks.translate_training import build_recipe, resumed_recipe, train_translator

    given = {
        **{"source": source, "target": target, "pairs": pairs, "fields": fields, "tokenizer": tokenizer},
        **{"valid_source": valid_source, "valid_target": valid_target, "valid_pairs": valid_pairs},
    }
    what_next = "echo 'a sentence' | manyheads translate {out}"
    task = Task("translate", build_recipe, resumed_recipe, train_translator, what_next)
    options: dict[str, Any] = {"preset": preset, "recipe": recipe, "assignments": set_, "show_recipe": show_recipe}
    run(task, out, given, **options, resume=resume, overwrite=overwrite)


@app.command()
def language(
    text: Text = None,
    field: Field = None,
    valid: ValidText = None,
    pairs: Annotated[
        list[str] | None, _files("In place of text: pairs (.tsv, .jsonl), learned as source <delimiter> target.")
    ] = None,
    fields: Fields = None,
    valid_pairs: Annotated[list[str] | None, _files("Pairs for validation; none: some are held out.")] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(help="A tokenizer.json, or the word characters; none: one is trained.", metavar="FILE"),
    ] = None,
    document_mask: Annotated[
        bool, typer.Option("--document-mask", help="Attention does not cross the borders of documents.")
    ] = False,
    out: Annotated[Path, typer.Option(help="The run directory.")] = Path("runs/language"),
    preset: Annotated[
        str | None,
        typer.Option(
            help="gpt2_tiny (with your own text), gpt2_baby, gpt2_small … gpt2_xl, gpt1, transformer_decoder (T-D), "
            "gpt3_small … gpt3_175b, llama_tiny, llama_baby, llama_small, llama2_7b or llama3_8b."
        ),
    ] = None,
    recipe: Recipe = None,
    set_: Set = None,
    show_recipe: ShowRecipe = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Train a language model: a decoder-only Transformer (T-D, GPT or Llama) from raw text or from pairs of texts."""
    from manyheads.tasks.language_training import build_recipe, resumed_recipe, train_language_model

    given = {
        **{
            "text": text,
            "field": field,
            "valid": valid,
            "tokenizer": tokenizer,
            "document_mask": document_mask or None,
        },
        **{"pairs": pairs, "fields": fields, "valid_pairs": valid_pairs},
    }
    what_next = "manyheads generate {out} --prompt 'a beginning'"
    task = Task("language", build_recipe, resumed_recipe, train_language_model, what_next)
    options: dict[str, Any] = {"preset": preset, "recipe": recipe, "assignments": set_, "show_recipe": show_recipe}
    run(task, out, given, **options, resume=resume, overwrite=overwrite)
