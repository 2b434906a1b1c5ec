"""What we tell the person who waits: what is being done, and for how long already.

Everything goes to one stream (standard error; standard output belongs to the paths). On a terminal a step is
a single line that is rewritten all the time; elsewhere it is a line when it starts, one every few seconds,
and one when it ends, so that a log of a silent four minutes is never mistaken for a hang.
"""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

LIVE_SECONDS = 0.2
LOG_SECONDS = 15.0
CLEAR_LINE = "\r\x1b[K"


class Step:
    """One thing that takes a while; ``note`` says how far it is."""

    def __init__(self, what: str, *, started: float) -> None:
        self.what = what
        self.how_far = ""
        self._started = started

    def note(self, how_far: str) -> None:
        """Say how far the step is; shown the next time its line is."""
        self.how_far = how_far

    def elapsed(self) -> str:
        """How long the step has been at it, for people."""
        return duration(time.monotonic() - self._started)

    def log_line(self) -> str:
        """The line of a step that is still at it, for a log, where anything may stand between it and the first one."""
        how_far = f", {self.how_far}" if self.how_far else ""
        return f"{self.what}{how_far} ({self.elapsed()} so far)"

    def live_line(self) -> str:
        """The same for a terminal, right below the first line; the most important comes first, as it may be cut."""
        how_far = f", {self.how_far}" if self.how_far else ""
        return f"{self.elapsed()} so far{how_far}"


class Progress:
    """Writes lines for steps, one step at a time."""

    def __init__(self, stream: TextIO, *, prefix: str = "hack/tool", log_seconds: float = LOG_SECONDS) -> None:
        self._stream = stream
        self._prefix = f"{prefix}: "
        self._live = stream.isatty()
        self._interval = LIVE_SECONDS if self._live else log_seconds

    def say(self, text: str) -> None:
        """Write a line of its own."""
        self._write(f"{CLEAR_LINE if self._live else ''}{self._prefix}{text}\n")

    @contextmanager
    def step(self, what: str, *, expect: int = 0) -> Iterator[Step]:
        """Show ``what`` for as long as the block runs; ``expect`` is how many seconds it may well take."""
        step, over = Step(what, started=time.monotonic()), threading.Event()
        self.say(f"{what}, which can take {duration(expect)}" if expect else what)
        ticker = threading.Thread(target=self._tick, args=(step, over), daemon=True)
        ticker.start()
        ending = "stopped after"
        try:
            yield step
            ending = "done in"
        except Exception:
            ending = "failed after"
            raise
        finally:
            over.set()
            ticker.join()
            self.say(f"{what}: {ending} {step.elapsed()}")

    def _tick(self, step: Step, over: threading.Event) -> None:
        while not over.wait(self._interval):
            if self._live:
                width = shutil.get_terminal_size().columns - len(self._prefix) - 1
                self._write(f"{CLEAR_LINE}{self._prefix}{step.live_line()[:width]}")
            else:
                self.say(step.log_line())

    def _write(self, text: str) -> None:
        # Whoever reads us may be gone (a closed pipe); the tool is worth having all the same.
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._interval = LOG_SECONDS


def duration(seconds: float) -> str:
    """Write a duration as people do: 7 s, 2 min 5 s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
