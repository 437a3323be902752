"""`manyheads classify MODEL [FILE]…`"""

import sys
from collections.abc import Iterator
from typing import Any

from manyheads.cli.flags import Device, Json, Model
from manyheads.cli.lines import Files, Lines, lines_of, print_json


def classify(model: Model, files: Files = None, as_json: Json = False, device: Device = "auto") -> None:
    """Label texts, one example a line, of files or of standard input.

    A line is a text, two with a tab between, or JSON with context and choices. Prints the likeliest label and its
    probability, or the number that a model of numbers gives; as JSON the probability of each label too.
    """
    from manyheads.core.log import warn
    from manyheads.tasks.classify.use import Classifier

    classifier = Classifier.load(model, device=device)
    empty = 0
    for lines in lines_of(files):
        examples = list(_examples(lines, classifier.form))
        empty += sum(not "".join(map(str, example)).strip() for example in examples)
        for example, scores in zip(examples, classifier.scores(examples)):
            _print(classifier, example, scores, as_json)
        sys.stdout.flush()
    if empty:
        warn(f"lines that are empty, of which what is said means nothing: {empty:,}")


def _print(classifier: Any, example: Any, scores: Any, as_json: bool) -> None:
    """What a classifier says of one example."""
    choice = classifier.form == "choice"
    asked = {"context": example[0]} if choice else {"text": example} if isinstance(example, str) else {"texts": example}
    if classifier.numbers:
        number = float(scores[0])
        print_json({**asked, "number": number}) if as_json else print(f"{number:.4f}")
        return
    names = list(example[1] if choice else classifier.names)
    chances = scores.softmax(dim=0).tolist()[: len(names)]
    place = chances.index(max(chances))
    number = {"index": place} if choice else {}
    if as_json:
        best = {"label": names[place], "probability": chances[place], **number}
        both = {"choices": names, "probabilities": chances} if choice else {"probabilities": dict(zip(names, chances))}
        print_json({**asked, **best, **both})
    else:
        name = " ".join(names[place].split())  # a choice may have several lines
        print("\t".join([*map(str, number.values()), name, f"{chances[place]:.4f}"]))


def _examples(lines: Lines, form: str) -> Iterator[Any]:
    """What each line says, as a classifier of this form takes it."""
    from manyheads.core.errors import DataError
    from manyheads.data.readers.corpus import json_in
    from manyheads.data.readers.examples import choices_in

    for place, line in lines.placed():
        if form == "choice":
            yield choices_in(json_in(line, place), place)
        elif form == "pair" or (form == "either" and "\t" in line):
            texts = line.split("\t")
            if len(texts) != 2:
                found = f"{len(texts) - 1} tabs" if len(texts) > 1 else "no tab"
                raise DataError(f"{place}: {found}; this model compares two texts: write them with one tab between")
            yield tuple(texts)
        else:
            yield line
