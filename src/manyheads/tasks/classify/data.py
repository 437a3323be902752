"""The data of a classifier: labelled texts as the rows of ids that GPT-1 and BERT were fine-tuned on."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.log import say, warn
from manyheads.data.examples import example_store
from manyheads.data.ragged import Store
from manyheads.data.readers.examples import Example, ExampleFile, read_examples
from manyheads.tasks.classify.recipe import ExampleData
from manyheads.tasks.labelled import EXTRACT, START, Wrapping, as_number, label_names, split, with_dev
from manyheads.tasks.language.data import DELIMITER
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer

SHOWN = 20  # labels in a message
HOW = (
    "example",
    "say which column is the label, as the last of --columns, or that labels are numbers to be met, with --regression",
)
UNBALANCED = 0.8  # the share of one label from which accuracy says little


@dataclass(frozen=True)
class Labelled:
    """What the files of a run hold: all of one form, with labels by name."""

    form: str
    names: tuple[str, ...]
    train: list[Example]
    valid: list[Example]


def read_all(data: ExampleData, *, quiet: bool = False) -> Labelled:
    """Reads every example, and refuses what cannot be learned from."""
    if not data.train:
        raise ConfigError("there are no examples to learn from; give a .tsv or .jsonl file with --train")
    valid = data.valid or with_dev(data.train)
    files = [read_examples(Path(name), data.columns, "train") for name in data.train]
    others = [read_examples(Path(name), data.columns, "dev") for name in valid]
    form = files[0].form
    for file in (*files, *others):
        if file.form != form:
            raise DataError(f"{file.path} is of the form {file.form}, but {files[0].path} of the form {form}")
    if form == "choice" and data.regression:
        raise ConfigError("--regression is for numbers, but these are choices with an answer; leave it away")
    names = () if form == "choice" or data.regression else label_names(_counts(files), files[0].path, *HOW)
    for file in (*files, *others):
        refuse_unknown(file, names, data.regression)
    if not quiet:
        _tell(files, others, data.regression)
    train = [example for file in files for example in file.examples]
    if others:
        return Labelled(form, names, train, [example for file in others for example in file.examples])
    return Labelled(form, names, *split(train, "examples"))


def _counts(files: list[ExampleFile]) -> Counter[str]:
    return Counter(example.label for file in files for example in file.examples)


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


def _tell(files: list[ExampleFile], others: list[ExampleFile], regression: bool) -> None:
    for file in (*files, *others):
        if file.empty:
            count, first = len(file.empty), file.empty[0]
            warn(f"{file.path}: {count:,} examples with an empty text are left out, the first of them in line {first}")
    counts = _counts(files)
    for file in files:
        first = file.examples[0]
        if file.form != "choice" and first.line == 1 and counts[first.label] == 1 and not regression:
            warn(f"{file.path}: only line 1 has the label {first.label!r}; if it is a header, name its --columns")
    if regression or files[0].form == "choice":
        return
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


def train_tokenizer(found: Labelled, data: ExampleData, kind: type) -> LanguageTokenizer | EncoderTokenizer:
    """A tokenizer of this kind for the examples."""
    texts = (text.strip() for example in found.train for text in example.texts)
    if kind is EncoderTokenizer:
        return EncoderTokenizer.train(texts, data.vocabulary, lowercase=data.lowercase)
    return with_marks(LanguageTokenizer.train(texts, data.vocabulary))


def store_examples(found: Labelled, wrapping: Wrapping, regression: bool, directory: Path) -> None:
    """Lays the rows of ids of all examples down, with their labels."""
    for part, examples in (("train", found.train), ("valid", found.valid)):
        _store(found, examples, wrapping, regression).save(directory / part)
    about = {"form": found.form, "names": found.names}
    (directory / "examples.json").write_text(json.dumps(about, ensure_ascii=False) + "\n", encoding="utf-8")
    what = "numbers" if regression else f"{len(found.names)} labels" if found.names else "choices"
    say(f"{len(found.train):,} examples to learn from, {len(found.valid):,} to validate on, {what}")
    if wrapping.cut:
        warn(f"{wrapping.cut:,} texts are longer than the model's context and lose their end")


def _store(found: Labelled, examples: list[Example], wrapping: Wrapping, regression: bool) -> Store:
    parts = [parts_of(found.form, example.texts) for example in examples]
    flat = iter(wrapping.rows([part for each in parts for part in each]))
    rows = [[next(flat) for _ in each] for each in parts]
    if regression:
        return example_store(rows, [float(example.label) for example in examples])
    numbers = {name: number for number, name in enumerate(found.names)}
    labels = [numbers[example.label] if numbers else int(example.label) for example in examples]
    return example_store(rows, labels)
