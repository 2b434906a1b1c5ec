"""What tools.toml and the go.mod files say of a tool."""

import subprocess

import pytest

from lab.tools import catalogue
from lab.tools.catalogue import FOLDER, Host, ToolError, this_host

LINUX = Host("linux", "amd64")
WITHOUT_RELEASE = ["scheduler-plugins", "kube-router", "kueue-0.14", "kueue-0.19", "sample-controller"]
MINORS = sorted(path.name.removeprefix("kubernetes-") for path in (FOLDER / "modules").glob("kubernetes-*"))


@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize("host", [LINUX, Host("linux", "arm64"), Host("darwin", "arm64")], ids=str)
def test_every_tool_has_a_version_and_a_release_for_every_host_and_minor(minor, host):
    tools = catalogue.load(FOLDER, environ={"KUBERNETES_MINOR": minor}, host=host)

    assert tools["kube-apiserver"].version.startswith(f"{minor}.")
    assert tools["prometheus"].version == tools["promtool"].version == "3.15.0"
    assert [tool.name for tool in tools.values() if tool.download is None] == WITHOUT_RELEASE
    for tool in tools.values():
        assert "{" not in f"{tool}"
        if tool.download:
            assert tool.version in tool.download.url
            assert tool.download.sha256 or tool.download.sums_url.startswith("https://")


def test_what_only_nightly_tests_need_is_marked_in_the_list():
    """``make tools`` leaves it out."""
    output = subprocess.run([FOLDER.parents[1] / "tool", "--list"], capture_output=True, text=True, check=True).stdout
    nightly = {line.split()[0] for line in output.splitlines() if line.endswith(" nightly")}
    assert nightly == {"kubectl-1.33", "kind", *WITHOUT_RELEASE}


def test_every_module_set_is_used():
    sets = {
        tool.module.name
        for minor in MINORS
        for tool in catalogue.load(FOLDER, environ={"KUBERNETES_MINOR": minor}, host=LINUX).values()
    }
    assert sets == {path.name for path in (FOLDER / "modules").iterdir()}


def test_a_mirror_takes_the_place_of_a_release_server():
    environ = {"TF_OPERATOR_MIRROR_KUBERNETES": "https://mirror.example/"}
    download = catalogue.load(FOLDER, environ=environ, host=Host("linux", "arm64"))["kubectl"].download

    assert download.url.startswith("https://mirror.example/v1.")
    assert download.url.endswith("/bin/linux/arm64/kubectl")
    assert download.sums_url == f"{download.url}.sha256"


def test_a_module_version_without_its_release_is_refused(tmp_path):
    (tmp_path / "modules" / "prometheus").mkdir(parents=True)
    (tmp_path / "modules" / "prometheus" / "go.mod").write_text("require prometheus.example v0.316.0\n")
    (tmp_path / "tools.toml").write_text(
        '[mirrors]\n[families]\n[tools.promtool]\nset = "prometheus"\nmodule = "prometheus.example"\n'
        'releases = { "0.315.0" = "3.15.0" }\n'
    )
    with pytest.raises(ToolError, match=r"promtool: .* which release is v0\.316\.0 of prometheus\.example"):
        catalogue.load(tmp_path, environ={}, host=LINUX)


def test_what_is_unknown_is_refused_with_the_choices():
    with pytest.raises(ToolError, match=rf"KUBERNETES_MINOR=1\.2: set it to one of {', '.join(MINORS)}"):
        catalogue.load(FOLDER, environ={"KUBERNETES_MINOR": "1.2"}, host=LINUX)
    with pytest.raises(ToolError, match="no tool named kubctl; there are: kube-apiserver"):
        catalogue.select(catalogue.load(FOLDER, environ={}, host=LINUX), ["kubectl", "kubctl"])
    with pytest.raises(ToolError, match="Windows on AMD64"):
        this_host("Windows", "AMD64")
