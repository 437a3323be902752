"""The data of a classifier: labelled texts as the rows of ids that GPT-1 and BERT were fine-tuned on."""

from collections import Counter
from pathlib import Path

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.log import say, warn
from manyheads.core.words import counted
from manyheads.data.examples import example_store
from manyheads.data.ragged import Store
from manyheads.data.readers.examples import Example, ExampleFile
from manyheads.tasks.classify.recipe import ExampleData
from manyheads.tasks.labelled import (
    EXTRACT,
    START,
    Split,
    Wrapping,
    as_number,
    example_files,
    label_names,
    split,
    with_dev,
)
from manyheads.tasks.language.data import DELIMITER
from manyheads.text.language import LanguageTokenizer

SHOWN = 20  # labels in a message
REMEDY = "say which column is the label, last of --columns, or that labels are numbers to be met, with --regression"
UNBALANCED = 0.8  # the share of one label from which accuracy says little


def read_all(data: ExampleData, seed: int = 1) -> Split[Example]:
    """Reads every example, and refuses what cannot be learned from."""
    if not data.train:
        raise ConfigError("there are no examples to learn from; give a .tsv or .jsonl file with --train")
    files = example_files(data.train, data.columns, "train")
    others = example_files(data.valid or with_dev(data.train), data.columns, "dev")
    form = files[0].form
    for file in (*files, *others):
        if file.form != form:
            raise DataError(f"{file.path} is of the form {file.form}, but {files[0].path} of the form {form}")
    if form == "choice" and data.regression:
        raise ConfigError("--regression is for numbers, but these are choices with an answer; leave it away")
    named = form != "choice" and not data.regression
    counts = Counter(example.label for file in files for example in file.examples)
    names = label_names(counts, files[0].path, "example", REMEDY) if named else ()
    for file in (*files, *others):
        refuse_unknown(file, names, data.regression)
    if named:
        _tell(files, counts)
    train, valid = ([example for file in some for example in file.examples] for some in (files, others))
    if not valid:
        train, valid = split(train, "examples", seed, lambda example: None if data.regression else example.label)
    return Split(train, valid, {"form": form, "names": names})


def refuse_unknown(file: ExampleFile, names: tuple[str, ...], regression: bool) -> None:
    """Every label must be one of the names, or a number where that is what is learned."""
    for example in file.examples:
        place = f"{file.path}, line {example.line}"
        if regression:
            as_number(example.label, place)
        elif file.form != "choice" and example.label not in names:
            known = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
            raise DataError(
                f"{place}: the label {example.label!r} is not among those of the training examples ({known}); mend the "
                "line or add examples of it"
            )


def _tell(files: list[ExampleFile], counts: Counter[str]) -> None:
    for file in files:
        first = file.examples[0]
        if first.line == 1 and counts[first.label] == 1:
            warn(f"{file.path}: only line 1 has the label {first.label!r}; if it is a header, name its --columns")
    say("labels: " + ", ".join(f"{name} {count:,}" for name, count in counts.most_common(SHOWN)))
    name, most = counts.most_common(1)[0]
    if most > UNBALANCED * counts.total():
        share = 100 * most / counts.total()
        warn(f"{share:.0f} % of the examples are {name}: so much accuracy is had by always saying it; look at F1 too")


def parts_of(form: str, texts: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The rows that an example is read as: one, or of a multiple choice one for each choice behind the context."""
    return [(texts[0], choice) for choice in texts[1:]] if form == "choice" else [texts]


def with_marks(tokenizer: LanguageTokenizer) -> LanguageTokenizer:
    """The tokenizer with the three tokens and the template that puts them around texts, here and elsewhere."""
    tokenizer = tokenizer.with_special([START, DELIMITER, EXTRACT])
    return tokenizer.with_template([START, "$A", EXTRACT], [START, "$A", DELIMITER, "$B", EXTRACT])


def store_examples(found: Split[Example], wrapping: Wrapping, regression: bool, directory: Path) -> None:
    """Lays the rows of ids of all examples down, with their labels."""
    form, names = found.about["form"], found.about["names"]
    numbers = {name: number for number, name in enumerate(names)}

    def stored(examples: list[Example]) -> Store:
        parts = [parts_of(form, example.texts) for example in examples]
        flat = iter(wrapping.rows([part for each in parts for part in each]))
        number = float if regression else numbers.__getitem__ if numbers else int
        return example_store([[next(flat) for _ in each] for each in parts], [number(each.label) for each in examples])

    found.save(directory, stored)
    what = "numbers" if regression else counted(len(names), "label") if names else "choices"
    say(f"{counted(len(found.train), 'example')} to learn from, {len(found.valid):,} to validate on, {what}")
    if wrapping.cut:
        warn(f"texts longer than the model's context, which lose their end: {wrapping.cut:,}")
