"""What positions tell a model, by the name of their kind or as a trained model has them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import nn

from manyheads.core.errors import ConfigError
from manyheads.interop.directory import load_model
from manyheads.look.positions import NAMES, Study, name_of, refuse_name, study, study_of
from manyheads.nn.positions import SCALINGS, Positions, Rotary

OWN = "own"  # the kind that a model has


def studies(kinds: Sequence[str], *, positions: int = 128, width: int = 64, model: Path | None = None) -> list[Study]:
    """Each kind as it is drawn; of a model, whose width counts then, its own if none is named."""
    if OWN in kinds and model is None:
        raise ConfigError("own are the positions of a model; give one")
    for kind in kinds:
        if kind != OWN:
            refuse_name(kind)
    if model is not None:
        return _of_model(model, list(kinds), positions)
    if not kinds:
        raise ConfigError(f"name the positions to draw, from {', '.join(NAMES)}, or give a model")
    return [study(kind, positions=positions, width=width) for kind in dict.fromkeys(kinds)]


def _of_model(path: Path, kinds: list[str], positions: int) -> list[Study]:
    """Kinds that the model has as it has them, others in its sizes."""
    model, _ = load_model(path)
    config, stacks = model.config, _stacks(model)
    own = name_of(next(iter(stacks.values())))
    heads = getattr(config, "heads", 1)
    head_width = getattr(config, "key_width", None) or config.width // heads
    base = next((module.base for module in stacks.values() if isinstance(module, Rotary)), 10_000.0)
    found = []
    for kind in dict.fromkeys(own if kind == OWN else kind for kind in kinds or [OWN]):
        if kind == own:
            for stack, module in stacks.items():
                each = study_of(module, positions=positions, width=config.width)
                owner = ", ".join(filter(None, (path.resolve().name, stack)))
                found.append(replace(each, name=f"{stack} {each.name}".strip(), title=f"{owner}: {each.title}"))
        elif kind == "learned":
            raise ConfigError(f"the positions of {path} are {own}; there are no learned ones to see")
        else:
            # What is added is as wide as the model; the others work inside a head.
            wide = config.width if kind == "sinusoidal" else head_width
            found.append(study(kind, positions=positions, width=wide, heads=heads, base=base))
    return found


def _stacks(model: nn.Module) -> dict[str, Positions]:
    """The positions of each side of a model, or of all of it under no name; one alone where both know the same."""
    stacks: dict[str, Positions] = {}
    for name, module in model.named_modules():
        # Attention that is told nothing of positions holds the plain class.
        if isinstance(module, Positions) and type(module) is not Positions:
            side = next((each for each in ("encoder", "decoder") if each in name.split(".")), "")
            stacks.setdefault(side, module)
    if not stacks:
        refuse_name("none")
    if all(name_of(module) in ("sinusoidal", "rotary", *SCALINGS) for module in stacks.values()):
        return {"": next(iter(stacks.values()))}
    return stacks
