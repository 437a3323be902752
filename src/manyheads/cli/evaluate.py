"""`manyheads evaluate MODEL …`"""

from pathlib import Path
from typing import Annotated

import typer


def evaluate(
    model: Annotated[Path, typer.Argument(help="A run directory or a model directory.")],
    source: Annotated[
        list[Path] | None,
        typer.Option(help="For a translator: one sentence a line; plain, .gz or .xz.", metavar="FILE…"),
    ] = None,
    target: Annotated[
        list[Path] | None, typer.Option(help="Reference translations, line by line.", metavar="FILE…")
    ] = None,
    pairs: Annotated[list[Path] | None, typer.Option(help="Both in one file: .tsv or .jsonl.", metavar="FILE…")] = None,
    fields: Annotated[
        list[str] | None, typer.Option(help="The columns (from 1) or JSON fields of source and target.", metavar="A B")
    ] = None,
    beam: Annotated[int, typer.Option(help="Beam width; 1 is greedy search.")] = 4,
    alpha: Annotated[float, typer.Option(help="Length penalty; 0 is none.")] = 0.6,
    out: Annotated[Path | None, typer.Option(help="Save the translations here, one a line.")] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(help="For a language model, masked or not: files, folders or patterns.", metavar="FILE…"),
    ] = None,
    field: Annotated[str | None, typer.Option(help="The field of a .jsonl line that is its text; none: text.")] = None,
    stride: Annotated[
        int | None, typer.Option(help="How far the window moves; none: half of the model's context.")
    ] = None,
    choices: Annotated[
        Path | None, typer.Option(help="For a language model: .jsonl with context, choices and answer.", metavar="FILE")
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="For a classifier, a tagger, an encoder of sentences or a model that answers: a file as it is trained "
            "on.",
            metavar="FILE…",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(help="Columns of --data by name or number (from 1), the label last.", metavar="A [B] LABEL"),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Where a classifier's reliability is drawn, .png or .svg; none: into its run directory."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Score a model: BLEU of translations, perplexity of text, accuracy, F1, correlation or calibration on examples."""
    from manyheads.core.errors import ConfigError

    given = (("--text", text), ("--choices", choices), ("--pairs", pairs), ("--data", data))
    asked = [name for name, value in given if value]
    asked += ["--source and --target"] if source or target else []
    if len(asked) > 1:
        raise ConfigError(f"{' and '.join(asked)} ask for different things; give one of them")
    if (columns or plot) and not data:
        raise ConfigError("--columns and --plot are for --data; give both or neither")
    if data:
        from manyheads.tasks.evaluation import evaluate_data

        print(evaluate_data(model, data, tuple(columns or ()), plot=plot, device=device))
    elif text:
        _text(model, text, field, stride, device)
    elif choices:
        _choices(model, choices, device)
    elif pairs or (source and target):
        _translation(model, source, target, pairs, fields, beam, alpha, out, device)
    else:
        raise ConfigError(
            "nothing to evaluate on: give --source and --target, or --pairs, for a translator; --text or --choices for "
            "a language model; --data for all others"
        )


def _text(model: Path, names: list[str], field: str | None, stride: int | None, device: str) -> None:
    from manyheads.core.errors import ConfigError
    from manyheads.data.readers.documents import find_texts, read_documents
    from manyheads.tasks.evaluation import evaluate_hidden, hides_words
    from manyheads.tasks.language import LanguageModel
    from manyheads.tasks.language_evaluation import score_text

    if hides_words(model):
        if stride:
            raise ConfigError("--stride moves a window over what comes next; hidden words are guessed in rows")
        print(evaluate_hidden(model, names, field, device=device))
        return
    paths = find_texts(names)
    scores = score_text(
        LanguageModel.load(model, device=device, precision="float32"), read_documents(paths, field), stride=stride
    )
    print(f"perplexity          {scores.perplexity:10.3f}   by token, {scores.tokens:,} of them")
    print(f"perplexity by word  {scores.word_perplexity:10.3f}   {scores.words:,} words, newlines counted as such")
    print(f"bits per byte       {scores.bits_per_byte:10.4f}   {scores.bytes:,} bytes")
    print(f"bits per character  {scores.bits_per_character:10.4f}   {scores.letters:,} characters")
    print(f"loss                {scores.nats / scores.tokens:10.4f}   nats by token")
    print(f"window {scores.window} tokens, stride {scores.stride}")


def _choices(model: Path, path: Path, device: str) -> None:
    from manyheads.tasks.language import LanguageModel
    from manyheads.tasks.language_evaluation import read_questions, score_choices

    questions = read_questions(path)
    scores = score_choices(LanguageModel.load(model, device=device, precision="float32"), questions)
    print(
        f"accuracy             {100 * scores.accuracy:6.2f} %   of {scores.questions:,} questions, by log-probability"
    )
    print(f"accuracy, normalised {100 * scores.normalised:6.2f} %   by log-probability a character")


def _translation(
    model: Path,
    source: list[Path] | None,
    target: list[Path] | None,
    pairs: list[Path] | None,
    fields: list[str] | None,
    beam: int,
    alpha: float,
    out: Path | None,
    device: str,
) -> None:
    from manyheads.core.errors import ConfigError, DataError
    from manyheads.data.readers.corpus import read_pairs
    from manyheads.tasks.translate import Translator, score

    if fields and len(fields) != 2:
        raise ConfigError(f"--fields names {len(fields)} fields; it must name two, source and target")
    named = (fields[0], fields[1]) if fields else None
    read = list(read_pairs(sources=source or (), targets=target or (), pairs=pairs or (), fields=named))
    if not read:
        raise DataError("the test set has no sentences")
    found = Translator.load(model, device=device).translate([pair[0] for pair in read], beam=beam, alpha=alpha)
    scores = score(found, [pair[1] for pair in read])
    print(f"BLEU        {scores.bleu:6.2f}   {scores.bleu_signature}")
    print(f"BLEU, lower {scores.bleu_lower:6.2f}   {scores.bleu_lower_signature}")
    print(f"chrF        {scores.chrf:6.2f}   {scores.chrf_signature}")
    if out:
        out.write_text("".join(f"{text}\n" for text in found), encoding="utf-8")
