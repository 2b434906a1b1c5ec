"""Each file of manifests/examples can be applied as it is, and again."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "manifests/examples"
# Those of other APIs and versions are applied by the scenarios of their rules, those for partners in ../integrations.
FILES = [
    path
    for path in sorted(FOLDER.rglob("*.yaml"))
    if "apiVersion: kubeflow.org/v1\n" in path.read_text() and path.parent.name not in ("how-to", "integrations")
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_is_accepted_in_a_dry_run_and_stored_for_real(kubectl, path):
    file = f"--filename={path}"

    # Strict: a field that TFJob does not have is an error.
    assert "(server dry run)" in kubectl("create", file, "--dry-run=server", "--validate=strict")
    assert len(re.findall(r"^tfjob.kubeflow.org/\S+ created$", kubectl("apply", file), re.MULTILINE)) == 1
    assert "configured" not in kubectl("apply", file)
    kubectl("delete", file)
