"""A task is one object: all that a job brings to the house, from its recipe to its model card.

A task is a folder and a line in TASKS. Its `recipe.py` says, without torch, what there is to choose, and so makes the
flags of `manyheads train` and `evaluate`; `data.py` makes examples of files and stored rows of examples; `training.py`
has its `TASK`, what a run follows; `use.py` its `PREDICTOR`, what a user calls. `run.py` does all that tasks share.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from manyheads.core.configs import read_toml
from manyheads.core.errors import ConfigError
from manyheads.tasks.sections import File as File
from manyheads.tasks.sections import Files as Files
from manyheads.tasks.sections import FineTune as FineTune
from manyheads.train.config import TrainConfig

if TYPE_CHECKING:
    from torch import Tensor, nn

    from manyheads.data.batches import Batches
    from manyheads.look.walk import Section, Walk
    from manyheads.tasks.inside.forward import ForwardPass
    from manyheads.tasks.inside.importance import Measure
    from manyheads.tasks.metrics import Scores
    from manyheads.tasks.proofs.selfcheck import Finding
    from manyheads.train.objectives import Loss

TASKS = {
    name: f"manyheads.tasks.{name}"
    for name in (
        *("translate", "language", "masked", "classify", "tag", "parse", "brackets", "similarity", "answer", "vectors"),
        *("images", "caption", "ask"),
    )
}


def lazily(module: str, name: str) -> Callable[[], Any]:
    """Makes the default of a section whose class needs torch, once there is one to be made."""
    return lambda: getattr(import_module(module), name)()


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that a run follows from; a subclass says what it trains, and has its sections for fields.

    Sections are data, fine_tune where there is one, model and train; the first two are flags of `manyheads train`.
    """

    presets: ClassVar[str]
    """The sizes that --preset takes, for a person."""
    try_next: ClassVar[str]
    """What to do with a trained model; {out} is the run."""

    task: str
    """What is trained."""

    def __post_init__(self):
        refuse_other_task(self.task, type(self).task)


@dataclass(frozen=True, kw_only=True)
class FineTuningRecipe(Recipe):
    """The recipe of what stands on top of an encoder."""

    presets = "bert_tiny, bert_mini, bert_small, bert_medium, bert_base or bert_large, where no --model is given"

    data: Any
    fine_tune: FineTune = field(default_factory=FineTune)
    model: Any = field(default_factory=lazily("manyheads.models.bert", "BertConfig"))
    train: TrainConfig = field(default_factory=TrainConfig)


def refuse_other_task(found: Any, task: str) -> None:
    """A recipe is for one task."""
    if found != task:
        raise ConfigError(f"this recipe trains {found}, not {task}: manyheads train {found} …")


def refuse_below(section: str, config: object, least: int, *names: str) -> None:
    """Numbers of a section that are set must be at least so large."""
    for name in names:
        value = getattr(config, name)
        if value is not None and value < least:
            raise ConfigError(f"{section}.{name} is {value}; it must be at least {least}")


def refuse_other_family(family: str, model: object, families: dict[str, str]) -> None:
    """A family must be known, and the sizes given must be its own; `families` names the class of each one's sizes."""
    if family not in families:
        raise ConfigError(f"family is '{family}'; it can be {' or '.join(families)}")
    if type(model).__name__ != families[family]:
        raise ConfigError(f"family is {family}, but the sizes are another's; choose it by --preset instead")


@dataclass(frozen=True)
class Asked:
    """What was asked of a new run, in a recipe's file, in flags and in assignments, before there is a recipe."""

    preset: str | None
    table: dict[str, Any]
    """The recipe's file, without its preset."""
    flags: dict[str, dict[str, Any]]
    """By section and field."""
    assignments: tuple[str, ...]
    pre_trained: str | None

    def names(self, section: str, field: str) -> bool:
        """Whether somebody asked for a value of this field."""
        assigned = any(each.partition("=")[0].strip() == f"{section}.{field}" for each in self.assignments)
        return assigned or any(field in place.get(section, {}) for place in (self.table, self.flags))


