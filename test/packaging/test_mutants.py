"""hack/mutants says of each defect whether its test notices."""

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


def test_an_entry_without_a_test_is_refused(tmp_path):
    (tmp_path / "x.yaml").write_text("[{name: x, file: y, find: z, replace: z}]")
    with pytest.raises(InvalidError, match="missing 1 required positional argument: 'test'"):
        list(mutants.read([tmp_path / "x.yaml"]))
