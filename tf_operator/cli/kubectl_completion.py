"""``kubectl_complete-tfjob``: kubectl runs it to complete the arguments of ``kubectl tfjob``.

Its arguments are what is typed after ``tfjob``; the last one, perhaps empty, is to be completed. It prints candidates,
each with a description behind a tab, and at the end a directive of kubectl: whether files are candidates, too.
"""

import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from itertools import pairwise
from typing import Final

from tf_operator.cli import completion, main
from tf_operator.cli.completion import Command, Option

_FILES: Final = ":0"
_NO_FILES: Final = ":4"
_CLUSTER: Final = frozenset({"-n", "--namespace", "--context", "--kubeconfig", "--kind"})
"""What says whose jobs are meant."""

Jobs = Callable[[Sequence[str]], Sequence[str]]
"""The names of the jobs of a cluster, which the options name."""


def run() -> int:
    sys.stdout.writelines(f"{line}\n" for line in lines(sys.argv[1:], completion.packaged(), _jobs))
    return 0


def lines(typed: Sequence[str], commands: Sequence[Command], jobs: Jobs) -> Iterator[str]:
    """The candidates for the last word, and the directive."""
    *words, word = typed or ("",)
    if not words:
        yield from _beginning(word, [(command.name, command.help) for command in commands])
        yield _NO_FILES
        return
    command = next((command for command in commands if command.name == words[0]), None)
    options = command.options if command else ()
    by_name = {name: option for option in options for name in option.names}
    if (valued := by_name.get(words[-1])) and valued.takes_value:
        yield from _beginning(word, [(choice, "") for choice in valued.choices])
        yield _NO_FILES if valued.choices else _FILES
    elif command and word.startswith("-"):
        yield from _beginning(word, [(name, option.help) for name, option in by_name.items()])
        yield _NO_FILES
    elif command and (command.takes_jobs or command.words):
        names = jobs(_cluster(words, by_name)) if command.takes_jobs else ()
        yield from _beginning(word, [(name, "") for name in (*command.words, *names)])
        yield _NO_FILES
    else:
        yield _FILES


def _beginning(word: str, candidates: Sequence[tuple[str, str]]) -> Iterator[str]:
    return (f"{name}\t{about}".rstrip() for name, about in candidates if name.startswith(word))


def _cluster(words: Sequence[str], by_name: dict[str, Option]) -> list[str]:
    options = []
    for name, value in pairwise(words):
        if name in _CLUSTER and name in by_name:
            options += [name, value]
    return [*options, *(word for word in words if word.partition("=")[0] in _CLUSTER and "=" in word)]


def _jobs(cluster: Sequence[str]) -> list[str]:
    """Those that ``tfjob list`` finds; nothing is said of a cluster that does not answer."""
    output = io.StringIO()
    os.environ[completion.COMPLETING] = "1"
    try:
        with redirect_stdout(output), redirect_stderr(io.StringIO()):
            main.main(["list", "-o", "name", *cluster])
    finally:
        del os.environ[completion.COMPLETING]
    return [line.rpartition("/")[2] for line in output.getvalue().splitlines()]


if __name__ == "__main__":
    sys.exit(run())
