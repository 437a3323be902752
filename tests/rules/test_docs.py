"""What the documents say is there and runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


def test_what_the_pages_import_is_there():
    pages = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for line in sorted(set(re.findall(r"^from manyheads\S* import [\w, ]+", pages, re.MULTILINE))):
        exec(line, {})


def test_the_parts_can_be_used_as_the_readme_says():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    parts = [block for block in blocks if "recorded_attention" in block]
    assert len(parts) == 1
    code = parts[0] + "\nassert weights[''].shape == (2, 3, 5, 5), weights\n"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_option_in_the_docs_exists():
    from typer.main import get_command

    from manyheads.cli.main import app

    known, groups = {"--help"}, [get_command(app)]
    for command in groups:
        names = command.list_commands(None) if hasattr(command, "list_commands") else ()
        groups += [command.get_command(None, name) for name in names]
        known |= {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    pages = [path for path in ROOT.glob("docs/*.md") if path.name not in ("results.md", "tour.md")]
    assert len(pages) > 10
    for page in (ROOT / "README.md", *pages):
        lines = page.read_text(encoding="utf-8").splitlines()
        used = {
            option
            for line in lines
            if not any(
                other in line for other in ("pip ", "tools.shapes", "ct2-", "tensorboard --", "benchmarks/", "lm_eval ")
            )
            for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", line)
        }
        assert used - known == set(), page
        assert len(used) > 5  # and the test can tell
