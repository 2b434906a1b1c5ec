"""``make check`` fails on each deliberate breach, and says which rule was broken.

Runs the real targets on a copy of the tree. Only the target that has to bite is run for each breach: the
first test shows that ``make check`` runs all of them.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "test").mkdir()
    for name in ("Makefile", "setup.cfg", "pyproject.toml", "README.md", "tf_operator", "hack", "test/support"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, tmp_path / name)
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


def refuses(tree, target):
    done = make(tree, target)
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr


def test_check_runs_every_target_that_bites(tree):
    commands = make(tree, "--dry-run", "check").stdout

    for command in (
        "ruff check",
        "ruff format --check",
        "mypy",
        "lint-imports",
        "check-house",
        "pytest",
        "check-coverage",
    ):
        assert command in commands


def test_an_untouched_copy_keeps_the_contracts(tree):
    done = make(tree, "contracts")

    assert done.returncode == 0, done.stdout + done.stderr


def test_an_upward_import_is_refused(tree):
    (tree / "tf_operator/api/late.py").write_text('"""A breach."""\n\nfrom tf_operator import controller\n')

    output = refuses(tree, "contracts")

    assert "Imports go down only" in output
    assert "BROKEN" in output
    assert "tf_operator.api.late -> tf_operator.controller" in output


def test_a_package_that_no_layer_knows_is_refused(tree):
    (tree / "tf_operator/extras").mkdir()
    (tree / "tf_operator/extras/__init__.py").write_text('"""A breach."""\n')

    assert "tf_operator.extras" in refuses(tree, "contracts")


def test_an_impure_import_in_the_core_is_refused(tree):
    (tree / "tf_operator/planning/late.py").write_text('"""A breach."""\n\nimport time\n')

    assert "The core is pure" in refuses(tree, "contracts")


def test_a_utils_module_is_refused(tree):
    (tree / "tf_operator/controller/utils.py").write_text('"""A breach."""\n')

    assert "tf_operator/controller/utils.py:1: house-names" in refuses(tree, "contracts")


def test_a_file_of_401_lines_is_refused(tree):
    (tree / "tf_operator/controller/long.py").write_text('"""A breach."""\n' + "#\n" * 400)

    assert "tf_operator/controller/long.py:401: house-file-size" in refuses(tree, "contracts")


def test_an_unlisted_third_party_import_in_the_core_is_refused(tree):
    (tree / "tf_operator/api/late.py").write_text('"""A breach."""\n\nimport yaml\n')

    assert "tf_operator/api/late.py:3: house-pure-imports" in refuses(tree, "contracts")


def test_an_untyped_function_is_refused(tree):
    (tree / "tf_operator/api/late.py").write_text('"""A breach."""\n\n\ndef late(x):\n    return x\n')

    assert "ANN001" in refuses(tree, "lint")
    assert "[no-untyped-def]" in refuses(tree, "types")
