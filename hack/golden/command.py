"""The command lines of ``hack/update-golden`` and ``hack/verify-golden``."""

import argparse
import difflib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from golden import case, written

UPDATE: Final = """\
Writes the plan of each golden case again: test/golden/<case>.plan.yaml from test/golden/<case>.input.yaml. Read the
difference before you commit it: a plan that has changed is a change of behaviour."""
VERIFY: Final = "Fails when a plan in test/golden is not what follows from its input; offline."


def update(root: Path, arguments: Sequence[str]) -> int:
    """Be ``hack/update-golden``; the exit status."""
    argparse.ArgumentParser(prog="hack/update-golden", description=UPDATE).parse_args(arguments)
    for path, text in wanted(root):
        if read(path) != text:
            path.write_text(text, encoding="utf-8")
            print(f"hack/update-golden: wrote {path.relative_to(root)}", file=sys.stderr)
    for path in left_over(root):
        path.unlink()
        print(f"hack/update-golden: removed {path.relative_to(root)}, which has no input", file=sys.stderr)
    return 0


def verify(root: Path, arguments: Sequence[str]) -> int:
    """Be ``hack/verify-golden``; the exit status."""
    argparse.ArgumentParser(prog="hack/verify-golden", description=VERIFY).parse_args(arguments)
    stale = [(path, text) for path, text in wanted(root) if read(path) != text]
    for path, text in stale:
        print(difference(path.name, read(path), text), file=sys.stderr)
    for path in left_over(root):
        print(f"hack/verify-golden: {path.relative_to(root)} has no input", file=sys.stderr)
    if stale:
        print("hack/verify-golden: is this what you meant? Then run hack/update-golden", file=sys.stderr)
    return 1 if stale or left_over(root) else 0


def wanted(root: Path) -> Iterator[tuple[Path, str]]:
    """Each plan file and what has to be in it."""
    for name in case.names(root):
        yield root / case.FOLDER / f"{name}{case.PLAN}", written.plan_text(case.read(root, name))


def left_over(root: Path) -> list[Path]:
    """Plan files of which the case is gone."""
    known = set(case.names(root))
    plans = (root / case.FOLDER).glob(f"*{case.PLAN}")
    return sorted(path for path in plans if path.name.removesuffix(case.PLAN) not in known)


def difference(name: str, found: str, text: str) -> str:
    """What a reader needs to see which of the two is wrong."""
    return "\n".join(difflib.unified_diff(found.splitlines(), text.splitlines(), name, "as planned", n=3, lineterm=""))


def read(path: Path) -> str:
    """The text of a file, or nothing if it is not there yet."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""
