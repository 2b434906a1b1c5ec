"""versions.toml becomes tools; ours has all that are needed, and a mistake in it is an error in words."""

import tomllib
from pathlib import Path

import pytest

from toolbox import catalogue
from toolbox.errors import BadCatalogue, UnknownTool
from toolbox.host import Host

REAL = Path(__file__).resolve().parents[3] / "hack" / "tools" / "versions.toml"
LINUX = Host("linux", "amd64")

SMALL = """
[go]
minimum = "1.26.0"
wheel = "1.26.6"
[mirrors]
page = "https://page.example"
[defaults]
set = "{tool}"
module_version = "v{version}"
ldflags = []
version_args = ["--version"]
silent = false
fits = "minor"
cold_seconds = 1
staging = ""
download = {}
[tools.alpha]
version = "1.2.3"
module = "alpha.example"
"""


def real(host=LINUX, **environ):
    return catalogue.load(REAL, environ=environ, host=host)


def small(text=SMALL, **environ):
    return catalogue.from_table(tomllib.loads(text), environ=environ, host=LINUX)


def test_every_tool_that_the_project_runs_is_there():
    needed = {
        *("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet", "kube-proxy"),
        *("kwok", "helm", "helm4", "coredns", "kubeconform", "kube-score", "helm-unittest", "helm-docs", "promtool"),
        *("scheduler-plugins", "prometheus"),
    }

    assert set(real().tools) == needed


@pytest.mark.parametrize(
    ("name", "url", "checksum_url", "member"),
    [
        (
            "kube-apiserver",
            "https://dl.k8s.io/v1.36.3/bin/linux/amd64/kube-apiserver",
            "https://dl.k8s.io/v1.36.3/bin/linux/amd64/kube-apiserver.sha256",
            "",
        ),
        (
            "etcd",
            "https://github.com/etcd-io/etcd/releases/download/v3.6.8/etcd-v3.6.8-linux-amd64.tar.gz",
            "https://github.com/etcd-io/etcd/releases/download/v3.6.8/SHA256SUMS",
            "etcd-v3.6.8-linux-amd64/etcd",
        ),
        (
            "helm",
            "https://get.helm.sh/helm-v3.22.0-linux-amd64.tar.gz",
            "https://get.helm.sh/helm-v3.22.0-linux-amd64.tar.gz.sha256sum",
            "linux-amd64/helm",
        ),
        (
            "helm-docs",
            "https://github.com/norwoodj/helm-docs/releases/download/v1.14.2/helm-docs_1.14.2_Linux_x86_64.tar.gz",
            "https://github.com/norwoodj/helm-docs/releases/download/v1.14.2/checksums.txt",
            "helm-docs",
        ),
    ],
)
def test_the_official_release_of_a_tool_is_spelled_as_its_page_does(name, url, checksum_url, member):
    download = real().tools[name].download

    assert (download.url, download.checksum_url, download.member) == (url, checksum_url, member)


def test_a_release_without_published_checksums_is_pinned_here():
    download = real().tools["kwok"].download

    assert download.checksum_url == ""
    assert len(download.sha256) == 64


def test_there_is_no_download_where_there_is_no_release_for_the_host():
    assert real(Host("darwin", "arm64")).tools["kube-apiserver"].download is None
    assert real(Host("darwin", "arm64")).tools["kubectl"].download.url.endswith("/bin/darwin/arm64/kubectl")
    assert real().tools["scheduler-plugins"].download is None


@pytest.mark.parametrize(
    ("environ", "version", "module_set"),
    [({}, "1.36.3", "kubernetes-1.36"), ({"KUBERNETES_MINOR": "1.34"}, "1.34.4", "kubernetes-1.34")],
    ids=["default", "1.34"],
)
def test_the_variable_selects_the_minor_of_kubernetes_and_of_nothing_else(environ, version, module_set):
    tools = real(**environ).tools

    assert {str(tools[name].version) for name in tools if name.startswith("kube-") and name != "kube-score"} == {
        version
    }
    assert tools["kubelet"].module_set == module_set
    assert f"-X k8s.io/component-base/version.gitVersion=v{version}" in tools["kubectl"].ldflags
    assert str(tools["etcd"].version) == "3.6.8"


def test_a_minor_that_is_not_there_is_an_error_that_lists_those_that_are():
    with pytest.raises(BadCatalogue, match=r"KUBERNETES_MINOR=1\.2: there is no such release") as refused:
        real(KUBERNETES_MINOR="1.2")

    assert "one of 1.36, 1.34, or unset it" in refused.value.advice


def test_a_mirror_takes_the_place_of_one_server_only():
    tools = real(TF_OPERATOR_MIRROR_GITHUB="https://mirror.example/github/").tools

    assert tools["etcd"].download.url.startswith("https://mirror.example/github/etcd-io/etcd/releases/")
    assert tools["etcd"].download.checksum_url.startswith("https://mirror.example/github/etcd-io/etcd/releases/")
    assert tools["helm"].download.url.startswith("https://get.helm.sh/")


def test_an_unknown_name_is_an_error_that_lists_the_known_ones():
    with pytest.raises(UnknownTool, match="there is no tool named beta, gamma") as refused:
        small().select(["beta", "alpha", "gamma"])

    assert refused.value.advice.startswith("there are: alpha ")


@pytest.mark.parametrize(
    ("package", "built"),
    [
        ("alpha.example", "alpha.example"),
        ("go.etcd.io/etcd/server/v3", "server"),
        ("k8s.io/kubernetes/cmd/kubelet", "kubelet"),
        ("x.example/cmd/vet", "vet"),
    ],
)
def test_a_built_program_is_named_as_go_build_does(package, built):
    assert small(f'{SMALL}package = "{package}"').tools["alpha"].built_name == built


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SMALL.replace('module = "alpha.example"', ""), "alpha: versions.toml does not say 'module'"),
        (SMALL.replace('"{tool}"', '"{toll}"'), "alpha: versions.toml does not say 'toll'"),
        (SMALL.replace('"minor"', '"roughly"'), "fits = 'roughly' is none of exact, minor, major"),
        (SMALL.replace('"1.2.3"', '"latest"'), "'latest' is not a version"),
    ],
    ids=["missing field", "unknown placeholder", "unknown rule", "no version"],
)
def test_a_mistake_in_the_file_is_an_error_that_names_it(text, why):
    with pytest.raises(BadCatalogue) as refused:
        small(text)

    assert why in refused.value.message


def test_a_file_that_is_not_toml_is_an_error_that_names_the_file(tmp_path):
    (tmp_path / "versions.toml").write_text("[tools")

    with pytest.raises(BadCatalogue, match=r"versions\.toml cannot be read"):
        catalogue.load(tmp_path / "versions.toml", environ={}, host=LINUX)
