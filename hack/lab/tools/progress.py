"""What the person who waits sees: what is being done, and for how long already.

Everything goes to one stream, standard error; standard output belongs to results. On a terminal a step is one short
line that is rewritten in place; elsewhere it is a line when it starts, one every half minute, and one when it ends, so
that a log of a silent four minutes is not mistaken for a hang.
"""

import contextlib
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

LIVE_SECONDS: Final = 0.2
LOG_SECONDS: Final = 30.0
CLEAR_LINE: Final = "\r\x1b[K"


class Step:
    """One thing that takes a while; ``note`` says how far it is."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._how_far = ""
        self._started = time.monotonic()

    def note(self, how_far: str) -> None:
        self._how_far = how_far

    def line(self, ending: str = "") -> str:
        """The line of the step: what, how far or how it ended, for how long."""
        how = ending or self._how_far
        return f"{self._title}: {how + ', ' if how else ''}{duration(time.monotonic() - self._started)}"


class Progress:
    """Writes lines for steps, one step at a time."""

    def __init__(self, stream: TextIO, *, prefix: str, log_seconds: float = LOG_SECONDS) -> None:
        self._stream = stream
        self._prefix = f"{prefix}: "
        self._live = stream.isatty()
        self._interval = LIVE_SECONDS if self._live else log_seconds

    def say(self, text: str) -> None:
        self._write(f"{CLEAR_LINE if self._live else ''}{self._prefix}{text}\n")

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Show ``what`` for as long as the block runs."""
        step, over = Step(title), threading.Event()
        if not self._live:
            self.say(title)
        ticker = threading.Thread(target=self._tick, args=(step, over), daemon=True)
        ticker.start()
        ending = "failed"
        try:
            yield step
            ending = "done"
        finally:
            over.set()
            ticker.join()
            self.say(step.line(ending))

    def _tick(self, step: Step, over: threading.Event) -> None:
        while not over.wait(self._interval):
            if self._live:
                width = shutil.get_terminal_size().columns - 1
                self._write(CLEAR_LINE + f"{self._prefix}{step.line()}"[:width])
            else:
                self.say(step.line())

    def _write(self, text: str) -> None:
        # The reader may be gone (a closed pipe); the tool is worth having all the same.
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()


def duration(seconds: float) -> str:
    """Write a duration as people do: 7 s, 2 min 5 s."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
