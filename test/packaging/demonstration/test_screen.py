"""How jobs are shown while they change: what the test of ``hack/demo`` cannot see."""

import io
from dataclasses import replace

import pytest

from demonstration import screen
from demonstration.picture import Note, Row

ROW = Row("steady", "Running", "2/3", 1, "2 Running")
NOTE = Note("u", 1, "steady", "Why", "What happened")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    return Terminal()


def test_in_a_pipe_a_job_and_a_note_have_a_line_for_each_change():
    pipe = io.StringIO()
    shown = screen.screen_for(pipe)
    for row, note in ((ROW, NOTE), (ROW, NOTE), (replace(ROW, ready="3/3", restarts=2), replace(NOTE, count=2))):
        shown.show([row], [note], seconds=7)

    assert sorted(pipe.getvalue().splitlines()) == [
        *["   7 s  steady   Running    2/3 ready, 1 restart, pods: 2 Running"],
        *["   7 s  steady   Running    3/3 ready, 2 restarts, pods: 2 Running"],
        *["   7 s  steady   Why: What happened"] * 2,
    ]


def test_on_a_terminal_the_table_is_drawn_over_the_last_one_when_something_has_changed(terminal):
    shown = screen.screen_for(terminal)
    shown.show([ROW], [], seconds=0)
    begin = terminal.tell()
    shown.show([replace(ROW, ready="3/3")], [NOTE], seconds=4)
    shown.show([replace(ROW, ready="3/3")], [NOTE], seconds=5)

    assert terminal.getvalue()[begin:] == (
        "\x1b[3F\x1b[J"
        "   4 s  steady   Why: What happened\n"
        "\n"
        "JOB     STATE    READY  RESTARTS  PODS\n"
        "steady  Running  3/3    1         2 Running\n"
    )


def test_a_table_never_wraps_around(terminal):
    screen.screen_for(terminal).show([replace(ROW, pods="x" * 100)], [], seconds=0)

    assert max(len(line) for line in terminal.getvalue().splitlines()) < 60
