"""The bar of commands that take their time."""

import io

from django_mcp.management.base import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def test_a_person_sees_how_far_it_is_and_nothing_is_left_of_it() -> None:
    terminal = Terminal()
    progress = Progress(terminal, Clock())
    progress("sessions", 6, 12)
    progress("logged calls", 1_500, 1_000)
    progress.close()
    first, second, blank, end = terminal.getvalue().split("\r")[1:]
    assert first == "[############............] sessions: 6 of 12"
    assert second == "[########################] logged calls: 1,500 of 1,500"
    assert (blank, end) == (" " * len(second), "")


def test_a_shorter_line_covers_a_longer_one() -> None:
    terminal = Terminal()
    progress = Progress(terminal, Clock())
    progress("logged calls", 1_000, 1_000)
    progress("tasks", 0, 0)
    first, second = terminal.getvalue().split("\r")[1:]
    assert len(first) == len(second)


def test_what_is_over_at_once_draws_nothing() -> None:
    terminal = Terminal()
    progress = Progress(terminal, lambda: 0.0)
    progress("sessions", 6, 12)
    progress.close()
    assert terminal.getvalue() == ""


def test_a_file_gets_no_bar() -> None:
    file = io.StringIO()
    progress = Progress(file, Clock())
    progress("sessions", 6, 12)
    progress.close()
    assert file.getvalue() == ""
