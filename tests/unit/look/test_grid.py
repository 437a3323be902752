"""Labelled matrices: in a terminal, on a page, with labels that mean harm, and cut where they are too wide."""

import io
import re

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from manyheads.core.errors import ConfigError
from manyheads.look.grid import GRID_CSS, Grid, as_html, as_text, of_numbers, shades_of

SCORES = np.array([[12.0, 3.75, -10.75], [-20.0, -np.inf, 25.0]])


@pytest.fixture
def scores() -> Grid:
    return of_numbers(
        "scores", SCORES, ["die", "Katze"], ["the", "cat", "danced"], formula="Q Kᵀ", note="before scaling"
    )


def wide(columns: int, rows: int = 3) -> Grid:
    numbers = np.arange(rows * columns).reshape(rows, columns)
    return of_numbers("wide", numbers, [f"r{row}" for row in range(rows)], [f"c{each}" for each in range(columns)])


# Numbers


def test_each_cell_is_shaded_by_its_share_of_the_largest(scores):
    assert scores.cells == [["12.00", "3.75", "-10.75"], ["-20.00", "-∞", "25.00"]]
    assert scores.shades is not None
    assert scores.shades.tolist() == [[0.48, 0.15, -0.43], [-0.8, 0.0, 1.0]]
    assert shades_of(SCORES, most=5.0).min() == -1.0
    assert shades_of(np.zeros((2, 3))).tolist() == [[0.0] * 3] * 2


def test_a_matrix_keeps_all_digits_of_its_numbers():
    numbers = np.array([[1 / 3, -np.inf]])
    found = of_numbers("thirds", numbers, ["a"], ["b", "c"], digits=1)
    assert found.cells == [["0.3", "-∞"]]
    np.testing.assert_array_equal(found.numbers, numbers)
    assert Grid("words", [["x"]], ["a"], ["b"]).numbers is None


def test_what_is_no_number_has_no_colour_and_is_shown_all_the_same():
    for found in (
        of_numbers("broken", np.array([[np.nan, 2.0]]), ["a"], ["b", "c"]),
        Grid("broken", [["?", "2.00"]], ["a"], ["b", "c"], np.array([[np.nan, 1.0]])),
    ):
        assert as_text(found).plain.splitlines()[-1].split() == ["a", "?", "2.00"]
        assert as_html(found).count("--shade") == 1


def test_a_number_that_rounds_to_nothing_has_no_sign():
    found = of_numbers("a", np.array([[-0.001, np.nan, np.inf, 0.126]]), ["r"], list("abcd"), digits=2)
    assert found.cells == [["0.00", "?", "∞", "0.13"]]
    assert of_numbers("a", np.array([[0.126]]), ["r"], ["c"], digits=1).cells == [["0.1"]]


def test_labels_that_do_not_fit_the_cells_are_refused():
    with pytest.raises(ConfigError, match=r"the cells are \(1, 2\), but the labels are \(1, 3\)"):
        Grid("a", [["1", "2"]], ["r"], ["a", "b", "c"])
    with pytest.raises(ConfigError, match="the shades"):
        Grid("a", [["1", "2"]], ["r"], ["a", "b"], np.zeros((2, 1)))


# In a terminal


def test_text_has_labels_formula_and_note_in_aligned_columns(scores):
    assert as_text(scores).plain.splitlines() == [
        "scores   Q Kᵀ",
        "          the   cat  danced",
        "die     12.00  3.75  -10.75",
        "Katze  -20.00    -∞   25.00",
        "before scaling",
    ]


@pytest.mark.parametrize("width", [44, 60, 100])
def test_a_wide_matrix_shows_its_first_columns_and_its_last_and_says_so(width):
    *lines, note = as_text(wide(64), width).plain.splitlines()
    shown = [int(name) for name in re.findall(r"c(\d+)", lines[1])]
    assert shown == [*range(len(shown) - 1), 63]
    assert "…" in lines[1]
    assert "…" in lines[2]
    assert note == f"(the first {len(shown) - 1} and the last of 64 columns)"
    assert max(map(cell_len, lines)) <= width
    assert len(shown) >= width // 12


def test_one_that_fits_is_whole():
    text = as_text(wide(7), 100).plain
    assert "…" not in text
    assert "first" not in text


def test_a_long_matrix_is_cut_too():
    text = as_text(wide(2, rows=90)).plain
    assert "the first 31 and the last of 90 rows" in text
    assert "\n…\n" in text
    assert "r89" in text
    assert "r31 " not in text


def test_colours_are_for_terminals_alone(scores):
    def printed(**how) -> str:
        file = io.StringIO()
        Console(file=file, width=100, **how).print(as_text(scores))
        return file.getvalue()

    assert "\x1b" not in printed()
    assert printed(force_terminal=True, color_system="truecolor").count("48;2;") == 5  # -∞ has no colour
    assert "before scaling" in printed(force_terminal=True)


def test_labels_cannot_move_the_cursor_and_wide_characters_keep_columns_aligned():
    grid = of_numbers("a\x1b[2J", np.eye(3), ["\n", "猫猫", "\u202eabc"], ["\x1b[31m", "\t", "x" * 50])
    text = as_text(grid).plain
    assert "\x1b" not in text
    assert "\\x1b[31m" in text
    assert "\\u202e" in text
    assert len({cell_len(line) for line in text.splitlines()[1:]}) == 1
    assert "x" * 17 + "…" in text


def test_long_notes_are_wrapped():
    grid = of_numbers("a", np.eye(1), ["r"], ["c"], note="word " * 60)
    assert max(map(len, as_text(grid, 40).plain.splitlines())) <= 40


# On a page


def test_a_page_has_the_same_cells_with_colours(scores):
    page = as_html(scores)
    assert re.findall(r"<td[^>]*>([^<]*)</td>", page) == [cell for row in scores.cells for cell in row]
    assert re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', page) == scores.columns
    assert re.findall(r'<th scope="row"[^>]*>([^<]*)</th>', page) == scores.rows
    assert page.count('class="more"') == 3
    assert page.count('class="less"') == 2
    assert 'style="--shade:0.55">25.00' in page
    assert "Q Kᵀ" in page
    assert "before scaling" in page
    for name in ("--grid-more", "--grid-less", "overflow-x: auto"):
        assert name in GRID_CSS


def test_everything_on_a_page_is_escaped():
    evil = "<script>alert(1)</script>\"'&"
    grid = Grid(evil, [[evil]], [evil], [evil], np.ones((1, 1)), evil, evil)
    page = as_html(grid)
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 6
    page.encode()  # half a surrogate pair could not be written
    as_html(Grid("a", [["\ud800"]], ["\udfff"], ["c"])).encode()


def test_a_page_shows_64_columns_and_says_so():
    page = as_html(wide(200, rows=100))
    assert page.count('scope="col"') == 64
    assert page.count('scope="row"') == 64
    assert "the first 63 and the last of 100 rows, the first 63 and the last of 200 columns" in page
    assert ">c199<" in page
    assert ">c63<" not in page
    assert "the first" not in as_html(wide(64, rows=64))


def test_columns_without_names_have_no_head():
    page = as_html(Grid("a", [["1", "2"]], ["r"], ["", ""]))
    assert "<thead>" not in page
    assert as_text(Grid("a", [["1", "2"]], ["r"], ["", ""])).plain == "a\nr  1  2"
