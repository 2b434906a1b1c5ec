"""The chart's own suites (helm-unittest)."""

import filecmp
import shutil
import subprocess

from lab.tools.get import programs
from support.partners.helm import CHART


def test_the_suites_of_the_chart_pass_and_every_snapshot_is_what_was_reviewed(tmp_path):
    chart = tmp_path / "tf-operator"
    shutil.copytree(CHART, chart)

    process = subprocess.run(
        [programs("helm-unittest")["helm-unittest"], "--strict", chart], capture_output=True, text=True, check=False
    )

    assert process.returncode == 0, process.stdout
    snapshots = filecmp.dircmp(CHART / "tests" / "__snapshot__", chart / "tests" / "__snapshot__")
    assert (snapshots.diff_files, snapshots.left_only, snapshots.right_only) == ([], [], [])
