"""`manyheads classify-image`, `caption` and `ask`: MODEL photo.png …"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.cli.flags import Device, Json, Model
from manyheads.cli.lines import print_json, there

Images = Annotated[
    list[Path],
    typer.Argument(help="Pictures: files, folders or patterns such as 'a/*.jpg'.", metavar="IMAGE", callback=there),
]
Beam = Annotated[int, typer.Option(help="Beam width; 1 is greedy search.", min=1)]
Alpha = Annotated[float, typer.Option(help="Length penalty; 0 is none.", min=0.0)]
Tokens = Annotated[int, typer.Option(help="The most tokens that are written.", min=1)]


def classify_image(model: Model, images: Images, as_json: Json = False, device: Device = "auto") -> None:
    """Label pictures: the file, the likeliest label and its probability, with tabs between.

    As JSON the probability of each label too. A file that cannot be read is named, and the others are labelled.
    """
    from manyheads.data.readers.images import image_files
    from manyheads.tasks.images.use import ImageClassifier

    files = image_files(images)
    classifier = ImageClassifier.load(model, device=device)
    for file, scores in _readable(files, classifier.each_scores(files)):
        chances = scores.softmax(dim=0).tolist()
        best = chances.index(max(chances))
        if as_json:
            found = {"image": str(file), "label": classifier.names[best], "probability": chances[best]}
            print_json({**found, "probabilities": dict(zip(classifier.names, chances))})
        else:
            print(f"{file}\t{classifier.names[best]}\t{chances[best]:.4f}")
        sys.stdout.flush()


def caption(
    model: Model,
    images: Images,
    beam: Beam = 4,
    alpha: Alpha = 0.6,
    tokens: Tokens = 64,
    count: Annotated[int, typer.Option(help="How many captions of each picture, the best first.", min=1)] = 1,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Say what is in pictures: the file and its caption, with a tab between.

    With --count the score of each caption stands behind it. A file that cannot be read is named, and the others are
    captioned.
    """
    from manyheads.data.readers.images import image_files
    from manyheads.tasks.caption.use import Captioner

    files = image_files(images)
    captioner = Captioner.load(model, device=device)
    requests = ((file, None) for file in files)
    found = captioner.written(requests, beam=beam, alpha=alpha, tokens=tokens, count=count)
    for file, texts in _readable(files, found):
        if as_json:
            print_json({"image": str(file), "captions": [{"text": each.text, "score": each.score} for each in texts]})
        elif count == 1:
            print(f"{file}\t{texts[0].text}")
        else:
            print("\n".join(f"{file}\t{each.text}\t{each.score:.4f}" for each in texts))
        sys.stdout.flush()


def ask(
    model: Model,
    image: Annotated[Path, typer.Argument(help="A picture.", metavar="IMAGE", callback=there)],
    questions: Annotated[list[str], typer.Argument(help="What is asked about it.", metavar="QUESTION")],
    beam: Beam = 4,
    alpha: Alpha = 0.6,
    tokens: Tokens = 64,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Answer questions about a picture: an answer on each line."""
    from manyheads.core.errors import DataError

    if not all(each.strip() for each in questions):
        raise DataError("the question is empty; ask one")
    from manyheads.data.readers.images import read_image
    from manyheads.tasks.ask.use import ImageAnswerer

    picture = read_image(image)
    answerer = ImageAnswerer.load(model, device=device)
    found = answerer.written(((picture, each) for each in questions), beam=beam, alpha=alpha, tokens=tokens)
    for question, texts in zip(questions, found):
        if isinstance(texts, DataError):
            raise texts
        if as_json:
            print_json({"image": str(image), "question": question, "answer": texts[0].text, "score": texts[0].score})
        else:
            print(texts[0].text)


def _readable(asked: Sequence[Any], found: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Each with what was found of it; what cannot be read is named, and how much there was is said at the end."""
    from manyheads.core.errors import DataError
    from manyheads.core.log import warn

    unread: list[DataError] = []
    for each, result in zip(asked, found):
        if not isinstance(result, DataError):
            yield each, result
            continue
        unread.append(result)
        if len(asked) > 1:
            warn(str(result))
    if unread:
        raise unread[0] if len(asked) == 1 else DataError(f"{len(unread):,} of {len(asked):,} images cannot be read")
