"""The command line of users: ``tfjob``, which kubectl also finds as ``kubectl tfjob``.

Parses, dispatches, and turns the outcome into an exit code: 0 done, 1 failed, 2 wrong usage. Only the module of the
command that is asked for is imported, so that none waits for what another one needs; help and completion are answered
from ``grammar.json``, which hack/generate writes from the parsers.
"""

import argparse
import errno
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from tf_operator.cli import completion, imports, usage
from tf_operator.machinery import log

COMMANDS: Final = (
    *("run", "submit", "get", "list", "logs", "events", "explain", "wait", "suspend", "resume", "scale", "restart"),
    *(
        "exec",
        "port-forward",
        "retry",
        "delete",
        "history",
        "top",
        "queue",
        "ui",
        "init",
        "image",
        "plan",
        "convert",
        "local",
    ),
    *("install", "uninstall", "doctor", "debug", "completion"),
)
"""In the order of the help. Each has a module in ``commands``, with an ``add_command``."""
_MODULES: Final = {
    "list": "get",
    "suspend": "changes.suspend",
    "resume": "changes.suspend",
    "scale": "changes.scale",
    "restart": "changes.restart",
    "exec": "replicas.exec",
    "port-forward": "replicas.port_forward",
    "retry": "changes.retry",
    "delete": "changes.delete",
    "install": "administration.install",
    "uninstall": "administration.uninstall",
}
"""Of commands whose module has another name, or a room."""
SYNONYMS: Final = {"ls": "list", "status": "get", "describe": "explain", "version": "--version"}
"""What other tools call some of them."""
_BROKEN_PIPE: Final = 128 + signal.SIGPIPE
"""What a shell reports of a program whose reader has gone, as in ``tfjob run FILE | head -1``."""
_FAILED: Final = 1
_UNWRITABLE: Final = frozenset({errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC})
"""A full disk, or no standard output at all."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code of the process."""
    if arguments is None:  # a process of its own; what is configured stays
        log.before_first_record(_write_records_to_stderr)
    words = sys.argv[1:] if arguments is None else list(arguments)
    command, *others = words or ("--help",)
    command = SYNONYMS.get(command, command)
    with imports.without_collection():
        parser = make_parser(command) if command in COMMANDS else _outline()
    if not command.startswith("-") and command not in COMMANDS:
        hint = usage.suggestion(command, (*COMMANDS, *SYNONYMS)) or f"; '{parser.prog} --help' lists all"
        parser.error(f"there is no command {command!r}{hint}")
    exit_code = None  # how the job has ended is not known yet
    try:
        try:
            parsed = parser.parse_args([command, *others])
            if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # as it was while this was loaded
                signal.signal(signal.SIGINT, signal.default_int_handler)
            exit_code = int(parsed.run(parsed))
        finally:
            sys.stdout.flush()
    except usage.UsageError as error:
        sys.stderr.write(f"{parser.prog}: {error}\n")
        return 2
    except OSError as error:
        code = _code_of(error, parser.prog)
        if code is None:
            raise
        return exit_code or code
    return exit_code


def _code_of(error: OSError, prog: str) -> int | None:
    """How a command exits whose output cannot be written, or whose folder is gone; ``None`` for any other error."""
    if isinstance(error, FileNotFoundError) and not _is_somewhere():
        problem = "the current folder was deleted; change to another one (cd)"
    elif isinstance(error, BrokenPipeError):
        _discard_output()
        return _BROKEN_PIPE
    elif error.errno in _UNWRITABLE and error.filename is None:
        _discard_output()
        problem = f"cannot write to standard output: {error.strerror}"
    else:
        return None
    sys.stderr.write(f"{prog}: {problem}\n")
    return _FAILED


def _is_somewhere() -> bool:
    try:
        return bool(Path.cwd())
    except FileNotFoundError:
        return False


def _discard_output() -> None:
    """So that the flush at the interpreter's end does not fail, too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def make_parser(command: str = "") -> argparse.ArgumentParser:
    """The grammar of the command line: of one command, or of all where that is none.

    Each command names the function that carries it out.
    """
    parser = _parser()
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    modules = dict.fromkeys(_MODULES.get(name, name) for name in ([command] if command in COMMANDS else COMMANDS))
    for module in modules:
        import_module(f"tf_operator.cli.commands.{module}").add_command(commands)
    return parser


def _outline() -> argparse.ArgumentParser:
    """The names of the commands and what they are for, for help; no command is loaded for it."""
    parser = _parser()
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in completion.packaged():
        commands.add_parser(command.name, help=command.help)
    return parser


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kubectl tfjob" if Path(sys.argv[0]).name == "kubectl-tfjob" else "tfjob",
        description="Runs and manages TensorFlow training jobs. Also installed as kubectl-tfjob: 'kubectl tfjob'.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_PrintVersion, nargs=0, help="print the version")
    return parser


class _PrintVersion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata  # noqa: PLC0415 (half of what a command costs that asks no cluster)

        sys.stdout.write(f"tfjob {metadata.version('tf-operator')}\n")
        parser.exit()


def _write_records_to_stderr() -> None:
    """Standard output belongs to the command; structlog would write records there."""
    import structlog  # noqa: PLC0415 (there is a record, so it is needed)

    if not structlog.is_configured():
        processors, factory = log.without_variables(), structlog.PrintLoggerFactory(sys.stderr)
        structlog.configure(processors=processors, logger_factory=factory)
