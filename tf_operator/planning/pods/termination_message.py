"""The termination message of a container: which of its lines says why a program has failed, and how much is kept.

A kubelet fills it with the end of the log (``terminationMessagePolicy: FallbackToLogsOnError``) unless the program has
written one. The cause is at the end of it: the exception after the last traceback, or else the last line.
"""

import re
from typing import Final

from tf_operator.text import printable, without_commands

_LONGEST_SUMMARY: Final = 300
_LONGEST_BEGINNING: Final = 80
_MOST_KEPT: Final = 1024
_CUT: Final = "..."
_TRACEBACK: Final = "Traceback (most recent call last):"
_EXCEPTION: Final = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|StopIteration|SystemExit)(?::\s.*)?")


def summary(text: str) -> str:
    """The line that says most, as one printable line; empty when there is none.

    Of a line that is too long the beginning, which names the exception, and the end are kept.
    """
    lines = [line for entry in text.splitlines() if (line := printable(without_commands(entry))).strip()]
    line = " ".join(_cause(lines).split())
    if len(line) <= _LONGEST_SUMMARY:
        return line
    rest = _LONGEST_SUMMARY - _LONGEST_BEGINNING - len(_CUT)
    return f"{line[:_LONGEST_BEGINNING]}{_CUT}{line[-rest:]}"


def end(text: str) -> str:
    """The end of a message, as it is kept in a status."""
    return text if len(text) <= _MOST_KEPT else f"{_CUT}{text[len(_CUT) - _MOST_KEPT :]}"


def _cause(lines: list[str]) -> str:
    """The exception that ended the program; without one the last line.

    Output that was buffered follows the traceback, so an exception counts more than what comes after it.
    """
    headers = [number for number, line in enumerate(lines) if line.strip() == _TRACEBACK]
    after = range(headers[-1] + 1 if headers else 0, len(lines))
    numbers = [number for number in after if _EXCEPTION.fullmatch(lines[number].rstrip())]
    if headers and not numbers:
        numbers = [number for number in after if not lines[number].startswith(" ")]
    if not numbers:
        return lines[-1] if lines else ""
    first = numbers[0] if headers else numbers[-1]
    last = first
    while lines[last].rstrip().endswith(":") and last + 1 < len(lines):  # what is wrong is on the next line
        last += 1
    return " ".join(lines[first : last + 1])
