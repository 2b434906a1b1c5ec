"""hack/mutants says of each defect whether its test notices, and each defect of test/mutants can be put back."""

import re
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import mutants
from mutants import InvalidError, Mutant

ENTRIES = """
- {name: noticed, file: tf_operator/x.py, find: "return 1", replace: "return 2", test: "test/test_x.py::test_one"}
- {name: unnoticed, file: tf_operator/x.py, find: "return 3", replace: "return 4", test: "test/test_x.py::test_one"}
- {name: no such text, file: tf_operator/x.py, find: "return 9", replace: "", test: "test/test_x.py::test_one"}
- {name: broken anyway, file: tf_operator/x.py, find: "return 3", replace: "return 4", test: "test/test_x.py::test_two"}
"""


@pytest.fixture(scope="module")
def entries():
    """Every defect of test/mutants."""
    return list(mutants.read(sorted((mutants.ROOT / "test/mutants").glob("*.yaml"))))


@pytest.fixture(scope="module")
def defects():
    """Those that the search of all states has to find by itself."""
    return list(mutants.read(sorted((mutants.ROOT / "test/proof").rglob("defects.yaml"))))


@cache
def text_at(path):
    return (mutants.ROOT / path).read_text(encoding="utf-8")


@cache
def functions_in(path):
    """Their names, and an empty one: a test may be a whole file."""
    return {"", *re.findall(r"^ *(?:async )?def (\w+)\(", text_at(path), re.MULTILINE)}


def problem_of(entry):
    """Why a defect proves nothing; empty for one that can be put back, and has a test."""
    path, _, name = entry.test.partition("[")[0].partition("::")
    try:
        changed = entry.changed(text_at(entry.file))
        if entry.file.endswith(".py"):
            compile(changed, entry.file, "exec")  # any test notices a file that Python cannot read
        if name not in functions_in(path):
            return f"there is no {name} in {path}"
    except (OSError, SyntaxError, InvalidError) as error:
        return str(error)
    return "it changes nothing" if changed == text_at(entry.file) else ""


def mutant(find, replace="new"):
    return Mutant("name", "file.py", find, replace, "test.py::test")


def test_every_verdict(tmp_path, capsys):
    files = {
        "tf_operator/x.py": "def one():\n    return 1\n\n\ndef two():\n    return 3\n",
        "test/test_x.py": "from tf_operator import x\n\n\ndef test_one():\n    assert x.one() == 1\n\n\n"
        "def test_two():\n    assert x.two() == 5\n",
        "test/mutants/x.yaml": ENTRIES,
        "setup.cfg": "[tool:pytest]\naddopts = --import-mode=importlib\n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / ".venv").symlink_to(Path(mutants.ROOT / ".venv"))

    assert mutants.main(["--at-once=1"], root=tmp_path) == 1
    assert capsys.readouterr().out.splitlines() == [
        "tf_operator/x.py: noticed: caught",
        "tf_operator/x.py: unnoticed: SURVIVED: test/test_x.py::test_one passes",
        "tf_operator/x.py: no such text: INVALID: its text is not in tf_operator/x.py",
        "tf_operator/x.py: broken anyway: INVALID: its test fails without it",
        "4 mutants, 3 not caught",
    ]


def test_a_text_is_found_at_the_indentation_that_yaml_took_away():
    text = "class A:\n    def f(self):\n        if x:\n            return 1\n"
    assert mutant("if x:\n    return 1\n", "if y:\n    return 1\n").changed(text) == text.replace("if x", "if y")


def test_a_text_that_occurs_twice_is_refused():
    with pytest.raises(InvalidError, match="occurs 2 times"):
        mutant("a").changed("a\na\n")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# one\n- {name: x, file: y, find: z, replace: z}\n", ":2: .* missing 1 required positional argument: 'test'"),
        ("- x\n", ":1: x: .* must be a mapping"),
        ("- {name: x}\n- {name: [}\n", ":2: this is not YAML: "),
        ("\n- {name: \0}\n", ":2: this is not YAML: "),
        ("- {name: !!python/tuple []}", ":1: this is not YAML: "),
        ("# two\n\nname: x\n", ":3: a list of defects belongs here"),
        ("name", ":1: a list of defects belongs here"),
    ],
    ids=["no test", "no mapping", "no YAML", "no text", "a tag of Python", "one entry", "a word"],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_line(tmp_path, text, sentence):
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(InvalidError, match=f"^{re.escape(str(file))}{sentence}"):
        list(mutants.read([file]))


def test_a_file_without_entries_has_none(tmp_path):
    (tmp_path / "x.yaml").write_text("# nothing\n")
    assert list(mutants.read([tmp_path / "x.yaml"])) == []


def test_every_defect_can_be_put_back_and_its_test_exists(entries, defects):
    problems = [f"{entry.name}: {problem}" for entry in (*entries, *defects) if (problem := problem_of(entry))]
    assert problems == [], "\n".join(problems)


def test_no_defect_is_a_name_that_nothing_has(entries, tmp_path):
    """Which every test notices that runs the line."""
    for entry in entries:
        if entry.file.endswith(".py"):
            called = tmp_path / re.sub(r"\W+", "-", entry.name)[:200]
            called.with_suffix(".py").write_text(entry.changed(text_at(entry.file)), encoding="utf-8")
    ruff = [mutants.ROOT / ".venv/bin/ruff", "check", "--isolated", "--no-cache", "--select=F821"]
    linted = subprocess.run(
        [*ruff, "--output-format=concise", tmp_path], stdout=subprocess.PIPE, text=True, check=False
    )
    assert linted.returncode == 0, linted.stdout


def test_every_row_that_a_defect_names_exists(entries):
    status, output = mutants.run_tests(
        mutants.ROOT, sorted({entry.test for entry in entries if "[" in entry.test}), "--collect-only"
    )
    assert status == 0, output


def test_no_defect_is_there_twice(entries):
    counts = Counter(entry.name for entry in entries)
    counts += Counter((entry.file, entry.find.strip(), entry.replace.strip()) for entry in entries)
    again = [str(defect) for defect, times in counts.items() if times > 1]
    assert again == [], "\n".join(again)
