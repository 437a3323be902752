"""`manyheads classify-image MODEL photo.png …`"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from manyheads.cli.flags import Device, Json, Model
from manyheads.cli.lines import print_json, there

Images = Annotated[
    list[Path],
    typer.Argument(help="Pictures: files, folders or patterns such as 'a/*.jpg'.", metavar="IMAGE", callback=there),
]


def classify_image(model: Model, images: Images, as_json: Json = False, device: Device = "auto") -> None:
    """Label pictures: the file, the likeliest label and its probability, with tabs between.

    As JSON the probability of each label too. A file that cannot be read is named, and the others are labelled.
    """
    from manyheads.core.errors import DataError
    from manyheads.core.log import warn
    from manyheads.data.readers.images import image_files
    from manyheads.tasks.images.use import ImageClassifier

    files = image_files(images)
    classifier = ImageClassifier.load(model, device=device)
    unread: list[DataError] = []
    for file, scores in zip(files, classifier.each_scores(files)):
        if isinstance(scores, DataError):
            unread.append(scores)
            if len(files) > 1:
                warn(str(scores))
            continue
        chances = scores.softmax(dim=0).tolist()
        best = chances.index(max(chances))
        if as_json:
            found = {"image": str(file), "label": classifier.names[best], "probability": chances[best]}
            print_json({**found, "probabilities": dict(zip(classifier.names, chances))})
        else:
            print(f"{file}\t{classifier.names[best]}\t{chances[best]:.4f}")
        sys.stdout.flush()
    if unread:
        raise unread[0] if len(files) == 1 else DataError(f"{len(unread):,} of {len(files):,} images cannot be read")
