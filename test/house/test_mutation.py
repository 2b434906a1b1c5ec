"""hack/mutants score changes a module at one place at a time, and says of each change whether a test notices it."""

import subprocess
import sys
from pathlib import Path

import pytest

import mutants
from mutation import operators, score

MODULE = """
LIMIT = 3


def is_small(number: int) -> bool:
    return number < LIMIT


def is_odd(number: int) -> bool:
    return number % 2 == 1


def _made_by_the_import(number: int) -> int:
    return number + 3


FOUR = _made_by_the_import(1)
"""
TESTS = """
from tf_operator.job import x


def test_the_limit_is_not_small():
    assert x.is_small(2)
    assert not x.is_small(3)


def test_numbers_are_odd_or_even():
    assert x.is_odd(1)


def test_four_is_four():
    assert x.FOUR == 4
"""


def instead(text):
    return [mutation.instead for mutation in operators.mutations("x.py", text.encode())]


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("a < b != c", ["a <= b != c", "a < b == c"]),
        ("a is not b", ["a is b"]),
        ("a not in b", ["a in b"]),
        ("a and b and c", ["a or b and c", "a and b or c"]),
        ("a if b else c", ["a if not (b) else c"]),
        ("not a", ["(a)"]),
        ("[a for a in b if a]", ["[a for a in b if not (a)]"]),
        ("a + b // c", ["a - b // c", "a + b * c"]),
        ("a += b", ["pass", "a -= b"]),
        ("a = 3, 0.5, True", ["a = 4, 0.5, True", "a = 3, 1.5, True", "a = 3, 0.5, False"]),
        ("max(a)", ["pass", "min(a)"]),
        ("a.b = c", ["pass"]),
        ("a = b", []),
        ("raise a", ["pass"]),
        ("a: Literal[1] = b", []),
        ("f'{1}'", []),
        ("ä, 1", ["ä, 2"]),
    ],
)
def test_a_line_is_changed_at_one_place(line, changes):
    assert sorted(instead(line)) == sorted(changes)


def test_a_function_returns_nothing_and_a_generator_leaves_out_a_value():
    assert instead("def f():\n    return a\n") == ["return None"]
    assert instead("def f():\n    yield a\n") == ["yield from ()"]


def test_every_change_of_the_core_is_python():
    for mutation in score.all_mutations(mutants.ROOT, [Path("tf_operator/job")]):
        compile(mutation.mutated, mutation.file, "exec")


def test_every_change_that_is_listed_can_be_made():
    made = {mutation.text for mutation in score.all_mutations(mutants.ROOT, score.CORE)}
    assert score.equivalents(mutants.ROOT) - made == set()


@pytest.fixture
def tree(tmp_path):
    """A repository with one module and its tests."""
    files = {
        "tf_operator/job/x.py": MODULE,
        "test/unit/job/test_x.py": TESTS,
        "test/proof/test_search.py": "def test_nothing():\n    pass\n",
        "test/mutants/score/equivalent.yaml": "",
        "setup.cfg": "[tool:pytest]\naddopts = --import-mode=importlib\n",
        **{(path if path.endswith(".py") else f"{path}/test_nothing.py"): "" for path in score.UNIT_TESTS},
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / ".venv").symlink_to(mutants.ROOT / ".venv")
    return tmp_path


def scored(tree, *arguments):
    run = f"from pathlib import Path; from mutation import score; score.main({list(arguments)}, root=Path.cwd())"
    path = f"{tree}:{mutants.ROOT / 'hack'}"
    process = subprocess.run(
        [sys.executable, "-c", run], cwd=tree, env={"PYTHONPATH": path}, stdout=subprocess.PIPE, text=True, check=False
    )
    return process.stdout.splitlines()


def test_what_no_test_notices_is_printed_with_the_score(tree):
    output = scored(tree, "tf_operator/job/x.py")
    begin = output.index("the unit tests leave 1, which meet the search")
    survivor = ["tf_operator/job/x.py:10", "  - return number % 2 == 1", "  + return number % 3 == 1"]
    for part in output[:begin], output[begin:]:
        place = part.index(survivor[0])
        assert part[place : place + 3] == survivor
    assert output[-1] == "caught 10 of 11: 90.9%, and 0 are listed"


def test_the_search_is_left_out_on_request(tree):
    (tree / "test/proof/test_search.py").unlink()

    assert scored(tree, "--unit", "tf_operator/job/x.py")[-1] == "caught 10 of 11: 90.9%, and 0 are listed"


def test_what_is_listed_is_not_tried(tree):
    (tree / "test/mutants/score/equivalent.yaml").write_text(
        "- {file: tf_operator/job/x.py, line: return number % 2 == 1, instead: return number % 3 == 1, reason: no}\n"
    )
    assert scored(tree, "tf_operator/job/x.py")[-1] == "caught 10 of 10: 100.0%, and 1 are listed"


def test_only_changed_lines_are_tried(tree):
    git = ["git", "-C", tree, "-c", "user.name=n", "-c", "user.email=e"]
    for command in (["init", "-q"], ["add", "tf_operator"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], check=True)
    assert scored(tree, "--changed", "HEAD", "tf_operator") == ["no change to try"]

    module = tree / "tf_operator/job/x.py"
    module.write_text(module.read_text().replace("LIMIT = 3", "LIMIT = 1 + 2"))

    assert score.changed_lines(tree, "HEAD") == {("tf_operator/job/x.py", 2)}