class Task:
    """A job: its class says what is known before any work, an instance follows one recipe through a run.

    As data goes: `read` files, train a `processor` where none is given, `store` rows, `open` them, `batches`, `loss`.
    """

    Recipe: ClassVar[Any]
    """The class of its recipe."""
    Processor: Any
    """What stands between data and the model, such as a tokenizer: it is loaded from a directory, and saved in one."""
    network: Any
    """The class of the model, or of its body, which takes the sizes alone."""
    unit: str = "tokens"
    """What a loss is divided by the number of, and speed is counted in."""
    metrics: tuple[str, ...]
    """What validation gives that a model can be best by."""
    from_processor: tuple[str, ...] = ("vocabulary",)
    """Fields of the model's sizes that follow from the processor."""
    may_differ: ClassVar[tuple[str, ...]] = ("dropout", "attention_dropout", "inner_dropout")
    """Fields of a pre-trained model's sizes that may be others when it is fine-tuned."""

    # For tasks with a preset for one's own data and a sample for those who have none.
    presets: ClassVar[Collection[str]] = ()
    """The names that --preset takes."""
    usual_preset: ClassVar[str] = ""
    own_data: ClassVar[tuple[str, ...]] = ()
    """Flags that name data of one's own."""

    def __init__(self, recipe: Any):
        self.recipe = recipe
        self.run = Path()
        self.processor: Any = None
        self.train: Any = None
        """The stored rows to learn from."""
        self.valid: Any = None
        """Those to validate on."""
        self.carried: dict[str, Tensor] = {}
        """What the loss of one batch leaves to that of the next, kept with each checkpoint."""

    @classmethod
    def begin(cls, asked: Asked) -> Any:
        """The recipe that files, flags and assignments change."""
        if asked.preset or asked.table or any(asked.flags.get("data", {}).get(name) for name in cls.own_data):
            return cls.preset(asked.preset or cls.usual_preset)
        return cls.sample()

    @classmethod
    def preset(cls, name: str) -> Any:
        """A published size with training to match."""
        raise NotImplementedError

    @classmethod
    def sample(cls) -> Any:
        """What is trained where nothing is said at all."""
        return cls.Recipe()

    @classmethod
    def blank(cls, table: dict[str, Any]) -> Any:
        """What a run's own recipe is read over when it goes on."""
        return cls.Recipe()

    @classmethod
    def complete(cls, begun: Any, change: Callable[[Any], Any], asked: Asked) -> Any:
        """The recipe once everything asked for is changed in it."""
        return change(begun)

    def check(self) -> None:
        """Refuses what cannot be before anything is written."""

    def pre_trained(self, *, begun: bool) -> tuple[Any, Any]:
        """A pre-trained body and its processor, where the run begins with one; `begun` says that it is past that."""
        return None, None

    def read(self) -> Any:
        """What the files hold, checked; large files may be read again whenever that is gone through."""
        raise NotImplementedError

    def train_processor(self, examples: Any) -> Any:
        """A processor made for these examples."""
        raise NotImplementedError

    def store(self, examples: Any, directory: Path) -> None:
        """Lays all that training needs down in a directory, which becomes the run's when it is whole."""
        raise NotImplementedError

    def open(self, directory: Path) -> None:
        """Finds what was stored: `train`, `valid` and whatever else the task needs of it."""
        raise NotImplementedError

    def sizes(self) -> Any:
        """The model's sizes, with what follows from the processor."""
        found = {
            name: len(self.processor) if name == "vocabulary" else getattr(self.processor, name)
            for name in self.from_processor
        }
        return replace(self.recipe.model, **found)

    def build(self, body: Any) -> "nn.Module":
        """The model, with the pre-trained body if there is one."""
        return self.network(self.sizes())

    def batches(self) -> "Batches":
        """All batches of the training data, in an order fixed by seed and epoch."""
        return self.batches_of(self.train, seed=self.recipe.train.seed, shuffle=True)

    def valid_batches(self) -> "Batches":
        """Those of the validation data, always the same."""
        return self.batches_of(self.valid, seed=0, shuffle=False)

    def batches_of(self, store: Any, *, seed: int, shuffle: bool) -> "Batches":
        """All batches of stored rows."""
        raise NotImplementedError

    def loss(self, model: "nn.Module", batch: Any) -> "Loss":
        """The objective."""
        raise NotImplementedError

    def learn(self, model: "nn.Module", batch: Any, rate: float) -> "tuple[Tensor, Tensor]":
        """A step by the task's own optimizer: the likelihood of the batch, and a gradient's norm."""
        raise NotImplementedError

    def validate(self, model: "nn.Module") -> dict[str, float]:
        """Scores on validation data: at least `loss`."""
        raise NotImplementedError

    def card(self, which: str, scores: dict[str, float]) -> str:
        """README.md of the model directory; `which` says which weights these are."""
        raise NotImplementedError

    def keep(self, model: "nn.Module", which: str, scores: dict[str, float]) -> None:
        """Saves the best model so far."""
        from manyheads.interop.directory import save_model

        save_model(self.run / "model", model, self.processor, self.card(which, scores))


