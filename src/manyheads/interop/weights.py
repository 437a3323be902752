"""Weights in files: safetensors, whole or in shards, read tensor by tensor; a pickle is never opened.

A family lays its names over our weights as views: their name to the part of ours, as they lay it out. Copying out of
the views writes a checkpoint, copying into them reads one, so that the two directions cannot differ.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from manyheads.core.errors import CheckpointError
from manyheads.core.files import inner_path, parse_json
from manyheads.nn.attention import MultiHeadAttention
from manyheads.ops.finite import all_finite

_DRAWS = ("normal_", "uniform_", "kaiming_uniform_", "xavier_uniform_")
_SHOWN = 5  # names in a message


class Weights(Mapping[str, Tensor]):
    """The tensors of some safetensors files by name, each read when it is asked for."""

    def __init__(self, paths: Iterable[Path]):
        self._files: dict[str, tuple[Path, Any]] = {}
        for path in paths:
            try:
                file = safe_open(path, framework="pt")
                self._files |= dict.fromkeys(file.keys(), (path, file))
            except (SafetensorError, OSError) as error:
                raise CheckpointError(f"{path} is damaged: {error}") from None

    def __getitem__(self, name: str) -> Tensor:
        path, file = self._files[name]
        try:
            return file.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{path} is damaged: {error}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def shapes(self) -> dict[str, list[int]]:
        """The shape of each, without reading any."""
        return {name: file.get_slice(name).get_shape() for name, (_, file) in self._files.items()}

    def path(self, name: str) -> Path:
        """The file that holds a tensor."""
        return self._files[name][0]


class Renamed(dict[str, Tensor]):
    """Weights by other names, each read when it is asked for; `names` are patterns to what stands in their place."""

    def __init__(self, theirs: Mapping[str, Tensor], names: Mapping[str, str]):
        renamed: dict[str, Any] = {}
        for name in theirs:
            found = name
            for pattern, other in names.items():
                found = re.sub(pattern, other, found)
            renamed[found] = name
        super().__init__(renamed)
        self._theirs = theirs

    def __getitem__(self, name: str) -> Tensor:
        return self._theirs[super().__getitem__(name)]  # type: ignore


def open_weights(directory: Path) -> Weights:
    """The weights of a model directory: model.safetensors, or the shards that its index names."""
    path, index = directory / "model.safetensors", directory / "model.safetensors.index.json"
    if path.is_file():
        return Weights([path])
    if index.is_file():
        return _open_shards(directory, index)
    if any((directory / name).is_file() for name in ("pytorch_model.bin", "pytorch_model.bin.index.json")):
        raise CheckpointError(
            f"{directory} has only pytorch_model.bin, a pickle, which can run any code when opened; open it where you "
            "trust it with transformers and save_pretrained(…) it again: that writes model.safetensors"
        )
    raise CheckpointError(f"{directory} has no model.safetensors")


def _open_shards(directory: Path, index: Path) -> Weights:
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(shard, str) for shard in places.values()):
        raise CheckpointError(f"{index} has no weight_map from tensors to files; it is damaged")
    try:
        paths = [inner_path(directory, shard) for shard in dict.fromkeys(places.values())]
    except ValueError as error:
        raise CheckpointError(f"{index} cannot be followed: {error}") from None
    for path in paths:
        if path.parent != directory or not path.is_file():
            raise CheckpointError(f"{path}, which {index.name} names, is not there; fetch the missing file")
    weights = Weights(paths)
    for name, shard in places.items():
        if name not in weights or weights.path(name).name != shard:
            raise CheckpointError(f"{directory / shard} has no tensor {name}, which {index.name} says it has")
    return weights


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        table = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not isinstance(table, dict):
        raise CheckpointError(f"{path} is not a JSON object; it is damaged or not a model's")
    return table


def write_json(path: Path, table: Any) -> None:
    """A table as a JSON file."""
    path.write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_into(
    views: Mapping[str, Tensor], theirs: Mapping[str, Tensor], what: str, harmless: re.Pattern | None = None
) -> None:
    """Fills the views one by one, whatever the precision in the file; a name left over on either side is an error."""
    missing = [name for name in views if name not in theirs]
    if missing:
        raise CheckpointError(f"the checkpoint has no tensor {_few(missing)}, which {what} of its config must have")
    left = [name for name in theirs if name not in views and not (harmless and harmless.fullmatch(name))]
    if left:
        raise CheckpointError(f"the checkpoint has tensors that {what} of its config has not: {_few(sorted(left))}")
    for name, view in views.items():
        tensor = theirs[name]
        if tensor.shape != view.shape:
            raise CheckpointError(f"{name} is of shape {list(tensor.shape)}; its config says {list(view.shape)}")
        if not tensor.is_floating_point():
            raise CheckpointError(f"{name} holds numbers of {tensor.dtype}; only those of floats are read")
        view.copy_(tensor)
        if not all_finite(view):
            raise CheckpointError(
                f"{name} holds numbers that are not finite (NaN or infinity): the model is damaged or its training "
                "diverged; take another one"
            )


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def views_by_parts(
    model: nn.Module, parts: Mapping[str, Sequence[str]], whole: Mapping[str, str], layers: str
) -> dict[str, Tensor]:
    """Their names over a model's weights: those of blocks by `parts`, ours to theirs, and all others by `whole`.

    One matrix of ours may be several of theirs, one after the other; `layers` is how names of blocks begin.
    """
    found = {}
    for ours, parameter in model.named_parameters():
        place, kind = ours.rpartition(".")[::2]
        number, _, part = place.removeprefix("blocks.").partition(".")
        if part not in parts:
            found[f"{whole[place]}.{kind}"] = parameter.detach()
            continue
        names, owner = parts[part], model.get_submodule(place.rpartition(".")[0])
        three = isinstance(owner, MultiHeadAttention) and len(names) == 3
        sizes: Any = owner.parts if three else parameter.shape[0] // len(names)
        for name, view in zip(names, parameter.detach().split(sizes), strict=True):
            found[f"{layers}{number}.{name}.{kind}"] = view
    return found


def own_views(model: nn.Module) -> dict[str, Tensor]:
    """Our own names, without the second ones of shared tensors: tied embeddings, and positions that blocks share."""
    first: dict[int, str] = {}
    state = model.state_dict(keep_vars=True)
    return {name: tensor.detach() for name, tensor in state.items() if first.setdefault(id(tensor), name) == name}


class Undrawn(TorchFunctionMode):
    """Models built inside have weights that nobody drew, which takes longer than to read them: a file fills them."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in _DRAWS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
