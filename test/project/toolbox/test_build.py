"""What the compiler complains about becomes an error that says what to do."""

import tomllib
from pathlib import Path

import pytest

from toolbox import build, catalogue, errors
from toolbox.golang import Go
from toolbox.host import Host
from toolbox.progress import Step

HACK = Path(__file__).resolve().parents[3] / "hack"
NO_NETWORK = 'go: k8s.io/api@v0.36.3: Get "https://p.example/k8s.io/api": dial tcp: lookup p.example: no such host'


@pytest.mark.parametrize(
    ("complaint", "kind", "advice"),
    [
        (NO_NETWORK, errors.MissingRegistry, "set GOPROXY"),
        ("go: x.example@v1.0.0: reading https://p.example/x: 403 Forbidden", errors.MissingRegistry, "set GOPROXY"),
        ("x.example@v1.0.0: module lookup disabled by GOPROXY=off", errors.MissingRegistry, "set GOPROXY"),
        ("verifying x.example@v1.0.0: checksum mismatch", errors.BadChecksum, "a proxy you trust"),
        ("x.go:3:2: missing go.sum entry for module providing package y", errors.BrokenBuild, "run hack/update-tools"),
        ("write /tmp/x: no space left on device", errors.BrokenBuild, "make room"),
        ("./main.go:12:404: undefined: timeout", errors.BrokenBuild, "what the compiler says"),
    ],
)
def test_a_failed_build_is_explained(complaint, kind, advice):
    error = build.reason("alpha 1.2.3", 1, [complaint])

    assert type(error) is kind
    assert complaint in error.message
    assert advice in error.advice


@pytest.mark.parametrize("status", [137, 143, -9, -15])
def test_a_compiler_that_was_killed_hints_at_memory(status):
    error = build.reason("alpha 1.2.3", status, [])

    assert error.message == "alpha 1.2.3: the compiler was killed"
    assert "4 GB of free memory" in error.advice


def test_tools_of_one_set_are_built_by_one_command_with_the_flags_of_all():
    tools = catalogue.load(HACK / "tools" / "versions.toml", environ={}, host=Host("linux", "amd64"))
    go = Go(Path("/go"), tools.go_minimum)

    command = build.command(tools.select(["etcd", "kubectl", "kubelet"]), go, Path("/made"))

    assert command[:2] == ["/go", "build"]
    assert {"-v", "-trimpath", "-mod=readonly"} < set(command)
    assert command[command.index("-ldflags") + 1].count("version.gitVersion=v1.36.3") == 2
    assert command[command.index("-o") + 1 :] == [
        "/made/",
        "go.etcd.io/etcd/server/v3",
        "k8s.io/kubernetes/cmd/kubectl",
        "k8s.io/kubernetes/cmd/kubelet",
    ]


def test_progress_counts_packages_and_keeps_only_complaints():
    step = Step("building", started=0.0)
    listener = build.Listener(step)

    for line in ("internal/abi", "k8s.io/api/core/v1", "", "# k8s.io/x", "x.go:1:2: no"):
        listener.on_line(line)

    assert step.how_far == "2 packages, now at k8s.io/api/core/v1"
    assert list(listener.complaints) == ["# k8s.io/x", "x.go:1:2: no"]
    listener.on_line("go: downloading k8s.io/api v0.36.3")
    assert step.how_far == "downloading k8s.io/api v0.36.3"


def test_no_file_names_a_package_registry():
    files = [HACK / name for name in ("tool", "update-tools", "verify-tools", "tools/versions.toml")]
    files += [*(HACK / "toolbox").glob("*.py"), *(HACK / "tools").glob("*/go.mod"), HACK / "requirements" / "go.txt"]
    registries = ("proxy." + "golang.org", "sum." + "golang.org", "pypi" + ".org", "goproxy" + ".io")

    assert [file for file in files if any(name in file.read_text() for name in registries)] == []
    assert tomllib.loads((HACK / "tools" / "versions.toml").read_text())["mirrors"]
