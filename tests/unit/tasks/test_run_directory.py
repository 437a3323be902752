"""What a run makes, what --overwrite deletes of it, and what becomes of a run that was interrupted while it began."""

from pathlib import Path

import pytest

from manyheads.core.errors import CheckpointError
from manyheads.core.files import beside
from manyheads.core.locks import LOCK
from manyheads.tasks.run_directory import PREPARED, prepared_aside, recipe_file, run_is_new, take_over

MADE = [
    *("recipe.toml", "metrics.jsonl", "look.html", "reliability.png", "tensorboard/events.out.tfevents.1.host.2.0"),
    *("checkpoints/step-00000012/state.json", "checkpoints/step-00000012/model.safetensors"),
    *("checkpoints/.step-00000013.manyheads-unfinished/model.safetensors", "tokenizer/tokenizer.json"),
    *("data/train/ids.values", "data/train/ids.offsets", "data/train/store.json", "data/valid.jsonl", LOCK),
    *("model/config.json", "model/model.safetensors", "model/README.md", "model/1_Pooling/config.json"),
]
OTHERS = [
    *("thesis.tex", "recipe.toml.previous", "notes/a.md", "model.previous/config.json", "data/train/corpus.en"),
    *("checkpoints/step-00000012.bak/state.json", "checkpoints/step-00000012-backup/state.json"),
    *("checkpoints/step-00000012/notes.txt", "model/model.gguf", "data/my.tsv", "tensorboard/x.png", ".hidden"),
]


def made(run: Path, *more: str) -> Path:
    for name in (*MADE, *more):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text(f"old {name}")
    return run


def files(run: Path) -> dict[str, str]:
    return {path.relative_to(run).as_posix(): path.read_text() for path in run.rglob("*") if path.is_file()}


NEW = {"recipe.toml": "new", "data/train/store.json": "new", "tokenizer/tokenizer.json": "new"}


def prepare(run: Path) -> None:
    with prepared_aside(run) as aside:
        for name, content in NEW.items():
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            (aside / name).write_text(content)


def test_a_run_directory_is_never_overwritten_unasked(tmp_path):
    run, foreign, empty = tmp_path / "run", tmp_path / "foreign", tmp_path / "empty"
    for directory in (run, foreign, empty):
        directory.mkdir()
    (run / "recipe.toml").touch()
    (foreign / "thesis.tex").touch()
    assert run_is_new(tmp_path / "new", resume=False, overwrite=False)
    assert run_is_new(empty, resume=False, overwrite=False)
    assert run_is_new(run, resume=True, overwrite=False) is False
    with pytest.raises(CheckpointError, match="run exists; go on with --resume, start anew with --overwrite"):
        run_is_new(run, resume=False, overwrite=False)
    with pytest.raises(CheckpointError, match="holds no run to go on with"):
        run_is_new(empty, resume=True, overwrite=False)
    with pytest.raises(CheckpointError, match="give one of them"):
        run_is_new(run, resume=True, overwrite=True)
    for resume in (True, False):
        with pytest.raises(CheckpointError, match="foreign is not a run directory"):
            run_is_new(foreign, resume=resume, overwrite=not resume)
        with pytest.raises(CheckpointError, match="is a file; give another --out"):
            run_is_new(foreign / "thesis.tex", resume=resume, overwrite=not resume)
    assert run_is_new(run, resume=False, overwrite=True)
    assert (run / "recipe.toml").exists()  # it is only deleted once the data of the new one has been read


@pytest.mark.parametrize("other", OTHERS)
def test_overwrite_refuses_where_there_is_more_than_a_run_makes_and_names_it(tmp_path, other):
    run = made(tmp_path / "run")
    assert run_is_new(run, resume=False, overwrite=True)
    before = files(made(run, other))
    top = other.split("/")[0]
    named = other if top in ("data", "model", "checkpoints", "tensorboard") else top
    with pytest.raises(CheckpointError, match=f"also holds {named}; move that away or give another --out"):
        run_is_new(run, resume=False, overwrite=True)
    assert run_is_new(run, resume=True, overwrite=False) is False
    assert files(run) == before


def test_only_a_few_others_are_named(tmp_path):
    run = made(tmp_path / "run", *OTHERS)
    with pytest.raises(CheckpointError, match=r"also holds \.hidden, [^,]*, [^,]* and \d+ more; move"):
        run_is_new(run, resume=False, overwrite=True)


def test_a_new_run_takes_the_place_of_all_that_the_old_one_made_and_of_nothing_else(tmp_path):
    others = [name for name in OTHERS if not name.startswith("data/")]  # in whose place there is a new one
    run = made(tmp_path / "run", *others)
    prepare(run)
    assert files(run) == {**NEW, **{name: f"old {name}" for name in (*others, LOCK)}}


@pytest.mark.parametrize("error", [CheckpointError, OSError, KeyboardInterrupt])
def test_a_run_that_cannot_be_prepared_leaves_the_old_one_as_it_was(tmp_path, error):
    run = made(tmp_path / "run")
    before = files(run)

    def fail():
        with prepared_aside(run) as aside:
            (aside / "data").mkdir()
            raise error

    with pytest.raises(error):
        fail()
    assert files(run) == before
    assert not beside(run / PREPARED, "unfinished").exists()


class Killed(BaseException):
    pass


def test_taking_over_can_be_interrupted_anywhere_and_goes_on(tmp_path, monkeypatch):
    """Whichever of the files it had come to."""
    operations = ("unlink", "rmdir", "replace")
    for count in range(1, 100):
        left, run = count, made(tmp_path / str(count) / "run")

        def counted(self, *arguments, done):
            nonlocal left
            left -= 1
            if not left:
                raise Killed
            return done(self, *arguments)

        with monkeypatch.context() as patched:
            for name in operations:
                done = getattr(Path, name)
                patched.setattr(Path, name, lambda self, *a, done=done: counted(self, *a, done=done))
            try:
                prepare(run)
            except Killed:
                pass
            else:
                break
        assert (run / PREPARED).exists()
        if recipe_file(run).parent.name == PREPARED:
            assert recipe_file(run).read_text() == "new"
        assert run_is_new(run, resume=True, overwrite=False) is False
        take_over(run)
        assert files(run) == {**NEW, LOCK: f"old {LOCK}"}
    assert 20 < count < 99


def test_a_run_that_was_killed_before_it_had_a_recipe_can_be_begun(tmp_path):
    (tmp_path / LOCK).touch()
    beside(tmp_path / PREPARED, "unfinished").mkdir()
    for overwrite in (False, True):
        assert run_is_new(tmp_path, resume=False, overwrite=overwrite)
    prepare(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"recipe.toml", "data", "tokenizer", LOCK}


def test_what_was_being_prepared_when_it_was_killed_does_not_stay(tmp_path):
    run = made(tmp_path / "run")
    before = files(run)
    (beside(run / PREPARED, "unfinished") / "data").mkdir(parents=True)
    take_over(run)
    assert files(run) == before
    assert not beside(run / PREPARED, "unfinished").exists()
