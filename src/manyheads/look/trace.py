"""What happens inside a model on its way through one block: every number its own, taken while it runs.

Shapes:  H heads  Q query positions  K key positions  D head width  E value width
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from manyheads.look.heads import of_heads
from manyheads.look.stand_ins import stand_ins, standing_in
from manyheads.nn.parts import Part
from manyheads.nn.positions import Positions
from manyheads.ops.attention import Kernel, attention_weights
from manyheads.ops.masks import causal_mask


@dataclass(frozen=True)
class Passage:
    """One call of a part of the model, for the first text of a batch."""

    module: nn.Module
    given: Tensor
    gave: Tensor


@dataclass(frozen=True)
class Head:
    """What one head of an attention computes."""

    q: Tensor
    """[Q, D], as k [K, D] and v [K, E]."""
    k: Tensor
    v: Tensor
    scores: Tensor
    """[Q, K]: q kᵀ / √D; bias, mask and weights are of this shape too."""
    bias: Tensor | None
    mask: Tensor | None
    """True where a query may look; None: everywhere."""
    weights: Tensor
    mixed: Tensor
    """[Q, E]: what the model's own kernel made of them."""
    unturned: tuple[Tensor, Tensor] | None
    """Queries and keys before rotary positions turned them; None: nothing turns them."""


@dataclass
class Trace:
    """The calls of a model's parts in order, and what the kernel of the chosen attention was given and gave."""

    part: Part
    passages: list[Passage] = field(default_factory=list)
    kernel: dict[str, Any] = field(default_factory=dict)

    def of(self, *modules: nn.Module) -> list[Passage]:
        """The calls of these modules, in order."""
        return [passage for passage in self.passages if any(passage.module is module for module in modules)]

    def head(self, number: int) -> Head:
        """One head by its number, with the keys and values that it may share with others."""
        given, attention = self.kernel, self.part.module
        place = attention.numbers.index(number)
        shared = place // (attention.heads // attention.key_value_heads)
        q, k, v = given["q"][:1, place, None], given["k"][:1, shared, None], given["v"][:1, shared, None]
        bias, mask = (_of_head(given[name], place) for name in ("bias", "mask"))
        if given["causal"]:
            triangle = causal_mask(q.shape[2], k.shape[2], q.device)[None, None]
            mask = triangle if mask is None else mask & triangle
        return Head(
            *(each[0, 0] for each in (q, k, v)),
            scores=(q @ k.mT * q.shape[-1] ** -0.5)[0, 0],
            bias=None if bias is None else bias[0, 0],
            mask=None if mask is None else mask.expand(1, 1, q.shape[2], k.shape[2])[0, 0],
            weights=attention_weights(q, k, mask=mask, bias=bias)[0, 0],
            mixed=given["mixed"][0, place],
            unturned=self._unturned(place, shared),
        )

    def _unturned(self, place: int, shared: int) -> tuple[Tensor, Tensor] | None:
        module = self.part.module
        if type(module.positions).rotate is Positions.rotate:
            return None
        q, k, _ = self.of(module.projection)[-1].gave.split(module.parts, dim=-1)
        return q.unflatten(-1, (module.heads, -1))[:, place], k.unflatten(-1, (module.key_value_heads, -1))[:, shared]


@contextmanager
def followed(model: nn.Module, part: Part) -> Iterator[Trace]:
    """Fills a trace with the next call of a model: its embeddings, norms and blocks, and all parts of one block.

    That block is the one of `part`. Hooks and kernel are taken off again when the block ends; the output is the
    model's own throughout.
    """
    trace = Trace(part)
    block = model.get_submodule(part.name.rpartition(".")[0])
    stacks = [module for module in model.modules() if isinstance(getattr(module, "blocks", None), nn.ModuleList)]
    watched = {*block.children(), *part.module.children()}
    for stack in stacks:
        watched |= {*stack.children(), *stack.blocks}  # type: ignore

    def passed(module: nn.Module, given: tuple[Tensor, ...], gave: Tensor) -> None:
        mine = recording in stand_ins(part.module)  # and not another thread's
        if mine and not isinstance(module, nn.Dropout):
            trace.passages.append(Passage(module, given[0][0].detach(), gave[0].detach()))

    def watching(kernel: Kernel) -> Kernel:
        def recording(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
            trace.kernel = {"q": q, "k": k, "v": v, "mixed": kernel(q, k, v, **options), **options}
            return trace.kernel["mixed"]

        return recording

    with ExitStack() as hooks:
        recording = hooks.enter_context(standing_in({part.module: watching}))[part.module]
        for module in watched:
            hooks.callback(module.register_forward_hook(passed).remove)
        yield trace


def _of_head(given: Tensor | None, place: int) -> Tensor | None:
    """[1, 1, Q, K] of a head, from what broadcasts to [B, H, Q, K]."""
    found = of_heads(given, [place])
    return None if found is None else found[(None,) * (4 - found.dim())][:1]
