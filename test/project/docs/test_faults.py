"""The page about faults and the fault tests say the same."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FAULTS = ROOT / "test" / "faults"
PAGE = (ROOT / "docs" / "faults.md").read_text()
SHOWN_BY = re.compile(r"\| `(test_\w+\.py)`: ([^|]+) \|")
TEST = re.compile(r"^async def (test_\w+)", re.MULTILINE)


def places(name):
    """Where a test file of this name is."""
    return [FAULTS / name, ROOT / "test" / "integration" / "machinery" / name]


def test_every_test_on_the_page_exists():
    """A test is called there by its name, written as a sentence."""
    missing = []
    for file, sentence in SHOWN_BY.findall(PAGE):
        names = [name for path in places(file) if path.exists() for name in TEST.findall(path.read_text())]
        if f"test_{sentence.replace(' ', '_')}" not in names:
            missing.append((file, sentence))

    assert missing == []
    assert len(SHOWN_BY.findall(PAGE)) >= 60


def test_every_file_of_fault_tests_is_on_the_page():
    files = {path.name for path in FAULTS.glob("test_*.py")}

    assert files <= {file for file, _ in SHOWN_BY.findall(PAGE)}


def test_every_fault_that_a_test_names_is_on_the_page():
    shown = {number for row in re.findall(r"^\| ([\d, SL]+) \|", PAGE, re.MULTILINE) for number in row.split(", ")}
    named = set()
    for path in FAULTS.glob("test_*.py"):
        for numbers in re.findall(r'"""Faults? (\d+(?:(?:, | and )\d+)*)', path.read_text()):
            named |= set(re.findall(r"\d+", numbers))

    assert named <= shown, sorted(named - shown)
