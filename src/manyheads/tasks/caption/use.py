"""Captioners: a model directory in, sentences about images out; how that is scored, looked into and checked."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.files import write_result
from manyheads.core.words import counted
from manyheads.data.batches import padded
from manyheads.data.image_text import ImageTextProcessor
from manyheads.data.readers.image_texts import ImageTexts
from manyheads.generate.beam import refuse_search, refuse_wide, search
from manyheads.generate.steps import CachedSteps, Hypothesis, SpecialIds, Steps, refuse_many_rows
from manyheads.models.vision_encoder_decoder import VisionEncoderDecoder
from manyheads.tasks.answer.scores import answer_scores
from manyheads.tasks.caption.data import Asked, asked_of, captions_of_shapes, read_files
from manyheads.tasks.caption.recipe import LONGEST, Evaluation, WritingEvaluation
from manyheads.tasks.inside.forward import ForwardPass, Picture, one_row, refuse_long
from manyheads.tasks.metrics import Scores
from manyheads.tasks.pictures import called, listed_images, of_sample, tell_unread
from manyheads.tasks.proofs.selfcheck import Finding, same_captions
from manyheads.tasks.task import Predictor
from manyheads.tasks.translate.use import BEAM

AT_ONCE = 64  # images in a batch
ALPHA = 0.6
SAMPLE_PARTS = {"seen": "combinations seen in training", "unseen": "combinations never seen in training"}

Request = tuple[Any, str | None]
"""An image, and what is asked of it, if anything is."""


@dataclass(frozen=True)
class Written:
    """A text, and its score: its log-probability divided by the length penalty."""

    text: str
    score: float


class ImageWriter(Predictor):
    """What models that read images and write have in common."""

    ranked_by = ()
    sees = True
    files: str
    """The field that names the files they are scored on."""
    columns: tuple[str, ...]
    """What stands behind an image's path there, for a person."""

    def __init__(self, model: VisionEncoderDecoder, processor: ImageTextProcessor):
        super().__init__(model, processor.text)
        self.processor = processor

    def written(
        self,
        requests: Iterable[Request],
        *,
        beam: int = BEAM,
        alpha: float = ALPHA,
        tokens: int = LONGEST,
        count: int = 1,
    ) -> Iterator[list[Written] | DataError]:
        """The best texts of each in turn, or why its image cannot be read; never are all images in memory at once."""
        refuse_search(beam, alpha, count)
        if tokens < 1:
            raise ConfigError(f"a text of {tokens} tokens is asked for; it must have at least 1")
        waiting: list[str | None] = []

        def images() -> Iterator[Any]:
            for image, question in requests:
                waiting.append(question)
                yield image

        read = self.processor.images.many(images())
        while batch := list(islice(read, AT_ONCE)):
            questions, waiting[: len(batch)] = waiting[: len(batch)], []
            there = [place for place, pixels in enumerate(batch) if not isinstance(pixels, DataError)]
            found = iter(self._written([(batch[each], questions[each]) for each in there], beam, alpha, tokens, count))
            for pixels in batch:
                yield pixels if isinstance(pixels, DataError) else next(found)

    def _written(
        self, requests: list[tuple[Any, str | None]], beam: int, alpha: float, tokens: int, count: int
    ) -> list[list[Written]]:
        if not requests:
            return []
        pixels = torch.from_numpy(np.stack([pixels for pixels, _ in requests]))
        questions = [question for _, question in requests if question is not None]
        seen = seen_of(self.processor, pixels, questions, self.device)
        found = [row[:count] for row in decode_seen(self.model, seen, beam=beam, alpha=alpha, tokens=tokens)]
        texts = iter(self.tokenizer.decode([hypothesis.ids for row in found for hypothesis in row]))
        # One image is one line, whatever the model writes.
        return [[Written(" ".join(next(texts).split("\n")), each.score) for each in row] for row in found]

    def best(self, requests: Iterable[Request], **how: Any) -> list[str]:
        """The best text of each; an image that cannot be read is refused."""
        texts: list[str] = []
        for found in self.written(requests, **how):
            if isinstance(found, DataError):
                raise found
            texts.append(found[0].text)
        return texts

    def sample(self, part: str) -> ImageTexts:
        """A part of the pictures of shapes."""
        raise NotImplementedError

    def evaluate(self, asked: WritingEvaluation) -> Scores:
        """How often what is written is right, and how near it is; of the sample, for seen and unseen combinations."""
        files = getattr(asked, self.files)
        if not files and of_sample(self.path, self.files):
            if asked.out:
                raise ConfigError("--out keeps what is written of files; give some with it, or leave it away")
            parts = {part: self._scored(self.sample(part), asked)[0] for part in SAMPLE_PARTS}
            table = "\n".join(f"{SAMPLE_PARTS[part]}\n{each}" for part, each in parts.items())
            return Scores({part: each.numbers for part, each in parts.items()}, table)
        needed = f"--{self.files}, files as it is trained on"
        scores, texts = self._scored(read_files(self.given(files, needed), self.columns), asked)
        if asked.out:
            write_result(Path(asked.out), "".join(f"{text}\n" for text in texts))
        return scores

    def _scored(self, found: ImageTexts, how: WritingEvaluation) -> tuple[Scores, list[str]]:
        """The scores of what is written, and all texts: nothing of an image that cannot be read, which is named."""
        asked = asked_of(found)
        requests = ((found.images[each.image], each.question) for each in asked)
        written = list(self.written(requests, beam=how.beam, alpha=how.alpha))
        unread = {each.image: str(texts) for each, texts in zip(asked, written) if isinstance(texts, DataError)}
        tell_unread([*unread.values()], len({each.image for each in asked}))
        texts = ["" if isinstance(each, DataError) else each[0].text for each in written]
        read = [(text, each) for text, each in zip(texts, asked) if each.image not in unread]
        return self.scores([text for text, _ in read], [each for _, each in read]), texts

    def scores(self, texts: list[str], asked: list[Asked]) -> Scores:
        """What was written beside what is right."""
        raise NotImplementedError

    def selfcheck(self, sentences: int, beam: int) -> list[Finding]:
        return same_captions(self.model, decode_seen, sentences, beam)

    def seen(self, image: Any, question: str | None, written: str | None) -> ForwardPass:
        """An image, a question about it if there is one, and what is written of them: the best, unless it is given."""
        model, tokenizer, config = self.model, self.tokenizer, self.model.config
        pixels = self.processor.images.pixels(image)
        questions = [] if question is None else [question]
        seen = seen_of(self.processor, torch.from_numpy(pixels.copy())[None], questions, self.device)
        if written is None:
            found = decode_seen(model, seen, beam=BEAM)[0][0].ids
            row, says = [*found, config.end][:LONGEST], tokenizer.decode([found])[0]
        else:
            row, says = tokenizer.encode([written])[0], written
            refuse_long(written, row, LONGEST)
        before = [config.start, *row[:-1]]
        words = tokenizer.pieces(seen[1][0].tolist()) if questions else []
        picture = Picture(np.broadcast_to(pixels, (*pixels.shape[:2], 3)), config.grid, before=len(words))

        def run() -> Tensor:
            return model(*seen, one_row(model, before))

        texts = (called(image), *questions)
        tokens = {"encoder": [*words, *picture.tokens]}
        return ForwardPass(texts, {"decoder": before}, run, row, says, tokens=tokens, picture=picture)


