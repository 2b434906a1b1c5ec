"""What the page on kind shows is what kind itself understands: its flags, and its configuration. No cluster is made."""

import shlex
import subprocess

import pytest

from lab.tools.get import programs
from support import doc_pages

PAGE = doc_pages.Page("docs/start/kind.md")
LINES = [line for block in doc_pages.blocks(PAGE) if block.language == "sh" for line in block.text.splitlines()]
COMMANDS = [shlex.split(line)[1:] for line in LINES if line.startswith("kind ")]
pytestmark = [pytest.mark.programs("kind"), pytest.mark.nightly]


def run(*arguments, **options):
    # Without docker and podman on PATH, kind reads its configuration, and then says that it has no node provider.
    program = programs("kind")["kind"]
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, **options)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_kind_understands_a_command(words):
    process = run(*words, "--help")

    assert (process.returncode, "Usage:" in process.stdout) == (0, True), process.stderr


@pytest.mark.parametrize(
    ("field", "problem"), [("role", ""), ("rolle", "field rolle not found")], ids=["as it is", "with a mistake"]
)
def test_kind_reads_the_configuration(tmp_path, field, problem):
    (block,) = [block for block in doc_pages.blocks(PAGE) if block.language == "yaml"]
    (tmp_path / "kind.yaml").write_text(block.text.replace("role", field))
    alone = {"PATH": str(tmp_path), "HOME": str(tmp_path)}

    process = run("create", "cluster", "--config", "kind.yaml", cwd=tmp_path, env=alone)

    assert process.returncode == 1
    assert ("unable to decode config" in process.stderr) == bool(problem), process.stderr
    assert problem in process.stderr
