"""The command line of ``hack/pictures demo``: runs the demo's command in a terminal of its own, and draws its end.

Nothing is made up: what the terminal shows after the result is exported as it is, but for lines that are cut at its
width.
"""

import argparse
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from demonstration import freshness, training
from lab.tools.progress import Progress

COLUMNS: Final = 104
TERMINAL: Final = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
"""Whatever terminal the one has who draws the picture."""
ROWS: Final = 18
"""The last ones are drawn."""
OUTPUT: Final = training.ROOT / "docs/images/demo.svg"
RESULT: Final = "has succeeded after"
_CONTROL: Final = re.compile(r"(\x1b\[[0-9;?]*[A-Za-z]|\r\n|\r|\n)")
_OWN_FONTS: Final = re.compile(r"@font-face \{\{.*?\}\}", re.DOTALL)
_FORMAT: Final = _OWN_FONTS.sub("", CONSOLE_SVG_FORMAT).replace(
    "Fira Code", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono"
)


class Terminal:
    """A screen without an end, of which only what ``rich`` uses is known: lines, the way up, and erasing."""

    def __init__(self) -> None:
        self.lines = [""]
        self._row = 0

    def write(self, text: str) -> None:
        """Show text with its control sequences."""
        for part in _CONTROL.split(text):
            if part in {"\r\n", "\n"}:
                self._row += 1
                self.lines += [""] * (self._row + 1 - len(self.lines))
            elif part == "\x1b[2K":
                self.lines[self._row] = ""
            elif part.startswith("\x1b[") and part.endswith("A"):
                self._row = max(0, self._row - int(part[2:-1] or 1))
            elif part.endswith("m") or not part.startswith("\x1b"):
                self.lines[self._row] += part.replace("\r", "")


def main(arguments: Sequence[str]) -> int:
    """Be ``hack/pictures demo``; the exit status."""
    parser = argparse.ArgumentParser(
        prog="hack/pictures demo", description="Draws the live table from a run of the demo."
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the picture")
    options = parser.parse_args(arguments)
    environment = training.prepare(Progress(sys.stderr, prefix="pictures"))
    os.chdir(training.ROOT)
    typed = ["tfjob", "run", str(training.JOB), "--mount", f"/training={training.PROGRAMS}"]
    terminal = Terminal()
    for piece in _printed([str(environment / "bin" / typed[0]), *typed[1:]]):
        terminal.write(piece)
    lines = [line for line in terminal.lines if line.strip()]
    if not any(RESULT in line for line in lines[-ROWS:]):
        sys.stderr.write("\n".join([*lines[-ROWS:], f"pictures: it never said {RESULT!r}", ""]))
        return 1
    options.output.write_text(picture(lines))
    if options.output == OUTPUT:
        freshness.record(training.ROOT, [OUTPUT.name])
    return 0


def picture(lines: Sequence[str]) -> str:
    """The last lines of a terminal as SVG, in whatever monospaced font there is."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, _environ=TERMINAL)
    for line in lines[-ROWS:]:
        console.print(Text.from_ansi(line), no_wrap=True, overflow="crop")
    return console.export_svg(title="make demo", code_format=_FORMAT, unique_id="demo")


def _printed(command: Sequence[str]) -> Iterator[str]:
    """What a program prints on a terminal, until it has ended."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    terminal = os.environ | TERMINAL
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=terminal) as process:
        os.close(theirs)
        try:
            while piece := os.read(ours, 65536):
                yield piece.decode(errors="replace")
        except OSError:  # the other end is closed
            pass
        finally:
            os.close(ours)
            process.terminate()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
