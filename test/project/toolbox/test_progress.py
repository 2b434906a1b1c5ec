"""Whoever waits is told what is done and for how long already, on a terminal and in a log."""

import io
import re
import threading

import pytest

from toolbox.progress import Progress, duration


class Stream(io.StringIO):
    """A stream that tells when a certain text was written to it."""

    def __init__(self, *, terminal=False, until=""):
        super().__init__()
        self.seen = threading.Event()
        self._terminal = terminal
        self._until = until

    def isatty(self):
        return self._terminal

    def write(self, text):
        count = super().write(text)
        if self._until and self._until in self.getvalue():
            self.seen.set()
        return count


def test_a_log_gets_a_line_at_the_start_one_now_and_then_and_one_at_the_end():
    stream = Stream(until="3 packages")

    with Progress(stream, log_seconds=0.01).step("building alpha", expect=125) as step:
        step.note("3 packages")
        assert stream.seen.wait(5)

    lines = stream.getvalue().splitlines()
    assert lines[0] == "hack/tool: building alpha, which can take 2 min 5 s"
    assert any(re.fullmatch(r"hack/tool: building alpha, 3 packages \(\d s so far\)", line) for line in lines[1:-1])
    assert re.fullmatch(r"hack/tool: building alpha: done in \d s", lines[-1])
    assert "\r" not in stream.getvalue()


def test_a_terminal_gets_one_line_that_is_rewritten(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    stream = Stream(terminal=True, until="a/very")

    with Progress(stream).step("building alpha") as step:
        step.note("at " + "a/very/long/package/" * 20)
        assert stream.seen.wait(5)

    (live,) = re.findall(r"\r\x1b\[K(hack/tool: \d s so far, at a/very[^\r]*)\r", stream.getvalue())
    assert len(live) < 80
    assert re.search(r"\r\x1b\[Khack/tool: building alpha: done in \d s\n$", stream.getvalue())


@pytest.mark.parametrize(
    ("error", "ending"), [(ValueError, "failed after"), (KeyboardInterrupt, "stopped after")], ids=["error", "Ctrl-C"]
)
def test_the_last_line_says_when_it_did_not_end_well(error, ending):
    stream = Stream()

    with pytest.raises(error), Progress(stream).step("building alpha"):
        raise error

    assert re.search(rf"\nhack/tool: building alpha: {ending} \d s\n$", stream.getvalue())


def test_a_reader_that_is_gone_does_not_stop_the_work():
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    with Progress(Gone()).step("building alpha"):
        pass


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (226, "3 min 46 s")])
def test_durations_are_written_for_people(seconds, text):
    assert duration(seconds) == text
