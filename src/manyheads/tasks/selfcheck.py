"""The claims that a translator makes of itself, checked on its own weights."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from manyheads.core.errors import ConfigError
from manyheads.generate.steps import CachedSteps, WholeSteps
from manyheads.models.transformer import Transformer
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.cache import Cache
from manyheads.ops.attention import reference
from manyheads.tasks.translate import Translator, decode_all

TOLERANCE = 1e-4
LONGEST = 24  # tokens of a translation: searching without the cache takes the square of it


@dataclass(frozen=True)
class Finding:
    """A claim, whether it holds, and the numbers that say so."""

    claim: str
    holds: bool
    evidence: str


def check(path: Path, *, sentences: int = 24, beam: int = 4) -> list[Finding]:
    """Compares logits and whole translations of random sentences in the model's own vocabulary, on the CPU."""
    if sentences < 1 or beam < 1:
        raise ConfigError(f"{sentences} sentences with a beam of {beam} show nothing; both must be at least 1")
    model = Translator.load(path, device="cpu").model
    with torch.inference_mode():
        return [*_same_logits(model), *_same_translations(model, sentences, beam)]


def _same_logits(model: Transformer) -> list[Finding]:
    config = model.config
    source, target = _random_ids(config, 3, 11), _random_ids(config, 3, 7)
    whole = model(source, target)
    padded = torch.cat([source, torch.full((3, 5), config.pad)], dim=1)
    changed = target.clone()
    changed[:, 4] = (changed[:, 4] + 1) % config.vocabulary
    return [
        _close("logits through the cache = all at once", _through_cache(model, source, target), whole),
        _close("logits of a padded source = unpadded", model(padded, target), whole),
        _close(
            "logits in a batch = alone", torch.cat([model(s[None], t[None]) for s, t in zip(source, target)]), whole
        ),
        _close("logits by the reference kernel = by the fast one", _by_reference(model, source, target), whole),
        _close("a later token leaves earlier logits as they were", model(source, changed)[:, :4], whole[:, :4]),
    ]


def _same_translations(model: Transformer, sentences: int, beam: int) -> list[Finding]:
    lengths = torch.arange(sentences) % 17 + 3
    rows = [[*_random_ids(model.config, 1, int(length))[0].tolist(), model.config.end] for length in lengths]
    findings = []
    for name, width in (("greedy", 1), (f"beam {beam}", beam)):
        search: Callable = lambda rows, width=width, steps=CachedSteps: [  # noqa: E731
            found[0].ids for found in decode_all(model, rows, beam=width, steps=steps, limit=LONGEST)
        ]
        together = search(rows)
        alone = [search([row])[0] for row in rows]
        findings += [
            _equal(f"{name}: with the cache = without", search(rows, steps=WholeSteps), together),
            _equal(f"{name}: in a batch, padded = alone, unpadded", alone, together),
        ]
    return findings


def _through_cache(model: Transformer, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    memory, mask = model.encode(source)
    cache = Cache(target.shape[1])
    return torch.cat([model.decode(piece, memory, mask, cache) for piece in target.split([3, 1, 3], dim=1)], dim=1)


def _by_reference(model: Transformer, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    parts = [part for part in model.modules() if isinstance(part, MultiHeadAttention)]
    kernels = [part.kernel for part in parts]
    try:
        for part in parts:
            part.kernel = reference
        return model(source, target)
    finally:
        for part, kernel in zip(parts, kernels):
            part.kernel = kernel


def _random_ids(config, rows: int, length: int) -> torch.Tensor:
    special = {config.pad, config.end, config.start}
    ordinary = torch.tensor([each for each in range(config.vocabulary) if each not in special])
    generator = torch.Generator().manual_seed(rows * 1000 + length)
    return ordinary[torch.randint(len(ordinary), (rows, length), generator=generator)]


def _close(claim: str, found: torch.Tensor, expected: torch.Tensor) -> Finding:
    difference = float((found - expected).abs().max())
    return Finding(claim, difference <= TOLERANCE, f"largest difference {difference:.1e}, allowed {TOLERANCE:.0e}")


def _equal(claim: str, found: list, expected: list) -> Finding:
    same = sum(one == other for one, other in zip(found, expected, strict=True))
    return Finding(claim, same == len(expected), f"{same} of {len(expected)} translations equal")
