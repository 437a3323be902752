"""`manyheads classify MODEL < in > out`"""

import sys
from collections.abc import Iterator
from typing import Any

from manyheads.cli.flags import Device, Model
from manyheads.cli.lines import in_chunks, standard_input


def classify(model: Model, device: Device = "auto") -> None:
    """Label standard input, one example a line: a text, two with a tab between, or JSON with context and choices.

    Prints the likeliest label and its probability, or the number that a model of numbers gives.
    """
    from manyheads.core.log import warn
    from manyheads.tasks.classify.use import Classifier, Label

    classifier = Classifier.load(model, device=device)
    examples, empty = _examples(classifier.form), 0
    for chunk in in_chunks(examples):
        empty += sum(not "".join(map(str, example)).strip() for example in chunk)
        for found in classifier(chunk):
            if not isinstance(found, Label):
                print(f"{found:.4f}")
                continue
            # A choice may have several lines.
            number = f"{found.index}\t" if classifier.form == "choice" else ""
            print(f"{number}{' '.join(found.name.split())}\t{found.probability:.4f}")
        sys.stdout.flush()
    if empty:
        warn(f"of the lines {empty:,} are empty; what is said of them means nothing")


def _examples(form: str) -> Iterator[Any]:
    """What each line of standard input says, as a classifier of this form takes it."""
    from manyheads.core.errors import DataError
    from manyheads.data.readers.corpus import json_in
    from manyheads.data.readers.examples import choices_in

    for number, line in enumerate(standard_input(), start=1):
        place = f"standard input, line {number}"
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
