"""`manyheads train …`"""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Train a model of your own.", no_args_is_help=True)


def _files(help: str):
    return typer.Option(help=help, metavar="FILE…")


@app.command()
def translate(
    source: Annotated[
        list[str] | None, _files("One sentence a line; plain, .gz or .xz. None: the sample corpus.")
    ] = None,
    target: Annotated[list[str] | None, _files("Their translations, line by line.")] = None,
    pairs: Annotated[list[str] | None, _files("Both in one file: .tsv or .jsonl, plain, .gz or .xz.")] = None,
    fields: Annotated[
        list[str] | None, typer.Option(help="The columns (from 1) or JSON fields of source and target.", metavar="A B")
    ] = None,
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
    recipe: Annotated[Path | None, typer.Option(help="A recipe in TOML; flags come on top of it.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any field: --set model.layers=4 train.steps=2000.", metavar="FIELD=VALUE…"),
    ] = None,
    show_recipe: Annotated[bool, typer.Option("--show-recipe", help="Print the resolved recipe and stop.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Delete the run in --out and start anew.")] = False,
) -> None:
    """Train a translator: an encoder-decoder Transformer from sentence pairs."""
    from manyheads.core.configs import to_toml
    from manyheads.core.errors import ConfigError, Stopped
    from manyheads.core.log import say
    from manyheads.tasks.translate_training import build_recipe, resumed_recipe, train_translator
    from manyheads.train.loop import run_is_new

    given = {
        **{"source": source, "target": target, "pairs": pairs, "fields": fields, "tokenizer": tokenizer},
        **{"valid_source": valid_source, "valid_target": valid_target, "valid_pairs": valid_pairs},
    }
    if resume:
        if preset or recipe or any(given.values()):
            raise ConfigError("a run goes on with its own recipe; beside --resume only --out and --set are of use")
        run_is_new(out, resume=True, overwrite=overwrite)
        resolved = resumed_recipe(out, tuple(set_ or ()))
    else:
        resolved = build_recipe(preset=preset, file=recipe, data=given, assignments=tuple(set_ or ()))
    if show_recipe:
        print(to_toml(resolved, documented=True), end="")
        return
    try:
        progress = train_translator(resolved, out, resume=resume, overwrite=overwrite)
    except Stopped as stopped:
        raise Stopped(
            f"{stopped}; go on with: manyheads train translate --out {out} --resume", stopped.exit_code
        ) from None
    say(f"done after {progress.step} steps: the best model, of step {progress.best_step}, is in {out / 'model'}")
    say(f"try: echo 'a sentence' | manyheads translate {out}")
