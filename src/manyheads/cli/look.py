"""`manyheads look MODEL "a text"`, `manyheads look MODEL --importance`, `manyheads look --positions rotary`"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.cli.flags import Device, flagged, holding_vectors, merged_flags, set_only
from manyheads.cli.lines import print_wide, refuse_other_text
from manyheads.core.errors import ConfigError
from manyheads.core.files import refuse_unwritable, write_result
from manyheads.core.log import say
from manyheads.tasks.task import evaluations


def look(
    model: Annotated[
        Path | None,
        typer.Argument(
            help="A run directory, or a model directory of ours or of transformers.",
            metavar="MODEL",
            callback=holding_vectors,
        ),
    ] = None,
    first: Annotated[
        str | None, typer.Argument(help="What the model reads; an image's file of one that sees.", metavar="TEXT")
    ] = None,
    second: Annotated[
        str | None, typer.Argument(help="An encoder's second text, or the translation to look at.", metavar="SECOND")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The page; look.html unless another file is asked for.", metavar="FILE.html")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="A figure for a paper.", metavar="FILE.png")] = None,
    svg: Annotated[Path | None, typer.Option(help="The same, to scale.", metavar="FILE.svg")] = None,
    as_json: Annotated[Path | None, typer.Option("--json", help="The arrays.", metavar="FILE.json")] = None,
    tokens: Annotated[int, typer.Option(help="A language model goes on for so many, the likeliest each time.")] = 0,
    layer: Annotated[int | None, typer.Option(help="Only this layer, counted from 0.", metavar="NUMBER")] = None,
    head: Annotated[int | None, typer.Option(help="Only this head, counted from 0.", metavar="NUMBER")] = None,
    attention: Annotated[
        str | None, typer.Option(help="Of a translator, what a figure is of: cross, encoder or decoder.")
    ] = None,
    patch: Annotated[
        str | None,
        typer.Option(
            help="Of an image: the patch that looks, in a figure; none: what stands for all.", metavar="ROW,COLUMN"
        ),
    ] = None,
    show: Annotated[
        str,
        typer.Option(
            help="What a figure is of, or is printed: attention, alignment, heads, rollout, lens or norms; of a "
            "recurrent model hidden or gates."
        ),
    ] = "attention",
    importance: Annotated[
        bool, typer.Option("--importance", help="Rank heads by what is lost without each; takes the data below.")
    ] = False,
    by: Annotated[str | None, typer.Option(help="Of a translator: loss or bleu.")] = None,
    positions: Annotated[
        str | None,
        typer.Option(
            help="Draw positions, with commas between: sinusoidal, learned, relative, buckets, rotary, alibi, linear, "
            "ntk, dynamic_ntk, yarn or llama3; own: those of the model.",
            metavar="KINDS",
        ),
    ] = None,
    words: Annotated[
        str | None, typer.Option(help="Of word vectors: draw these words, with commas between.", metavar="WORDS")
    ] = None,
    device: Device = "auto",
    **data: Any,
) -> None:
    """Look inside a model: what each head attends to, what each layer would say, which heads matter."""
    for typed in (first, second):
        refuse_other_text(typed)
    if first is not None and show == "attention" and not any((out, png, svg, as_json)):
        out = Path("look.html")
    files = _checked({".html": out, ".png": png, ".svg": svg, ".json": as_json})
    chosen = {"--layer": layer is not None, "--head": head is not None}
    seen = {"the text": first, "the second text": second, "--tokens": tokens, "--attention": attention, **chosen}
    seen |= {"--show": show if show != "attention" else None, "--patch": patch}
    given = set_only(data)
    ranked = {"--by": by, **{f"--{name}": value for name, value in given.items()}}
    if words is not None:
        others = {**seen, **ranked, "--importance": importance, "--positions": positions}
        _refuse(others, "has no part in --words; leave it away")
        _words(model, words, files, device)
        return
    if positions is not None:
        _refuse({**seen, **ranked, "--importance": importance}, "has no part in --positions; leave it away")
    elif importance:
        _refuse(seen, "has no part in --importance; leave it away")
    else:
        _refuse(ranked, "goes with --importance, which is not asked for")
        if show in ("lens", "norms"):
            chosen |= {"--attention": attention if show == "lens" else None}
            _refuse(chosen, f"has no part in --show {show}; leave it away")
        if show not in ("attention", "heads", "rollout"):
            _refuse({"--patch": patch}, f"has no part in --show {show}; leave it away")
        if show == "alignment":
            _refuse({"--attention": attention}, "has no part in --show alignment, which is of the cross-attention")
        if show in ("hidden", "gates"):
            _refuse({"--head": head is not None}, f"has no part in --show {show}; leave it away")
            _refuse({"--out": out}, f"is a page of attention; --show {show} goes with --png, --svg and --json")
        elif show != "attention":
            _refuse({"--out": out, "--json": as_json}, "has all that there is to show; leave --show away")
        if not (png or svg):
            of_figure = {"--attention": attention if show == "attention" else None, "--patch": patch}
            _refuse(of_figure, "says what a figure is of; ask for one with --png or --svg")
    if positions is not None:
        _positions(positions, model, files)
    elif model is None:
        raise ConfigError("there is nothing to look at; give a model and a text, or --positions")
    elif importance:
        _importance(model, by, given, files, device)
    elif first is None:
        raise ConfigError(f"there is nothing to look at; give a text behind {model}, in quotes, or an image's file")
    else:
        options: dict[str, Any] = {"tokens": tokens, "layer": layer, "head": head, "device": device}
        _text(model, first, second, options, show, attention, patch, files)


def command() -> Any:
    """With a flag for each kind of files that a model's heads can be ranked on."""
    return flagged(look, merged_flags(evaluations().values(), files=True))


