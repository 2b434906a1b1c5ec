"""Each sentence of the documents that sentences.md beside it lists has a test, which says so by its marker."""

import ast
import re
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
EXAMPLES = TESTS.parent / "manifests/examples"
PAGE = Path(__file__).with_name("sentences.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([a-z0-9]+/[a-z0-9-]+)` \|", PAGE, re.MULTILINE)


def markers(text: str) -> list[str]:
    """The rows that a module names: the arguments of its ``pytest.mark.documents(...)``, wherever it stands."""
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    marks = (call for call in calls if ast.unparse(call.func) == "pytest.mark.documents")
    return [ast.literal_eval(argument) for mark in marks for argument in mark.args]


def marked() -> set[str]:
    """All rows that tests name. The word is looked for first: parsing every test takes seconds."""
    texts = (path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    return {row for text in texts if "mark.documents(" in text for row in markers(text)}


def test_each_row_has_a_test_and_each_marker_a_row() -> None:
    marked_rows = marked()

    assert sorted(set(ROWS) - marked_rows) == [], "no test proves these"
    assert sorted(marked_rows - set(ROWS)) == [], "these are on no page"


def test_each_file_of_a_folder_that_the_page_names_is_in_a_row() -> None:
    paths = {TESTS.parent / path for path in re.findall(r"`(manifests/examples/[^`]+\.yaml)`", PAGE)}
    folders = {EXAMPLES / path.relative_to(EXAMPLES).parts[0] for path in paths}

    assert sorted(path for folder in folders for path in folder.rglob("*.yaml") if path not in paths) == []
    assert len(folders) >= 3


def test_no_row_is_there_twice() -> None:
    assert [row for row, times in Counter(ROWS).items() if times > 1] == []
    assert len(ROWS) > 100


def test_a_marker_is_found_wherever_it_stands() -> None:
    text = """
pytestmark = [pytest.mark.documents("a/module")]
@pytest.mark.documents("a/one", "a/two")
async def test_it(): ...
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.documents("a/case"))])
@pytest.mark.other("a/none")
def test_more(x): ...
"""
    assert sorted(markers(text)) == ["a/case", "a/module", "a/one", "a/two"]
