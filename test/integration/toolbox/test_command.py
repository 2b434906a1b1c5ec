"""hack/tool as a process: usage errors are 2, other errors 1, and neither shows a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

HACK = Path(__file__).resolve().parents[3] / "hack"


def run(script, *arguments, **environ):
    """Run the script as a process, as its user does."""
    done = subprocess.run(
        [sys.executable, HACK / script, *arguments], env=environ, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "environ", "status", "lines"),
    [
        ([], {}, 2, ["error: name at least one tool", "see hack/tool --help"]),
        (
            ["etcd"],
            {"KUBERNETES_MINOR": "1.2"},
            1,
            [
                "error: KUBERNETES_MINOR=1.2: there is no such release in the catalogue",
                "set KUBERNETES_MINOR to one of 1.36, 1.34, or unset it",
            ],
        ),
    ],
    ids=["usage", "anything else"],
)
def test_an_error_is_two_lines_and_a_status_and_no_traceback(arguments, environ, status, lines):
    assert run("tool", *arguments, **environ) == (status, "", "".join(f"hack/tool: {line}\n" for line in lines))
