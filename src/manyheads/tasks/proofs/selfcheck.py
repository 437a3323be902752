"""The claims that a model makes of itself, checked on its own weights."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from manyheads.core.errors import ConfigError
from manyheads.core.words import counted
from manyheads.generate.beam import beam_search
from manyheads.generate.greedy import decoded
from manyheads.generate.prompts import PromptSteps, WholePromptSteps
from manyheads.generate.sample import Sampler, Sampling
from manyheads.generate.steps import CachedSteps, SpecialIds, WholeSteps
from manyheads.look.stand_ins import standing_in
from manyheads.models.bert import Bert
from manyheads.models.birnn import BiRNN
from manyheads.models.transformer import Transformer
from manyheads.models.vision_encoder_decoder import VisionQuestionDecoder
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.recurrent import Recurrence
from manyheads.ops.attention import reference
from manyheads.ops.masks import length_mask
from manyheads.tasks.task import open_predictor

TOLERANCE = 1e-4
MOST = 10_000  # sentences, and beams
LONGEST = 24  # tokens of a translation: searching without the cache takes the square of it


@dataclass(frozen=True)
class Finding:
    """A claim, whether it holds, and the numbers that say so."""

    claim: str
    holds: bool
    evidence: str


def check(path: Path, *, sentences: int = 24, beam: int = 4) -> list[Finding]:
    """Compares logits and whole texts of random sentences in the model's own vocabulary, on the CPU."""
    for count, what in ((sentences, "sentences"), (beam, "beam")):
        if not 1 <= count <= MOST:
            raise ConfigError(f"--{what} is {count}; it must be from 1 to {MOST}")
    predictor = open_predictor(path, device="cpu")
    with torch.inference_mode():
        return predictor.selfcheck(sentences, beam)


def same_vectors(body: Bert | BiRNN, sentences: int) -> list[Finding]:
    """What every head of an encoder reads, of rows of different lengths."""
    longest = min(body.config.context, 19)
    lengths = torch.arange(sentences) % longest + 1
    rows = [_random_ids(body.config, 1, int(length))[0] for length in lengths]
    ids = pad_sequence(rows, batch_first=True)
    real = length_mask(lengths, ids.shape[1])[:, 0, 0]
    alone = torch.cat([body(row[None])[0] for row in rows])
    others = torch.where(real, ids, (ids + 1) % body.config.vocabulary)
    whole = body(ids, lengths)
    changed = ids.clone()
    changed[:, -1] = (changed[:, -1] + 1) % body.config.vocabulary
    findings = [
        _close("vectors in a batch, without its padding = alone", whole[real], alone),
        _close("what stands in the padding changes nothing", body(others, lengths)[real], alone),
        _close("vectors by the reference kernel = by the fast one", _by_reference(body, ids, lengths)[real], alone),
        _differ("a later token is seen by earlier ones", body(changed)[:, 0], body(ids)[:, 0]),
    ]
    if isinstance(body, Bert):
        padded = body.padded(body.embed(ids), lengths)[real]
        findings.append(_close("packed rows = padded rows with a mask", padded, alone))
    return findings


