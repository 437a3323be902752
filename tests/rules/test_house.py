"""Rules of the house: what may be imported where, how long a file may be, how soon help answers."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "manyheads"
FILES = sorted(SOURCE.rglob("*.py"))
TOOLS = sorted((ROOT / "tools").rglob("*.py"))
HEAVY = ("torch", "numpy", "safetensors", "tokenizers", "sacrebleu", "matplotlib", "sklearn", "scipy", "seqeval")


def tool(name: str) -> str:
    """A program of this environment or of the path."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        pytest.skip(f"{name} is not installed: pip install 'manyheads[dev]'")
    return found


def passes(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}"


def runs(script: str) -> None:
    passes(sys.executable, "-c", script)


def test_help_answers_soon_since_no_command_imports_what_is_heavy_for_it():
    """All of them, those of `train` too, in one process, which would remember the first that does."""
    runs(f"""
import contextlib, io, sys
from typer.main import get_command
from manyheads.cli.main import app, main

def below(command, *names):
    yield names
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from below(command.get_command(None, name), *names, name)

commands = [*below(get_command(app))]
assert {{("train", "translate"), ("train", "answer"), ("generate",), ()}} < {{*commands}}
assert "rich" not in sys.modules  # only what is shown is rich
for command in commands:
    shown = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(shown):
        main([*command, "--help"])
    assert "Usage" in shown.getvalue(), command
    heavy = [name for name in {HEAVY!r} if name in sys.modules]
    assert not heavy, f"{{command}} imports {{heavy}}"
import manyheads.nn.layers
assert "torch" in sys.modules  # and the test can tell
""")


def test_importing_the_package_imports_no_torch_and_its_names_resolve():
    runs("""
import sys
import manyheads
assert "torch" not in sys.modules
assert dir(manyheads) == sorted([*manyheads.__all__, "__version__"])
for name in manyheads.__all__:
    assert getattr(manyheads, name).__name__ == name
    assert name.endswith("Config") or getattr(manyheads, name).__doc__
import pydoc
shown = pydoc.render_doc(manyheads, renderer=pydoc.plaintext)
assert all(name in shown for name in ("Translator", "look_inside", "generate(self, prompt: str = ''"))
from manyheads import *
assert "torch" in sys.modules
try:
    manyheads.Nothing
except AttributeError as error:
    assert "Nothing" in str(error)
else:
    raise AssertionError("a name that is not there")
""")


def test_imports_only_point_down():
    passes(tool("lint-imports"), "--no-cache")


def test_style():
    passes(tool("ruff"), "check", "src", "tests", "tools")


def test_types():
    done = subprocess.run([tool("pyright")], cwd=ROOT, capture_output=True, text=True, check=False)
    if not re.search(r"^\d+ errors", done.stdout, flags=re.MULTILINE):
        pytest.skip(f"pyright could not run; it fetches its own parts from the network once: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stdout[-3000:]


def test_the_types_ship_with_the_package():
    """The wheel is all of the package's folder, and so the mark that says that it is typed."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel == {"packages": ["src/manyheads"]}
    assert (SOURCE / "py.typed").is_file()


@pytest.mark.parametrize("path", [*FILES, *TOOLS], ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_can_be_read_in_one_sitting(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 400


def names_used(path: Path) -> set[str]:
    """Modules imported and dotted names called in a file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Call):
            found.add(ast.unparse(node.func))
    return found


UNSAFE = re.compile(
    r"(c?pickle|_pickle|dill|joblib|shelve|marshal)(\..*)?|torch\.(load|save|package.*)|eval|exec|np\.load"
)


def test_opening_a_file_never_runs_code():
    used = {str(path.relative_to(ROOT)): {n for n in names_used(path) if UNSAFE.fullmatch(n)} for path in FILES}
    assert not {path: names for path, names in used.items() if names}


def test_and_that_test_can_tell(tmp_path):
    (tmp_path / "a.py").write_text("import pickle\nfrom torch import load\nimport torch\ntorch.load('x')\neval('1')\n")
    found = {name for name in names_used(tmp_path / "a.py") if UNSAFE.fullmatch(name)}
    assert found == {"pickle", "torch.load", "eval"}


def test_only_the_command_line_knows_argv():
    knowing = [path.relative_to(SOURCE).parts[0] for path in FILES if "sys.argv" in path.read_text(encoding="utf-8")]
    assert set(knowing) <= {"cli"}
