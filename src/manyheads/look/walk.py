"""A calculation step by step: sections of matrices, as text for a terminal or as a page that needs nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import zip_longest
from string import Template
from textwrap import wrap

from rich.cells import cell_len
from rich.text import Text

from manyheads.look.grid import FILES, GRID_CSS, WIDTH, Grid, as_html, as_text, visible

BETWEEN = 6  # columns of a terminal between two matrices side by side

PAGE, WALK_CSS = ((FILES / name).read_text(encoding="utf-8") for name in ("walk.html", "walk.css"))


@dataclass(frozen=True)
class Section:
    """Some steps of a calculation under one heading."""

    title: str
    text: str = ""
    rows: list[tuple[Grid, ...]] = field(default_factory=list)
    """The steps in order; those of one row are shown side by side, where there is place."""


@dataclass(frozen=True)
class Walk:
    """A calculation, step by step."""

    title: str
    introduction: str
    sections: list[Section]

    @property
    def steps(self) -> list[Grid]:
        """Every matrix, in order."""
        return [grid for section in self.sections for row in section.rows for grid in row]

    def text(self, width: int = WIDTH) -> str:
        """All of it as lines of text."""
        return self.shown(width).plain

    def shown(self, width: int = WIDTH) -> Text:
        """The same with the colours that a rich console prints on a terminal that has some."""
        blocks = [_paragraph(self.title, width, style="bold"), _paragraph(self.introduction, width)]
        for number, section in enumerate(self.sections, start=1):
            heading = f"{number}. {visible(section.title)}"
            blocks.append(Text(f"{heading}\n{'─' * cell_len(heading)}", style="bold"))
            blocks.append(_paragraph(section.text, width))
            blocks += [_beside(row, width) for row in section.rows]
        return Text("\n\n", no_wrap=True).join(block for block in blocks if block.plain)

    def html(self) -> str:
        """A page of its own, which asks nothing of the network, in the colours of the reader's choice."""
        return Template(PAGE).substitute(title=_escaped(self.title), content=self._repr_html_())

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        sections = list(enumerate(self.sections, start=1))
        links = "".join(f'<li><a href="#step-{number}">{_escaped(each.title)}</a></li>' for number, each in sections)
        parts = [
            f"<style>{GRID_CSS}\n{WALK_CSS.strip()}</style>",
            f"<h1>{_escaped(self.title)}</h1><p>{_escaped(self.introduction)}</p><nav><ol>{links}</ol></nav>",
        ]
        for number, section in sections:
            text = f"<p>{_escaped(section.text)}</p>" if section.text else ""
            rows = "".join(f'<div class="beside">{"".join(map(as_html, row))}</div>' for row in section.rows)
            heading = f"<h2>{number}. {_escaped(section.title)}</h2>"
            parts.append(f'<section id="step-{number}">{heading}{text}{rows}</section>')
        return f'<main class="walk">{"".join(parts)}</main>'


def _escaped(text: str) -> str:
    return escape(visible(text))


def _paragraph(text: str, width: int, style: str = "") -> Text:
    return Text("\n".join(wrap(visible(text), width)), style=style)


def _beside(grids: Sequence[Grid], width: int) -> Text:
    """Matrices side by side if they fit, else one below the other."""
    share = (width - BETWEEN * (len(grids) - 1)) // max(len(grids), 1)
    narrow = [as_text(grid, share) for grid in grids]
    parts = [text.split("\n", allow_blank=True) for text in narrow]
    sizes = [max(line.cell_len for line in lines) for lines in parts]
    if len(grids) < 2 or max(sizes) > share or any(text.plain.endswith("columns)") for text in narrow):
        return Text("\n\n").join(as_text(grid, width) for grid in grids)
    lines = []
    for together in zip_longest(*parts, fillvalue=Text()):
        line = Text()
        for part, size in zip(together, sizes):
            line.append_text(part)
            line.append(" " * (size - part.cell_len + BETWEEN))
        line.rstrip()
        lines.append(line)
    return Text("\n").join(lines)