def same_image_scores(model: torch.nn.Module, images: int) -> list[Finding]:
    """Of random images, in a batch and alone; the second half of each image is seen by what is said of all of it."""
    config: Any = model.config
    pixels = _random_images(config, images)
    alone, whole = torch.cat([model(each[None]) for each in pixels]), model(pixels)
    changed = pixels.clone()
    changed[:, :, config.image_size // 2 :] += 1
    return [
        _close("scores in a batch = alone", whole, alone),
        _close("scores by the reference kernel = by the fast one", _by_reference(model, pixels), whole),
        _differ("every part of an image is seen", model(changed), whole),
    ]


def same_captions(model: Any, decode: Callable, images: int, beam: int) -> list[Finding]:
    """Of random images, and questions of different lengths where the model reads them."""
    config = model.config
    pixels = _random_images(config, images)
    asks = isinstance(model, VisionQuestionDecoder)
    questions = [[_random_ids(config, 1, number % 7 + 2)] if asks else [] for number in range(images)]
    seen = [(each[None], *question) for each, question in zip(pixels, questions)]
    together = _in_a_batch(seen, config.pad)
    target, cache = _random_ids(config, images, 7), model.decoding_state(7)
    whole, memory, changed = model(*together, target), model.encode(*together), target.clone()
    pieces = [model.decode(piece, *memory, cache) for piece in target.split([3, 1, 3], dim=1)]
    alone = [model(*each, row[None]) for each, row in zip(seen, target)]
    changed[:, 4] = (changed[:, 4] + 1) % config.vocabulary
    brighter = together[0].clone()
    brighter[:, :, config.image_size // 2 :] += 1
    findings = [
        _close("logits through the cache = all at once", torch.cat(pieces, dim=1), whole),
        _close("logits in a batch = alone", torch.cat(alone), whole),
        _close("logits by the reference kernel = by the fast one", _by_reference(model, *together, target), whole),
        _close("a later token leaves earlier logits as they were", model(*together, changed)[:, :4], whole[:, :4]),
        _differ("every part of an image is seen", model(brighter, *together[1:], target), whole),
    ]
    for name, width in (("greedy", 1), (f"beam {beam}", beam)):

        def texts(rows: list, steps: type = CachedSteps, width: int = width) -> list[list[int]]:
            found = decode(model, _in_a_batch(rows, config.pad), beam=width, tokens=LONGEST, steps=steps)
            return [row[0].ids for row in found]

        findings += _compared(name, texts, seen, WholeSteps)
    return findings


def _in_a_batch(seen: list[tuple[torch.Tensor, ...]], pad: int) -> tuple[torch.Tensor, ...]:
    """Images, and questions padded to the longest."""
    pixels, *questions = zip(*seen)
    rows = [[each[0] for each in column] for column in questions]
    return torch.cat(pixels), *(pad_sequence(each, batch_first=True, padding_value=pad) for each in rows)


def same_scores_of_words(model: torch.nn.Module, sentences: int) -> list[Finding]:
    """Of a model that counts the words of rows of different lengths."""
    lengths = torch.arange(sentences) % 19 + 1
    rows = [_random_ids(model.config, 1, int(length))[0] for length in lengths]
    ids = pad_sequence(rows, batch_first=True)
    others = torch.where(length_mask(lengths, ids.shape[1])[:, 0, 0], ids, (ids + 1) % model.config.vocabulary)  # type: ignore
    whole, alone = model(ids, lengths), torch.cat([model(row[None], torch.tensor([len(row)])) for row in rows])
    findings = [
        _close("scores in a batch, without its padding = alone", whole, alone),
        _close("what stands in the padding changes nothing", model(others, lengths), whole),
    ]
    if getattr(model.config, "ngrams", 1) == 1:
        turned = torch.cat([model(row.flip(0)[None], torch.tensor([len(row)])) for row in rows])
        findings.append(_close("the order of words changes nothing", turned, whole))
    return findings


def same_decoder_logits(model) -> list[Finding]:
    length = min(model.config.context, 11)
    ids = _random_ids(model.config, 3, length)
    whole, cache, changed = model(ids), model.decoding_state(length), ids.clone()
    changed[:, -1] = (changed[:, -1] + 1) % model.config.vocabulary
    pieces = [model(piece, cache=cache) for piece in ids.split(3, dim=1)]
    padded = torch.cat([ids[:, :-1], torch.zeros_like(ids[:, :1])], dim=1)
    return [
        _close("logits through the cache = all at once", torch.cat(pieces, dim=1), whole),
        _close("logits of a padded text = unpadded", model(padded)[:, :-1], model(ids[:, :-1])),
        _close("logits in a batch = alone", torch.cat([model(row[None]) for row in ids]), whole),
        _close("logits by the reference kernel = by the fast one", _by_reference(model, ids), whole),
        _close("a later token leaves earlier logits as they were", model(changed)[:, :-1], whole[:, :-1]),
    ]


def same_texts(model, sentences: int, beam: int) -> list[Finding]:
    """Prompts of different lengths, some of which fill the context and go on."""
    context = model.config.context
    lengths = [min(number % 17 + 1, context) for number in range(sentences)]
    rows = [_random_ids(model.config, 1, length)[0].tolist() for length in lengths]
    special = SpecialIds()
    findings = []
    for name, sampling in (("greedy", Sampling(temperature=0.0)), ("sampled", Sampling(temperature=0.9, top_p=0.9))):

        def texts(rows: list[list[int]], kind=PromptSteps, sampling=sampling) -> list[list[int]]:
            sampler = Sampler(sampling, rows, [0] * len(rows), model.config.vocabulary, (), torch.device("cpu"))
            limits = torch.full((len(rows),), LONGEST)
            steps = kind(model, rows, max(map(len, rows)) + LONGEST)
            return torch.stack([newest for _, newest in decoded(steps, limits, special, sampler)], 1).tolist()

        findings += _compared(name, texts, rows, WholePromptSteps)

    def beams(rows: list[list[int]], kind=PromptSteps) -> list[list[int]]:
        found = []
        for row in rows:
            steps = kind(model, [row], len(row) + LONGEST, beam)
            found.append(beam_search(steps, torch.tensor([LONGEST]), special, beams=beam)[0][0].ids)
        return found

    return [
        *findings,
        _equal(f"beam {beam}: with the cache = without", beams(rows[:4], WholePromptSteps), beams(rows[:4])),
    ]


def same_logits(model: Transformer) -> list[Finding]:
    config = model.config
    source, target = _random_ids(config, 3, 11), _random_ids(config, 3, 7)
    whole, memory, cache = model(source, target), model.encode(source), model.decoding_state(7)
    pieces = [model.decode(piece, *memory, cache) for piece in target.split([3, 1, 3], dim=1)]
    alone = [model(one[None], other[None]) for one, other in zip(source, target)]
    padded = torch.cat([source, torch.full((3, 5), config.pad)], dim=1)
    changed = target.clone()
    changed[:, 4] = (changed[:, 4] + 1) % config.vocabulary
    return [
        _close("logits through the cache = all at once", torch.cat(pieces, dim=1), whole),
        _close("logits of a padded source = unpadded", model(padded, target), whole),
        _close("logits in a batch = alone", torch.cat(alone), whole),
        _close("logits by the reference kernel = by the fast one", _by_reference(model, source, target), whole),
        _close("a later token leaves earlier logits as they were", model(source, changed)[:, :4], whole[:, :4]),
    ]


def same_translations(model: Transformer, decode_all: Callable, sentences: int, beam: int) -> list[Finding]:
    lengths = torch.arange(sentences) % 17 + 3
    rows = [[*_random_ids(model.config, 1, int(length))[0].tolist(), model.config.end] for length in lengths]
    findings = []
    for name, width in (("greedy", 1), (f"beam {beam}", beam)):
        search: Callable = lambda rows, steps=CachedSteps, width=width: [  # noqa: E731
            found[0].ids for found in decode_all(model, rows, beam=width, steps=steps, limit=LONGEST)
        ]
        findings += _compared(name, search, rows, WholeSteps)
    return findings


def _compared(name: str, search: Callable, rows: list, whole: type) -> Iterable[Finding]:
    together = search(rows)
    return (
        _equal(f"{name}: with the cache = without", search(rows, whole), together),
        _equal(f"{name}: in a batch, padded = alone, unpadded", [search([row])[0] for row in rows], together),
    )


def _by_reference(model: torch.nn.Module, *ids: torch.Tensor) -> torch.Tensor:
    parts = [part for part in model.modules() if isinstance(part, MultiHeadAttention)]
    layers: list = [part for part in model.modules() if isinstance(part, Recurrence)]
    for layer in layers:
        layer.forward = layer.written_out
    try:
        with standing_in(dict.fromkeys(parts, lambda kernel: reference)):
            return model(*ids)
    finally:
        for layer in layers:
            del layer.forward


def _random_images(config: Any, count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(count)
    return torch.randn(count, config.channels, config.image_size, config.image_size, generator=generator)


def _random_ids(config, rows: int, length: int) -> torch.Tensor:
    special = {getattr(config, name, None) for name in ("pad", "end", "start")}
    ordinary = torch.tensor([each for each in range(config.vocabulary) if each not in special])
    generator = torch.Generator().manual_seed(rows * 1000 + length)
    return ordinary[torch.randint(len(ordinary), (rows, length), generator=generator)]


def _close(claim: str, found: torch.Tensor, expected: torch.Tensor) -> Finding:
    difference = float((found - expected).abs().max())
    return Finding(claim, difference <= TOLERANCE, f"{difference:.1e} apart (≤ {TOLERANCE:.0e})")


def _differ(claim: str, found: torch.Tensor, other: torch.Tensor) -> Finding:
    difference = float((found - other).abs().max())
    return Finding(claim, difference > 0, f"{difference:.1e} apart (> 0)")


def _equal(claim: str, found: list, expected: list) -> Finding:
    same = sum(one == other for one, other in zip(found, expected, strict=True))
    return Finding(claim, same == len(expected), f"{same} of {counted(len(expected), 'text')} equal")
