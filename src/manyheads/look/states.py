"""States and gates of recurrent layers while the fused kernel runs.  Shapes:  B rows  T positions  W width  G gates"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError
from manyheads.core.log import warn
from manyheads.look.record import GROSS
from manyheads.nn.recurrent import Recurrence, States, TwoDirections


@dataclass(frozen=True)
class Unrolled:
    """One recurrent layer over the positions of its texts, which stand as the texts do, whichever way it reads."""

    module: Recurrence
    from_input: Tensor
    """[B, T, G · W]: what came from the input, with its bias."""
    before: States
    """[B, T, W] each: the hidden state that each position found, and behind it the LSTM's cell."""
    after: States
    """The same as each position left them."""

    @property
    def hidden(self) -> Tensor:
        """[B, T, W]"""
        return self.after[0]

    @property
    @torch.no_grad()
    def gates(self) -> dict[str, Tensor]:
        """[B, T, W] each, by their names; none of Elman's network, which has none."""
        return dict(zip(self.module.opens, self.module.opened(self.from_input, self.before[0])))


@contextmanager
def recorded_states(model: nn.Module) -> Iterator["StatesRecording"]:
    """Fills a table, `layers.0` to its states and gates, with the last call of each recurrent layer.

    The output still comes from the model's own kernel, bit for bit; the fused ones keep no gates, so that the formulas
    are computed beside them from the same input. Calls that go on from the state where the last one ended are joined,
    also those of a decoder that steps from position to position. One recording of a model at a time.
    """
    recording = StatesRecording(model)
    with ExitStack() as after:
        for watching in recording.watching.values():
            watching.enter(after)
        yield recording
    if recording.gross:
        warn(
            f"the kernel's states were up to {recording.largest_difference:.2g} from those of the formulas: it "
            "computes something else, and the gates recorded are not those that it used"
        )


class StatesRecording(Mapping[str, Unrolled]):
    """What was recorded: each recurrent layer by its name."""

    def __init__(self, model: nn.Module):
        self.watching = {name: _Watching(module) for name, module in recurrences(model).items()}
        for name, watching in self.watching.items():
            parent, _, direction = name.rpartition(".")
            if direction == "backward" and isinstance(both := model.get_submodule(parent), TwoDirections):
                watching.both = both

    @property
    def largest_difference(self) -> float:
        """How far the formulas' hidden states were from the kernel's where they differed most."""
        return max(each.difference for each in self.watching.values())

    @property
    def gross(self) -> bool:
        """Whether the two differ by more than rounding; states are between -1 and 1."""
        return self.largest_difference > GROSS

    def __getitem__(self, name: str) -> Unrolled:
        if not self.watching[name].steps:
            raise KeyError(name)
        return self.watching[name].unrolled()

    def __iter__(self) -> Iterator[str]:
        return (name for name, each in self.watching.items() if each.steps)

    def __len__(self) -> int:
        return sum(bool(each.steps) for each in self.watching.values())


def recurrences(model: nn.Module) -> dict[str, Recurrence]:
    """Every recurrent layer of a model by its name, in the order they stand in; a model without any is refused."""
    found = {name: module for name, module in model.named_modules() if isinstance(module, Recurrence)}
    if not found:
        raise ConfigError(f"{type(model).__name__} has no recurrent layers, so that it has no states over time")
    return found


class _Watching:
    """Keeps the steps of one layer: those that its model takes, or those that stand beside the fused kernel."""

    def __init__(self, module: Recurrence):
        self.module = module
        self.both: TwoDirections | None = None
        """What reads with it in two directions, if it is the one that reads backwards."""
        self.places: Tensor | None = None
        self.steps: list[tuple[Tensor, States, States]] = []
        self.end: States = ()
        """Where the last call ended."""
        self.stepped = False
        self.difference = 0.0

    def enter(self, after: ExitStack) -> None:
        """Watches until the stack is left."""
        module = self.module
        after.callback(module.register_forward_pre_hook(self.about_to).remove)
        after.callback(module.register_forward_hook(self.called, with_kwargs=True).remove)
        if self.both is not None:
            after.callback(self.both.register_forward_pre_hook(self.turned, with_kwargs=True).remove)
        # A decoder that steps by itself calls no module, so that hooks see nothing of it.
        self.step, module.step = module.step, self.stepping
        after.callback(module.__delattr__, "step")

    def turned(self, both: nn.Module, arguments: tuple, named: dict[str, Any]) -> None:
        """Called before both directions: what stands where when each text is read from its end."""
        self.places = named["places_BT"] if "places_BT" in named else arguments[1]

    def about_to(self, module: nn.Module, arguments: tuple) -> None:
        self.stepped = False

    @torch.no_grad()
    def called(self, module: nn.Module, arguments: tuple, named: dict[str, Any], gave: tuple[Tensor, States]) -> None:
        """Behind a call over many positions: what a fused kernel did not say is computed beside it."""
        if not self.stepped:
            written = self.module.written_out(*arguments, **named)[0]
            if written.numel():
                self.difference = max(self.difference, float((written.float() - gave[0].float()).abs().max()))
        self.end = gave[1]

    def stepping(self, from_input_BG: Tensor, states: States) -> States:
        """What stands for the layer's own step."""
        found = self.step(from_input_BG, states)
        if not self.end or not all(map(_same, states, self.end)):
            self.steps.clear()
        before, after = (tuple(each.detach() for each in given) for given in (states, found))
        self.steps.append((from_input_BG.detach(), before, after))
        self.stepped, self.end = True, found
        return found

    def unrolled(self) -> Unrolled:
        """All steps as one."""
        from_input, before, after = zip(*self.steps)
        inputs = self._placed(torch.stack(from_input, dim=1))
        found = (tuple(self._placed(torch.stack(each, dim=1)) for each in zip(*given)) for given in (before, after))
        return Unrolled(self.module, inputs, *found)

    def _placed(self, found_BTW: Tensor) -> Tensor:
        """Positions as they stand in the text."""
        if self.places is None:
            return found_BTW
        return found_BTW.gather(1, self.places[:, :, None].expand_as(found_BTW))


def _same(one: Tensor, other: Tensor) -> bool:
    return one is other or (one.shape == other.shape and torch.equal(one, other))
