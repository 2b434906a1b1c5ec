"""The pages of the documentation as tests read them: their fenced blocks, and what is said of each.

Blocks of language ``sh`` are commands, and are run; ``yaml`` is a manifest, if it has a kind. Comments say the rest:

- ``<!-- not run: REASON; checked by PATH[::TEST] -->`` before a block that cannot be run or applied here;
- ``<!-- run before: COMMANDS -->`` before a block whose reader has something that the page does not make;
- ``<!-- runs on: a control plane -->`` anywhere on a page, if its commands do not show it.

Commands of runbooks need no comment: they are for an operator in trouble, and none is run.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
RUNBOOKS: Final = "docs/runbooks/"
_OF_A_RUNBOOK: Final = (
    "for an operator in trouble; checked by "
    "test/packaging/docs/test_pages.py::test_kubectl_understands_every_command_of_a_page"
)
LANGUAGES: Final = frozenset({"sh", "text", "yaml", "json", "python", "promql", "lua"})
_FENCE: Final = re.compile(
    r"""^(?:[ ]*<!--\ not\ run:\ (?P<reason>[^>]*?)\ -->\n)?
        (?:[ ]*<!--\ run\ before:\s(?P<before>.*?)\s-->\n)?
        (?P<indent>[ ]*)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
_HEADER: Final = re.compile(r"[A-Z][A-Z()%-]*(?: +[A-Z][A-Z()%-]*)+")
_SPAN: Final = re.compile(r"\b(?:\d+[smhd])+\b")
_RUNS_ON: Final = re.compile(r"<!-- runs on: (.*?) -->")
_CHECKED_BY: Final = re.compile(r"checked by ([\w./-]+)(?:::(\w+))?")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    page: "Page"
    line: int
    language: str
    text: str
    not_run: str
    """Why, and what checks it; empty if it is run or applied."""
    setup: str
    """Commands for what the reader has at this point."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_checked_elsewhere(self) -> bool:
        """Whether what is named as checking it exists."""
        if not (match := _CHECKED_BY.search(self.not_run)):
            return False
        path, test = ROOT / match[1], match[2]
        return path.exists() and (not test or f"def {test}(" in path.read_text(encoding="utf-8"))

    def manifests(self) -> list[dict[str, object]]:
        """The objects that it shows."""
        documents = yaml.safe_load_all(self.text) if self.language == "yaml" else ()
        return [one for one in documents if isinstance(one, dict) and {"apiVersion", "kind"} <= one.keys()]


@dataclass(frozen=True, slots=True)
class Page:
    """A page, by its path in the repository."""

    path: str

    def __str__(self) -> str:
        return self.path

    @property
    def runs_on(self) -> str:
        """Where the commands run that it has: what it says itself, else what they need."""
        match = _RUNS_ON.search((ROOT / self.path).read_text(encoding="utf-8"))
        words = {word for block in self.commands() for word in block.text.split()}
        where = "a control plane" if "helm" in words else "a local server" if "kubectl" in words else "this machine"
        return match[1] if match else where

    def commands(self) -> list[Block]:
        """What is run, in this order."""
        return [block for block in blocks(self) if block.language == "sh" and not block.not_run]


def rows(printed: str) -> list[str]:
    """The lines of an output, whatever its columns are wide and its times are."""
    return [_SPAN.sub("TIME", " ".join(line.split())) for line in printed.splitlines()]


def tables(page: Page) -> Iterator[tuple[Block, str]]:
    """The rows, with their headers, of all tables that a page shows as output of the commands which are run before.

    A block that begins with its own command has a test of its own.
    """
    was_run = False
    for block in blocks(page):
        was_run = not block.not_run if block.language == "sh" else was_run
        is_output = block.language == "text" and was_run and not block.not_run and not block.text.startswith("$ ")
        is_table = False
        for row in rows(block.text) if is_output else ():
            is_table = bool(_HEADER.fullmatch(row)) or (is_table and row not in {"", "..."})
            if is_table:
                yield block, row


@cache
def blocks(page: Page) -> tuple[Block, ...]:
    """Every fenced block."""
    text = (ROOT / page.path).read_text(encoding="utf-8")
    reason = _OF_A_RUNBOOK if page.path.startswith(RUNBOOKS) else ""
    return tuple(
        Block(
            page,
            text.count("\n", 0, fence.start("language")) + 1,
            fence["language"],
            dedent(fence["text"]),
            fence["reason"] or (reason if fence["language"] == "sh" else ""),
            dedent(fence["before"] or ""),
        )
        for fence in _FENCE.finditer(text)
    )


def pages() -> Iterator[Page]:
    """All that users read, but the README, whose commands have a test of their own."""
    paths = {*(ROOT / "docs").rglob("*.md"), *(ROOT / "manifests").rglob("*.md"), *(ROOT / "charts").rglob("README.md")}
    yield from (Page(str(path.relative_to(ROOT))) for path in sorted({*paths, *ROOT.glob("CONTRIBUTING.md")}))
