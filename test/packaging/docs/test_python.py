"""The code of the page on Python runs, in the order of the page, on a server of this machine."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from lab.tools import environment
from support import doc_pages

PAGE = doc_pages.Page("docs/how-to/python.md")
# A notebook's front end: it runs the cells in a kernel, and prints what they have printed.
NOTEBOOK = """\
import json, sys
import nbformat
from nbclient import NotebookClient
cells = [nbformat.v4.new_code_cell(text) for text in json.load(sys.stdin)]
notebook = NotebookClient(nbformat.v4.new_notebook(cells=cells), timeout=120, kernel_name="python3").execute()
outputs = [output for cell in notebook.cells for output in cell.outputs]
print(*(it.text if it.output_type == "stream" else it.data.get("text/html", "") for it in outputs), sep="")
"""


def blocks():
    return [block.text for block in doc_pages.blocks(PAGE) if block.language == "python"]


@pytest.fixture
def home(tmp_path):
    """The environment of a user whose local server runs."""
    own = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    variables = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"} | own
    tfjob = str(Path(sys.executable).with_name("tfjob"))
    subprocess.run([tfjob, "local", "up"], env=variables, check=True)
    yield variables
    subprocess.run([tfjob, "local", "down", "--purge"], env=variables, check=True)


def test_the_code_of_the_page_runs(home, tmp_path):
    (tmp_path / "page.py").write_text("\n".join(blocks()))
    program = [sys.executable, "-W", "error", "page.py"]
    ended = subprocess.run(program, env=home, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Succeeded 0\n" in ended.stdout
    assert ended.stdout.startswith("TFJob default/from-python: 2 pods and 2 Services\n")
    assert 'worker-0 {"cluster"' in ended.stdout
    assert "\nfrom-python   Succeeded   2/2   " in ended.stdout
    assert ended.stdout.count("TFJob default/from-python has succeeded after ") == 2
    assert 'worker-1 | {"cluster"' in ended.stdout
    assert "worker-0 | loss 0.05\n" in ended.stdout
    assert "\n0 {'loss': 0.049787068367863944}\n" in ended.stdout
    assert ended.stdout.endswith("['fit']\n")


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_the_code_of_the_page_runs_in_a_notebook(home, tmp_path):
    """All but its last block: ``asyncio.run`` is for programs, as a notebook has a loop that runs."""
    python = environment.python_of("notebooks")
    packages = os.pathsep.join([str(doc_pages.ROOT), sysconfig.get_path("purelib")])
    notebook = subprocess.run(
        [python, "-c", NOTEBOOK],
        input=json.dumps([*blocks()[:-1], "import tf_operator.client\ntf_operator.client.TFJobs().list()"]),
        env=home | {"PYTHONPATH": packages},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert notebook.returncode == 0, notebook.stderr
    assert "worker-0 | loss 0.05\n" in notebook.stdout
    assert "\n0 {'loss': 0.049787068367863944}\n" in notebook.stdout
    assert "<td>fit</td><td>Succeeded</td>" in notebook.stdout
    assert "<td>from-python</td><td>Succeeded</td><td>2/2</td>" in notebook.stdout
