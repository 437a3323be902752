"""`manyheads align MODEL …`"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from manyheads.cli.flags import Device, Json, Model
from manyheads.cli.lines import print_json, there
from manyheads.core.errors import ConfigError
from manyheads.core.words import counted

if TYPE_CHECKING:
    from manyheads.look.alignment import LinkScores, Reading
    from manyheads.tasks.inside.align import WordAlignment


def align(
    model: Model,
    sentence: Annotated[str | None, typer.Argument(help="A sentence.", metavar="SENTENCE")] = None,
    translation: Annotated[
        str | None, typer.Argument(help="Its translation; none: the model translates.", metavar="TRANSLATION")
    ] = None,
    source: Annotated[
        list[Path] | None, typer.Option(help="One sentence a line; plain, .gz or .xz.", metavar="FILE…", callback=there)
    ] = None,
    target: Annotated[
        list[Path] | None,
        typer.Option(
            help="Their translations, line by line; none: the model translates.", metavar="FILE…", callback=there
        ),
    ] = None,
    pairs: Annotated[
        list[Path] | None, typer.Option(help="Both in one file: .tsv or .jsonl.", metavar="FILE…", callback=there)
    ] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Score the model on the sample corpus.")] = False,
    gold: Annotated[
        Path | None,
        typer.Option(help="Score against these links, i-j or i?j, a line for a pair.", metavar="FILE", callback=there),
    ] = None,
    layer: Annotated[int | None, typer.Option(help="The layer that is read, from 0; none: the last.")] = None,
    head: Annotated[int | None, typer.Option(help="The head that is read, from 0; none: the mean of all.")] = None,
    shifted: Annotated[
        bool, typer.Option("--shifted", help="Read the weights of a word one step after it is written.")
    ] = False,
    pharaoh: Annotated[bool, typer.Option("--pharaoh", help="Print links only: i-j, a line for a pair.")] = False,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Show which source word each word of a translation comes from, by the model's attention."""
    from manyheads.data.readers.corpus import read_lines, read_pairs
    from manyheads.tasks.inside import align as task
    from manyheads.tasks.translate.use import Translator

    _refuse_clashes(sentence, source, target, pairs, sample)
    if translation is not None and not translation.strip():
        raise ConfigError("the translation is empty; give one, or leave it away, and the model translates")
    if gold and not (translation or target or pairs):
        raise ConfigError("--gold has the links of given translations; give them, with --target or --pairs")
    if pharaoh and (gold or sample):
        raise ConfigError("--pharaoh prints links and --gold and --sample print scores; give one of them")
    if pharaoh and as_json:
        raise ConfigError("--pharaoh and --json are two ways to write links; give one of them")
    translator = Translator.load(model, device=device)
    asked = layer is not None or head is not None or shifted
    reading = task.reading_of(translator, layer, head, shifted)
    tried = [reading] if asked else task.all_readings(translator)
    if sample:
        scores, best = task.score_sample(translator, tried)
        _print_scores(scores, "validation set", best, "the sample corpus's test set", as_json)
        return
    if pairs or target:
        found = read_pairs(sources=source or (), targets=target or (), pairs=pairs or ())
    elif translation is not None:
        found = [(sentence or "", translation)]
    else:
        lines = [sentence or ""] if not source else (line for path in source for line in read_lines(path))
        found = task.with_translations(translator, lines)
    if gold:
        known = task.with_gold(list(found), gold)
        scores = task.score_readings(translator, known, tried)
        _print_scores(
            scores, "error rate", scores[task.best_reading(scores)], counted(len(known), "sentence pair"), as_json
        )
    else:
        _show(task.align(translator, found, reading), pharaoh, as_json)


def _refuse_clashes(
    sentence: str | None, source: list[Path] | None, target: list[Path] | None, pairs: list[Path] | None, sample: bool
) -> None:
    given = (("a sentence", sentence is not None), ("--source", source), ("--pairs", pairs), ("--sample", sample))
    asked = [name for name, value in given if value]
    if len(asked) > 1:
        raise ConfigError(f"{' and '.join(asked)} ask for different things; give one of them")
    if sentence is not None and not sentence.strip():
        raise ConfigError("the sentence is empty; give one to align")
    if target and not source:
        raise ConfigError("--target is for --source; give both, or --pairs")
    if not asked:
        raise ConfigError("nothing to align: give a sentence, --source, --pairs or --sample")


def _show(alignments: Iterator["WordAlignment"], pharaoh: bool, as_json: bool) -> None:
    from manyheads.look.alignment import pharaoh as written

    for number, found in enumerate(alignments):
        if pharaoh:
            print(written(found.links))
            continue
        if as_json:
            links, weights = sorted(found.links), found.weights.tolist()
            print_json({"source": found.source, "target": found.target, "links": links, "weights": weights})
            continue
        if number:
            print()
        width = max(map(len, found.target), default=0)
        source_width = max(map(len, found.source), default=0)
        best = {target: source for source, target in found.links}
        for place, word in enumerate(found.target):
            if place in best:
                weight = found.weights[place, best[place]]
                print(f"{word:{width}} ← {found.source[best[place]]:{source_width}} {weight:.2f}")
            else:
                print(word)


def _print_scores(
    scores: dict["Reading", "LinkScores"], heading: str, found: "LinkScores", where: str, as_json: bool
) -> None:
    """The error rate of each reading, where there is more than one, and what the best of them finds."""
    from manyheads.tasks.inside.align import best_reading

    best, several = best_reading(scores), len(scores) > 1
    if as_json:
        read = [{**asdict(reading), "error_rate": each.error_rate} for reading, each in scores.items()]
        rates = {name: getattr(found, name) for name in ("error_rate", "precision", "recall", "sure")}
        print_json({**rates, "best": asdict(best), "readings": read})
        return
    if several:
        rates: dict[str, list[float]] = {}
        for reading, score in scores.items():
            rates.setdefault(reading.title, []).append(score.error_rate)
        width = max(map(len, (heading, *rates)))
        print(f"{heading:{width}}  as written  one step later")
        for title, (plain, shifted) in rates.items():
            print(f"{title:{width}}  {plain:10.3f}  {shifted:14.3f}")
    print(f"{'best: ' if several else ''}{best.title}{', one step later' if best.shifted else ''}")
    print(f"alignment error rate {found.error_rate:6.3f}   on {where}, {counted(found.sure, 'sure link')}")
    print(f"precision            {100 * found.precision:6.2f} %")
    print(f"recall               {100 * found.recall:6.2f} %")
