"""`manyheads tag MODEL < in > out`"""

import sys

from manyheads.cli.flags import Device, Model
from manyheads.cli.lines import in_chunks, standard_input


def tag(model: Model, device: Device = "auto") -> None:
    """Label the words of standard input, one sentence a line, with spaces between words.

    Prints a line for each word with its likeliest label and the label's probability, tabs between, and a blank line
    behind each sentence.
    """
    from manyheads.tasks.tag.use import Tagger

    tagger = Tagger.load(model, device=device)
    for chunk in in_chunks(standard_input()):
        for sentence in tagger(chunk):
            for each in sentence:
                print(f"{each.word}\t{each.label}\t{each.probability:.4f}")
            print()
        sys.stdout.flush()