class Predictor:
    """A trained model with its processor, ready to use: what a user calls, and what others look into it by.

    A task may leave out what it has no use for; it is then refused with a sentence.
    """

    what: ClassVar[str]
    """What the model is, with its article."""
    kinds: ClassVar[tuple[type, ...]]
    """The classes of its models."""
    scored_on: ClassVar[type]
    """What it is scored on and how: a dataclass whose fields are flags of `manyheads evaluate`."""
    ranked_by: ClassVar[tuple[str, ...]] = ("loss",)
    """The scores that its heads can be ranked by, the first unless another is asked for."""
    commands: ClassVar[tuple[str, ...]] = ()
    """What can be typed for it that is not for every kind; {model} is its directory."""
    walked: ClassVar[tuple[type, ...]] = ()
    """Models without attention or recurrence that have a walk of their own."""
    continues: ClassVar[bool] = False
    """Whether it can go on from a text."""
    sees: ClassVar[bool] = False
    """Whether what it reads first is an image."""
    exact: ClassVar[dict[str, Any]] = {}
    """How it is loaded for numbers that are compared."""

    def __init__(self, model: Any, tokenizer: Any):
        self.model, self.tokenizer = model.eval(), tokenizer
        self.device = next(model.parameters()).device
        self.path: Path | None = None
        """The directory that it was loaded from."""

    def __repr__(self) -> str:
        from manyheads.tasks.card import in_a_line

        return in_a_line(self)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto") -> Self:
        """Opens a run directory, a model directory of ours, or one of transformers as it is."""
        from manyheads.interop.directory import load_model
        from manyheads.ops.device import pick_device

        model, tokenizer = load_model(Path(path), kinds=cls.kinds)
        found = cls(model.to(pick_device(device)), tokenizer)
        found.path = Path(path)
        return found

    @classmethod
    def opens(cls, path: Path) -> bool:
        """Whether a directory of one of its kinds is for it; a few kinds are for two jobs."""
        return True

    def given(self, files: Files, flags: str = "--data, a file as it is trained on") -> Files:
        """The files that it is scored on, without which there is nothing to do."""
        if not files:
            raise ConfigError(f"there is nothing to score {self.what} on: give {flags}")
        return files

    def evaluate(self, asked: Any) -> "Scores":
        """How good it is; `asked` is what `scored_on` says."""
        raise ConfigError(f"{self.what} is not evaluated by this command")

    def measure(self, asked: Any, by: str | None) -> "Measure":
        """The one number that heads are ranked by."""
        raise ConfigError(f"the heads of {self.what} are not ranked")

    def forward(self, text: Any, second: str | None, tokens: int) -> "ForwardPass":
        """A text, or two, or an image, as the model reads them."""
        raise ConfigError(f"{self.what} reads no text that could be looked at")

    def conclusion(self, read: "ForwardPass", output: "Tensor", count: int) -> "Section":
        """What the model's output means, as the end of a walk; `count` candidates are shown."""
        raise ConfigError(f"{self.what} is not walked through")

    def own_walk(self, read: "ForwardPass") -> "Walk":
        """The whole walk, of a model without attention."""
        raise ConfigError(f"{type(self.model).__name__} has no attention to walk through")

    def selfcheck(self, sentences: int, beam: int) -> "list[Finding]":
        """The claims that the model makes of itself, checked."""
        raise ConfigError(f"{self.what} makes no claims that could be checked")


def recipe_of(name: str) -> type[Recipe]:
    """The recipe of a task, without torch."""
    return _module(name, "recipe").RECIPE


def evaluations() -> dict[str, type]:
    """What each task's models are scored on, without torch."""
    return {name: _module(name, "recipe").Evaluation for name in TASKS}


def task_of(name: str) -> type[Task]:
    """The task of a name."""
    return _module(name, "training").TASK


def predictors() -> Iterator[type[Predictor]]:
    """What users call, of every task."""
    return (_module(name, "use").PREDICTOR for name in TASKS)


def predictor_of(path: str | Path) -> type[Predictor]:
    """What a user calls for the model in a directory; a file can only be one of word vectors."""
    from manyheads.interop.directory import saved_kind

    if Path(path).is_file():
        return _module("vectors", "use").PREDICTOR
    file = Path(path) / "recipe.toml"
    trained = read_toml(file).get("task") if file.is_file() else None  # two tasks may train one kind of model
    if trained in TASKS:
        return _module(trained, "use").PREDICTOR
    kind = saved_kind(Path(path))
    found = next((each for each in predictors() if kind in each.kinds and each.opens(Path(path))), None)
    if found is None:
        tasks = [name for name in TASKS if getattr(task_of(name), "network", None) is kind]
        use = f"fine-tune it with manyheads train {tasks[0]} --model {path}" if tasks else "no task knows it"
        raise ConfigError(f"{path} holds a {kind.__name__} with nothing on top that answers; {use}")
    return found


def open_predictor(path: str | Path, *, device: str = "auto") -> Predictor:
    """The model in a directory, whatever it is for, in full precision."""
    kind = predictor_of(path)
    return kind.load(path, device=device, **kind.exact)


def evaluate(path: str | Path, given: dict[str, Any], *, device: str = "auto") -> "Scores":
    """The scores of the model in a directory; `given` are fields of what it is `scored_on`."""
    asked = evaluation(predictor_of(path), given, str(path))
    return open_predictor(path, device=device).evaluate(asked)


def evaluation(kind: type[Predictor], given: dict[str, Any], what: str) -> Any:
    """What was asked as a predictor takes it; what it has no use for is refused by its flag."""
    flags = {field.name: f"--{field.name.replace('_', '-')}" for field in fields(kind.scored_on)}
    for name in given:
        if name not in flags:
            known = ", ".join(flags.values())
            raise ConfigError(f"{what} is {kind.what}, which is not scored with --{name}; it takes {known}")
    return kind.scored_on(**given)


def _module(name: str, part: str) -> Any:
    return import_module(f"{TASKS[name]}.{part}")
