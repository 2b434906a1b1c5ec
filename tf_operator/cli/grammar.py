"""The type of what a command puts itself into."""

import argparse  # noqa: TC003 (whoever imports this has it)
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 (argparse names no public type)
Arguments: TypeAlias = "argparse._ActionsContainer"  # noqa: SLF001 (as above)
"""A parser, or a group of its arguments."""
