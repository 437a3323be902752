"""Counts on a terminal and elsewhere."""

import io

import pytest
from rich.console import Console

from manyheads.core import log
from manyheads.train.progress import Display


@pytest.fixture
def shown(monkeypatch) -> io.StringIO:
    written = io.StringIO()
    console = Console(file=written)
    monkeypatch.setattr(log, "console", lambda: console)
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


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\rname\u2028é\tx\n"
SHOWN = r"\x1b]0;owned\x07\x1b[2J\x9b31m\x0dname" + "\u2028é\tx\n"


def test_no_escape_sequence_of_a_name_reaches_a_terminal(shown):
    log.say(HOSTILE)
    log.warn(HOSTILE)
    assert "\x1b" not in shown.getvalue()
    assert shown.getvalue().count(r"\x1b]0;owned") == 2
    stream = io.StringIO()
    terminal = log.Terminal(stream)
    print(HOSTILE, end="", file=terminal, flush=True)
    assert stream.getvalue() == SHOWN
    Console(file=terminal, force_terminal=True, color_system="standard").print("red", style="red")
    assert stream.getvalue().endswith("\x1b[31mred\x1b[0m\n")  # colours of ours stay colours


def test_a_count_with_a_total_says_it_at_each_tenth_and_not_where_it_is_quiet(shown, monkeypatch):
    for quiet in (True, False):
        monkeypatch.setattr(log, "_quiet", quiet)
        with log.counting("heads", total=20) as show:
            for done in range(21):
                show(done)
    assert shown.getvalue().splitlines() == [f"heads: {done} of 20" for done in range(2, 21, 2)]


def test_news_stay_away_where_it_is_quiet_and_warnings_do_not(shown, monkeypatch):
    monkeypatch.setattr(log, "_quiet", True)
    log.say("news")
    log.warn("mind this")
    assert shown.getvalue() == "warning: mind this\n"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_counts_and_bars_draw_on_a_terminal_in_their_colours(monkeypatch):
    written = Screen()
    monkeypatch.setattr("sys.stderr", log.Terminal(written))
    monkeypatch.setenv("TERM", "xterm")
    log.console.cache_clear()
    with log.counting("heads", total=20) as show:
        show(7)
    bar = Display(30, 0)
    bar.line("\x1b]0;owned")
    bar.close()
    log.console.cache_clear()
    assert "\x1b[2K" in written.getvalue()
    assert "heads: 7 of 20" in written.getvalue()
    assert written.getvalue().count(r"\x1b") == 1  # that of the name
