"""``tf-operator version``: which release this is, and on which Python it runs."""

import argparse
import platform
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (argparse names no public type)


def add_command(commands: "Commands") -> None:
    parser = commands.add_parser("version", help="print the release of the operator and of Python")
    parser.set_defaults(run=run)


def run(_: argparse.Namespace) -> int:
    """Print one line, fit for a bug report."""
    sys.stdout.write(f"{version_line('tf-operator')}\n")
    return 0


def version_line(program: str) -> str:
    """The release as ``pip`` knows it: the one place where the version is written is ``setup.cfg``."""
    from importlib import metadata  # noqa: PLC0415 (``run`` sets its signal handlers sooner without)

    return f"{program} {metadata.version('tf-operator')} (Python {platform.python_version()})"
