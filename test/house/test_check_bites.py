"""``make check`` fails on each deliberate breach, and says which rule was broken.

Runs the real targets on a copy of the tree. Only the target that has to bite is run for each breach: the
first test shows that ``make check`` runs all of them.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "test").mkdir()
    for name in (
        "Makefile",
        "setup.cfg",
        "pyproject.toml",
        "README.md",
        "tf_operator",
        "hack",
        "test/support",
        "test/proof",
    ):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, tmp_path / name)
    # The package with the breach, so that mypy need not read everything else, too.
    setup = tmp_path / "setup.cfg"
    shortened = re.sub(r"(?ms)^files = .*?^mypy_path", "files = tf_operator/job\nmypy_path", setup.read_text())
    setup.write_text(shortened)
    return tmp_path


def make(tree, *targets):
    """Run make in the copy, with the tools of the original, which must not be installed from the copy."""
    venv = ROOT / ".venv"
    return subprocess.run(
        ["make", "--no-print-directory", f"VENV={venv}", f"--assume-old={venv}/.installed", *targets],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.documents("mlkube/tests")
def test_check_runs_every_target_that_bites(tree):
    commands = make(tree, "--dry-run", "check").stdout
    tools = ("ruff check", "ruff format --check", "mypy", "lint-imports", "check-house", "pytest", "check-coverage")

    assert [tool for tool in tools if tool not in commands] == []


@pytest.mark.parametrize(
    ("breaches", "target", "words"),
    [
        (
            {
                "job/late.py": "from tf_operator import controller\n",
                "planning/late.py": "import time\n",
                "extras/__init__.py": "",
            },
            "contracts",
            [
                "tf_operator.job.late -> tf_operator.controller",
                "tf_operator.planning.late -> time",
                "tf_operator.extras",
            ],
        ),
        ({"controller/utils.py": ""}, "contracts", ["tf_operator/controller/utils.py:1: house-names"]),
        ({"job/late.py": "\ndef late(x):\n    return x\n"}, "lint", ["ANN001"]),
        ({"job/late.py": "\ndef late(x):\n    return x\n"}, "types", ["[no-untyped-def]"]),
    ],
    ids=["upward import, impure core, unknown package", "utils", "no types, for ruff", "no types, for mypy"],
)
def test_a_breach_is_refused(tree, breaches, target, words):
    for path, text in breaches.items():
        (tree / "tf_operator" / path).parent.mkdir(exist_ok=True)
        (tree / "tf_operator" / path).write_text(f'"""A breach."""\n\n{text}'.rstrip("\n") + "\n")

    process = make(tree, target)

    assert process.returncode != 0
    assert [word for word in words if word not in process.stdout + process.stderr] == []
