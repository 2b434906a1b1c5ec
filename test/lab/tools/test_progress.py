"""The person who waits sees what is done and for how long already, on a terminal and in a log."""

import io
import re
import threading

import pytest

from lab.tools import progress
from lab.tools.progress import Progress


class Stream(io.StringIO):
    """A stream that notices when a certain text was written to it."""

    def __init__(self, *, terminal=False, until):
        super().__init__()
        self.is_written = threading.Event()
        self._terminal = terminal
        self._until = until

    def isatty(self):
        return self._terminal

    def write(self, text):
        count = super().write(text)
        if self._until in self.getvalue():
            self.is_written.set()
        return count


def test_a_log_gets_a_line_at_the_start_one_now_and_then_and_one_at_the_end():
    stream = Stream(until="3 packages")

    with Progress(stream, prefix="hack/tool", log_seconds=0.01).step("building alpha") as step:
        step.note("3 packages")
        assert stream.is_written.wait(30)

    first, *between, last = stream.getvalue().splitlines()
    assert first == "hack/tool: building alpha"
    assert all(re.fullmatch(r"hack/tool: building alpha: (3 packages, )?\d s", line) for line in between)
    assert re.fullmatch(r"hack/tool: building alpha: done, \d s", last)
    assert "\r" not in stream.getvalue()


def test_a_terminal_gets_one_short_line_that_is_rewritten_in_place(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(progress, "LIVE_SECONDS", 0.01)
    stream = Stream(terminal=True, until="packages")

    with Progress(stream, prefix="hack/tool").step("building alpha") as step:
        step.note("packages" * 20)
        assert stream.is_written.wait(30)

    assert stream.getvalue().count("\n") == 1
    lines = stream.getvalue().split(progress.CLEAR_LINE)[1:]
    assert all(len(line) < 60 for line in lines)
    assert re.fullmatch(r"hack/tool: building alpha: done, \d s\n", lines[-1])


def test_the_last_line_says_when_it_did_not_end_well():
    stream = io.StringIO()

    with pytest.raises(KeyboardInterrupt), Progress(stream, prefix="hack/tool").step("building alpha"):
        raise KeyboardInterrupt

    assert re.search(r"\nhack/tool: building alpha: failed, \d s\n$", stream.getvalue())
