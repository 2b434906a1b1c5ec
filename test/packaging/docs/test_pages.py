"""The pages name only what exists: paths, links, commands, log messages, reasons; their commands work from nothing."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from lab.tools.get import programs
from tf_operator.dialects.kubeflow import words

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
# Without the changelog, which names what is gone.
PAGES = sorted(
    [*ROOT.glob("[!C]*.md"), ROOT / "CONTRIBUTING.md", *(ROOT / ".github").rglob("*.md"), *DOCS.rglob("*.md")]
)
RUNBOOKS = sorted((DOCS / "runbooks").glob("*.md"))
CODE = re.compile(r"`([^`\s]+)`")
LINK = re.compile(r"\]\(([^)#]+)\)")
BLOCK = re.compile(r"^ *```\w*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
SEARCHES = re.compile(r"name=tf-operator [^`]*?grep (?:-E )?'([^']+)'")
TOP_LEVEL = {path.name for path in ROOT.iterdir() if path.is_dir()}
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def paths_named_in(page):
    """What stands in backticks and begins with a folder of the repository, without placeholders."""
    for word in CODE.findall(page.read_text()):
        if word.split("/")[0] in TOP_LEVEL and "/" in word and "<" not in word:
            yield ROOT / word


@pages
def test_every_path_and_link_on_a_page_exists(page):
    links = [page.parent / target for target in LINK.findall(page.read_text()) if "://" not in target]

    assert [str(path) for path in (*paths_named_in(page), *links) if not path.exists()] == []


def test_the_architecture_page_is_really_checked():
    named = list(paths_named_in(DOCS / "architecture.md"))

    assert len(named) >= 15
    assert ROOT / "tf_operator/machinery/cache/reflector.py" in named


@pytest.mark.parametrize("page", [page for page in RUNBOOKS if page.stem.startswith("TF")], ids=lambda page: page.stem)
def test_every_runbook_has_impact_diagnosis_and_mitigation(page):
    assert re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE) == ["Impact", "Diagnosis", "Mitigation"]


@pages
def test_a_block_that_runs_what_is_in_the_venv_makes_it_first(page):
    for block in BLOCK.findall(page.read_text()):
        head, used, _ = block.partition(".venv/")
        assert not used or "make venv" in head, block


@pages
def test_an_upgrade_keeps_the_defaults_of_the_new_release(page):
    # With --reuse-values alone, values that are new in a release are missing.
    assert not re.search(r"(?<!reset-then)--reuse-values", page.read_text())


def commands_in(text):
    """Every kubectl command of a page: in blocks without comments and pipes, and in backticks."""
    blocks = "\n".join(re.findall(r"^ *```(?:sh)?\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)).replace("\\\n", " ")
    inline = [" ".join(command.split()) for command in re.findall(r"(?<!`)`(kubectl [^`]+)`(?!`)", text)]
    lines = [line.strip() for line in blocks.splitlines() if line.strip().startswith("kubectl ")]
    return [re.split(r" \||\s+#", line)[0].strip() for line in (*lines, *inline)]


@pytest.mark.programs("kubectl")
@pytest.mark.parametrize(
    "page", [DOCS / "troubleshooting.md", DOCS / "monitoring.md", *RUNBOOKS], ids=lambda page: page.stem
)
def test_kubectl_understands_every_command_of_a_page(page):
    program = programs("kubectl")["kubectl"]

    for line in commands_in(page.read_text()):
        # With --help nothing is done, and a flag or verb that does not exist is an error all the same.
        help_command = [program, *shlex.split(line.partition(" -- ")[0])[1:], "--help"]
        process = subprocess.run(help_command, capture_output=True, text=True, check=False)
        assert (process.returncode, "Usage:" in process.stdout) == (0, True), f"{line}: {process.stderr}"


def test_the_program_logs_what_the_pages_search_for():
    sources = "\n".join(path.read_text() for path in (ROOT / "tf_operator").rglob("*.py"))
    texts = [
        (page.stem, text.strip('"()'))
        for page in (DOCS / "troubleshooting.md", *RUNBOOKS)
        for message in SEARCHES.findall(page.read_text())
        for text in message.split("|")
    ]

    assert len(texts) >= 10
    assert [(page, text) for page, text in texts if text not in sources] == []


def test_the_page_on_behaviour_explains_every_reason_of_a_condition():
    page = (DOCS / "behaviour.md").read_text()
    reasons = [reason for name, reason in vars(words.Reason).items() if name.isupper()]
    reasons += words.FAILURE_REASONS.values()

    assert sorted(reason for reason in reasons if f"`{reason}`" not in page) == []
