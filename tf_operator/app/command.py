"""The command line of the operator: ``tf-operator`` and ``python -m tf_operator``.

Parses, dispatches to the module that does the work, and turns its outcome into an exit code: 0 done,
1 failed, 2 wrong usage.

``run`` is spelt as in Go (``options``), because manifests of the Go operator have to keep working; the other commands
are argparse's. Those manifests know no commands, so flags without one are those of ``run``.
"""

import argparse
import gc
import os
import shutil
import signal
import sys
from collections.abc import Sequence

from tf_operator.app import crd_command, version

_HELP = {"-h", "-help", "--help"}
_VERSION = {"-version", "--version"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code of the process."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["run"]:
        return _run(words[1:])
    if words and words[0].startswith("-") and words[0] not in _HELP:
        return _run(words)
    command = make_parser().parse_args(words)
    exit_code: int = command.run(command)
    return exit_code


def make_parser() -> argparse.ArgumentParser:
    """The grammar of the command line; each command names the function that carries it out."""
    parser = argparse.ArgumentParser(
        prog="tf-operator",
        description="Runs TensorFlow training jobs (TFJob) on Kubernetes.",
        epilog="Flags without a command are those of run: tf-operator --leader-elect=false",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    commands.add_parser("run", help="run the operator; tf-operator run --help lists its flags", add_help=False)
    crd_command.add_command(commands)
    version.add_command(commands)
    return parser


def _run(arguments: Sequence[str]) -> int:
    _end_by_signals()
    if _VERSION.intersection(arguments):
        sys.stdout.write(f"{version.version_line('tf-operator')}\n")
        return 0
    from tf_operator.app.options import errors, options, usage  # noqa: PLC0415 (half a second, without a handler)

    if _HELP.intersection(arguments):
        sys.stdout.write(f"{usage.text(shutil.get_terminal_size().columns)}\n")
        return 0
    try:
        parsed = options.parse(arguments, os.environ)
    except errors.OptionError as error:
        sys.stderr.write(f"tf-operator run: {error}\n")
        return 2
    from tf_operator.app import run  # noqa: PLC0415 (as above)

    _collect_garbage_rarely()
    return run.run(parsed)


def _collect_garbage_rarely() -> None:
    """Nearly all that a reconcile makes is freed without the collector, and nothing that is imported is garbage.

    With Python's own thresholds a seventh of the operator's CPU is spent on looking for what is not there.
    """
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def _end_by_signals() -> None:
    """Until ``run`` has its own handlers, a signal ends the process: nothing has begun that would have to be finished.

    The kernel drops a signal without a handler that is sent to the first process of a container, and the kubelet would
    wait for the whole grace period.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
