"""Counts on a terminal and elsewhere."""

import io

import pytest
from rich.console import Console

from manyheads.core import log


@pytest.fixture
def shown(monkeypatch) -> io.StringIO:
    written = io.StringIO()
    console = Console(file=written)
    monkeypatch.setattr(log, "_console", lambda: console)
    return written


def test_a_count_inside_another_is_not_shown_and_one_after_it_is(shown):
    with log.counting("heads") as outer:
        with log.counting("lines") as inner:
            inner(100_000)
        outer(100_000)
    with pytest.raises(ZeroDivisionError), log.counting("pages"):
        raise ZeroDivisionError
    with log.counting("words") as later:
        later(250_000)
    assert shown.getvalue().splitlines() == ["heads: 100,000", "words: 250,000"]
