"""`manyheads tag MODEL [FILE]…`"""

import sys
from dataclasses import asdict

from manyheads.cli.flags import Device, Json, Model
from manyheads.cli.lines import Files, lines_of, print_json


def tag(model: Model, files: Files = None, as_json: Json = False, device: Device = "auto") -> None:
    """Label the words of files or of standard input, one sentence a line, with spaces between words.

    Prints a line for each word with its likeliest label and the label's probability, tabs between, and a blank line
    behind each sentence; as JSON a line for each sentence.
    """
    from manyheads.tasks.tag.use import Tagger

    tagger = Tagger.load(model, device=device)
    for lines in lines_of(files):
        for text, sentence in zip(lines.texts, tagger(lines.texts)):
            if as_json:
                print_json({"text": text, "words": [asdict(each) for each in sentence]})
                continue
            for each in sentence:
                print(f"{each.word}\t{each.label}\t{each.probability:.4f}")
            print()
        sys.stdout.flush()
