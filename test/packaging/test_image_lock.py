"""The operator's image does without the package kubernetes, which would be half of it, and with nothing else less."""

import configparser
import re
import subprocess
import sys
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROGRAM = """\
import sys
sys.modules["kubernetes"] = None
import tf_operator.app.command, tf_operator.app.run, tf_operator.app.local
import tf_operator.cli.main, tf_operator.cli.run.job_run, tf_operator.cli.session, tf_operator.cli.ui.site
import tf_operator.client
import tf_operator.machinery.transport.kubeconfig_files
print("imported")
"""


def test_the_image_has_all_that_the_package_needs_but_kubernetes():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = setup["options.extras_require"]
    lines = (setup["options"]["install_requires"], extras["uvloop"], extras["tls"])
    needed = {Requirement(line).name.lower() for text in lines for line in text.split("\n") if line}
    locked = set(re.findall(r"^([a-z0-9.-]+)==", (ROOT / "hack/requirements/image.txt").read_text(), re.MULTILINE))

    assert needed - locked == {"kubernetes"}
    assert len(locked) < 24


def test_neither_the_operator_nor_tfjob_needs_the_package_kubernetes_to_start():
    process = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)

    assert (process.stdout, process.returncode) == ("imported\n", 0), process.stderr
