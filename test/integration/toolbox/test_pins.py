"""hack/verify-tools as a person or CI runs it, on a copy of the real tree."""

import shutil
from pathlib import Path

import pytest

HACK = Path(__file__).resolve().parents[3] / "hack"


@pytest.fixture
def real(bench):
    """The bench, with the real catalogue and the real go.mod files."""
    shutil.rmtree(bench.tools)
    shutil.copytree(HACK / "tools", bench.tools)
    shutil.copytree(HACK / "requirements", bench.hack / "requirements")
    return bench


def test_the_real_tree_has_no_deviation(real):
    assert real.run(name="verify-tools") == (0, [], "")


def test_a_deviation_is_named_and_what_to_do_about_it(real):
    versions = real.tools / "versions.toml"
    versions.write_text(versions.read_text().replace('"1.36" = "1.36.3"', '"1.36" = "1.36.4"'))

    status, out, err = real.run(name="verify-tools")

    assert (status, out) == (1, [])
    assert "hack/tools/kubernetes-1.36: requires k8s.io/kubernetes v1.36.3, should be v1.36.4\n" in err
    assert "replaces k8s.io/api by k8s.io/api v0.36.3, should be k8s.io/api v0.36.4\n" in err
    assert "hack/verify-tools: correct versions.toml if it is wrong, then run hack/update-tools\n" in err