def _checked(files: dict[str, Path | None]) -> dict[str, Path | None]:
    """Files by their endings, which can be written."""
    for ending, path in files.items():
        if path is not None:
            refuse_unwritable(path, ending)
    return files


def _refuse(others: dict[str, Any], why: str) -> None:
    """Options that would do nothing are refused."""
    for name, value in others.items():
        if value not in (None, 0, False) and value != []:
            raise ConfigError(f"{name} {why}")


def _text(
    model: Path,
    text: str,
    second: str | None,
    options: dict[str, Any],
    show: str,
    attention: str | None,
    patch: str | None,
    files: dict,
) -> None:
    from manyheads.look.drawing import save_figure
    from manyheads.tasks.inside.look import look_inside, picture, tables

    inside = look_inside(model, text, second, **options)
    # Before anything is written: it may not be there.
    shown = tables(inside, show, attention)
    drawn: Any = picture(inside, show, attention, patch) if files[".png"] or files[".svg"] else None
    print(inside.text)
    for grid in shown:
        _print(grid)
    if files[".html"]:
        inside.page().save(files[".html"])
    _write(files, lambda path: save_figure(drawn, path), inside.arrays)


def _importance(model: Path, by: str | None, data: dict[str, Any], files: dict, device: str) -> None:
    from dataclasses import asdict

    from manyheads.look.drawing import save_figure
    from manyheads.tasks.inside.forward import called
    from manyheads.tasks.inside.importance import importance_picture, measure_of, rank_heads

    if files[".html"]:
        raise ConfigError("--importance is a table and a figure; give --png, --svg or --json")
    found = rank_heads(measure_of(model, by=by, device=device, **data))
    _print(found.table())
    _write(files, lambda path: save_figure(importance_picture(called(model), found), path), lambda: asdict(found))


def _positions(kinds: str, model: Path | None, files: dict) -> None:
    from manyheads.look.drawing import save_figure
    from manyheads.look.figures import draw_studies
    from manyheads.tasks.inside.positions import studies

    if files[".html"]:
        raise ConfigError("--positions are a figure; give --png, --svg or --json")
    named = [kind.strip() for kind in kinds.split(",") if kind.strip()]
    if not any(files.values()):
        files = _checked({**files, ".png": Path("positions.png")})
    found = studies(named, model=model)
    arrays = {each.name: each.arrays() for each in found}
    _write(files, lambda path: save_figure(draw_studies(found), path), lambda: arrays)


def _words(model: Path | None, asked: str, files: dict, device: str) -> None:
    from manyheads.look.drawing import save_figure
    from manyheads.look.map import draw_map
    from manyheads.tasks.inside.forward import called
    from manyheads.tasks.vectors.use import WordVectors

    if model is None:
        raise ConfigError("--words are looked up in word vectors; give a run, a model directory or a file of them")
    if files[".html"]:
        raise ConfigError("--words are a figure; give --png, --svg or --json")
    if not any(files.values()):
        files = _checked({**files, ".png": Path("words.png")})
    named = list(dict.fromkeys(word.strip() for word in asked.split(",") if word.strip()))
    points, share = WordVectors.load(model, device=device).plane(named)
    arrays = {"words": named, "points": points.tolist(), "share": share}
    _write(files, lambda path: save_figure(draw_map(named, points, share, called(model)), path), lambda: arrays)


def _print(grid: Any) -> None:
    from manyheads.look.grid import as_text

    print()
    print_wide(lambda width: as_text(grid, width, most=len(grid.rows)))


def _write(files: dict[str, Path | None], draw: Callable[[Path], None], table: Callable[[], dict[str, Any]]) -> None:
    """Writes the figures and the arrays that are asked for, and says what is written."""
    for figure in filter(None, (files[".png"], files[".svg"])):
        draw(figure)
    if path := files[".json"]:
        numbers = table()
        try:
            written = json.dumps(numbers, ensure_ascii=False, allow_nan=False)
        except ValueError:
            why = "the model gives what is no number, and JSON has none such"
            raise ConfigError(f"{path} is not written: {why}") from None
        write_result(path, written + "\n")
    for ending, path in files.items():
        if path is not None:
            say(f"{path} is written{'; open it in a browser' if ending == '.html' else ''}")
