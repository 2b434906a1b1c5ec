"""The code of the page on Python runs, in the order of the page, on a server of this machine."""

import os
import subprocess
import sys
from pathlib import Path

from support import doc_pages

PAGE = doc_pages.Page("docs/how-to/python.md")


def test_the_code_of_the_page_runs(tmp_path):
    code = "\n".join(block.text for block in doc_pages.blocks(PAGE) if block.language == "python")
    home = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"} | home
    tfjob = str(Path(sys.executable).with_name("tfjob"))
    subprocess.run([tfjob, "local", "up"], env=environment, check=True)
    try:
        program = [sys.executable, "-W", "error", "-c", code]
        ended = subprocess.run(program, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    finally:
        subprocess.run([tfjob, "local", "down", "--purge"], env=environment, check=True)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Succeeded 0\n" in ended.stdout
    assert ended.stdout.startswith("TFJob default/from-python: 2 pods and 2 Services\n")
    assert 'worker-0 {"cluster"' in ended.stdout
    assert ended.stdout.count("TFJob default/from-python has succeeded after ") == 2
    assert 'worker-1 | {"cluster"' in ended.stdout
    assert ended.stdout.endswith("[]\n")