class Captioner(ImageWriter):
    """A captioner that is ready to use: a model of ours, or a VisionEncoderDecoderModel of ViT and a Marian decoder."""

    what = "a captioner"
    kinds = (VisionEncoderDecoder,)
    scored_on = Evaluation
    commands = ("caption {model} photo.png", "look {model} photo.png")
    files, columns = "pairs", ("its caption",)

    def __call__(
        self, images: Iterable[Any], *, beam: int = BEAM, alpha: float = ALPHA, tokens: int = LONGEST
    ) -> list[str]:
        """The best caption of each image: paths, images of Pillow or arrays, [height, width, colours]."""
        requests = ((image, None) for image in listed_images(images, self.what))
        return self.best(requests, beam=beam, alpha=alpha, tokens=tokens)

    def sample(self, part: str) -> ImageTexts:
        return captions_of_shapes(part)

    def scores(self, texts: list[str], asked: list[Asked]) -> Scores:
        """BLEU beside all right captions of an image, and how many captions are one of them."""
        right = [each.right for each in asked]
        (bleu, signature), exact = multi_bleu(texts, right), answer_scores(texts, right).exact
        numbers = {"exact": exact, "BLEU": {"score": bleu, "signature": signature}, "images": len(texts)}
        lines = [
            f"exact match {exact:7.2f}   of {counted(len(texts), 'image')}: the caption is one of the right ones",
            f"BLEU        {bleu:7.2f}   {signature}",
        ]
        return Scores(numbers, "\n".join(lines))

    def forward(self, text: Any, second: str | None, tokens: int) -> ForwardPass:
        """An image and its caption, the one given or the one that beam search finds."""
        return self.seen(text, None, second)


def seen_of(
    processor: ImageTextProcessor, pixels: Tensor, questions: Sequence[str], device: torch.device
) -> tuple[Tensor, ...]:
    """What the model reads: images in uint8 made ready, and the ids of questions where there are any."""
    ready = processor.images.normalised(pixels.to(device))
    if not questions:
        return (ready,)
    return ready, padded(processor.text.encode(list(questions)), processor.pad)[0].to(device)


@torch.inference_mode()
def decode_seen(
    model: VisionEncoderDecoder,
    seen: tuple[Tensor, ...],
    *,
    beam: int,
    alpha: float = ALPHA,
    tokens: int = LONGEST,
    steps: type[CachedSteps] = CachedSteps,
    scored: bool = True,
) -> list[list[Hypothesis]]:
    """The best texts of so many tokens of each image in a batch, one for each beam; `steps` is for proofs."""
    config = model.config
    special = SpecialIds(stop_ids=(config.end, *config.other_ends), banned=(config.pad,))
    refuse_wide(beam)
    memory, mask = model.encode(*seen)
    refuse_many_rows(model, len(memory) * beam, tokens, beam)
    stepper: Steps = steps(model, memory, mask, tokens, beam)
    limits = torch.full((len(memory),), tokens)
    return search(stepper, limits, special, beams=beam, alpha=alpha, scored=scored)


def multi_bleu(found: Sequence[str], right: Sequence[Sequence[str]]) -> tuple[float, str]:
    """sacreBLEU's BLEU beside several references each, as many as there are, and its signature."""
    from sacrebleu.metrics.bleu import BLEU

    metric, most = BLEU(), max(map(len, right))
    references = [[each[place] if place < len(each) else None for each in right] for place in range(most)]
    score = metric.corpus_score(list(found), references)  # type: ignore
    return score.score, str(metric.get_signature())


PREDICTOR = Captioner
