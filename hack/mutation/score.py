"""How many small changes of the core the tests notice: the command ``hack/mutants score``.

The score is the share that is noticed, without those that change no behaviour (test/mutants/score/equivalent.yaml).
"""

import argparse
import functools
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
import yaml

from mutants import ROOT
from mutation.operators import Mutation, mutations
from mutation.session import Session

_PACKAGES: Final = ("job", "dialects", "planning", "controller")
CORE: Final = [Path("tf_operator", package) for package in _PACKAGES]
EQUIVALENT: Final = Path("test/mutants/score/equivalent.yaml")
UNIT_TESTS: Final = [*(f"test/unit/{package}" for package in _PACKAGES), "test/unit/cli/commands/test_convert.py"]
SEARCH: Final = "test/proof/test_search.py"
"""All states of small jobs: whoever survives the unit tests meets it, in the size of ``make test``."""


def all_mutations(root: Path, paths: Sequence[Path]) -> Iterator[Mutation]:
    """Every change of the modules at some paths."""
    for path in paths:
        for file in sorted((root / path).rglob("*.py")) if (root / path).is_dir() else [root / path]:
            yield from mutations(str(file.relative_to(root)), file.read_bytes())


def equivalents(root: Path) -> set[tuple[str, str, str]]:
    """What is listed as changing no behaviour: file, line, and line instead."""
    entries = yaml.safe_load((root / EQUIVALENT).read_text(encoding="utf-8")) or ()
    return {(entry["file"], entry["line"], entry["instead"]) for entry in entries}


def changed_lines(root: Path, revision: str) -> set[tuple[str, int]]:
    """The lines that differ from where the branch of HEAD left a revision, changes in the working tree included."""
    git = ["git", "-C", str(root)]
    base = subprocess.check_output([*git, "merge-base", revision, "HEAD"], text=True).strip()
    lines, file = set(), ""
    for line in subprocess.check_output([*git, "diff", "-U0", "--no-ext-diff", base], text=True).splitlines():
        if line.startswith("+++ b/"):
            file = line.removeprefix("+++ b/")
        elif hunk := re.match(r"@@ \S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines |= {(file, number) for number in range(first, first + count)}
    return lines


def survivors(
    mutations: Sequence[Mutation], tests: Sequence[str], *, root: Path, at_once: int, has_lines: bool
) -> list[Mutation]:
    """What these tests do not notice; with lines, each change meets only the tests that reach it."""
    if not mutations:
        return []
    session = Session(mutations, root=root, at_once=at_once, has_lines=has_lines)
    status = pytest.main(["-qs", "-p", "no:cacheprovider", "-m", "not nightly", *tests], plugins=[session])
    if status != pytest.ExitCode.OK:
        sys.exit(int(status))
    session.try_imports()
    return session.survivors


def main(arguments: Sequence[str] | None = None, *, root: Path = ROOT) -> int:
    """Print the survivors and the score."""
    parser = argparse.ArgumentParser(prog="hack/mutants score", description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="default: the core")
    parser.add_argument("--sample", type=int, metavar="N", help="at most N changes, chosen by the seed")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="default: 0")
    parser.add_argument("--changed", metavar="REV", help="only lines changed since the branch left that revision")
    parser.add_argument("--unit", action="store_true", help="only the unit tests, which takes a second for each change")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="how many to try at once (default: 2)")
    options = parser.parse_args(arguments)
    candidates = list(all_mutations(root, options.paths or CORE))
    if options.changed:
        lines = changed_lines(root, options.changed)
        candidates = [mutation for mutation in candidates if (mutation.file, mutation.line) in lines]
    if options.sample and options.sample < len(candidates):
        candidates = random.Random(options.seed).sample(candidates, options.sample)  # noqa: S311 (the same each time)
    known_texts = equivalents(root)
    tries = [mutation for mutation in candidates if mutation.text not in known_texts]
    if not tries:
        print("no change to try")
        return 0
    run = functools.partial(survivors, root=root, at_once=options.at_once)
    rest = run(tries, UNIT_TESTS, has_lines=True)
    if not options.unit:
        print(f"the unit tests leave {len(rest)}, which meet the search")
        rest = run(rest, [SEARCH], has_lines=False)
    notices = len(tries) - len(rest)
    print(
        f"caught {notices} of {len(tries)}: {notices / len(tries):.1%}, and {len(candidates) - len(tries)} are listed"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
