"""hack/cluster --kind: which commands of kind it runs, and what it refuses."""

import json
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "hack" / "cluster"
FAKE = """#!/bin/sh
printf '%s' "$(basename "$0")" >> "$SEEN"
for word in "$@"; do printf ' %s' "$word" >> "$SEEN"; done
case "$*" in *--config=-*) printf ' < ' >> "$SEEN"; cat >> "$SEEN" ;; esac
echo >> "$SEEN"
case "$*" in "get nodes"*) echo one; echo two ;; esac
case "$*" in $FAILS*) exit 1 ;; esac
"""


@pytest.fixture
def fakes(tmp_path):
    """A docker and a kind that write down how they are called, on a PATH of their own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("docker", "kind"):
        (folder / name).write_text(FAKE)
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def run(fakes, tmp_path):
    """Run hack/cluster with the fakes; return its outcome and the commands that it ran."""
    seen = tmp_path / "seen"

    def run(*arguments, fails="never"):
        seen.write_text("")
        environment = {"PATH": f"{fakes}:/usr/bin:/bin", "SEEN": str(seen), "FAILS": fails, "HOME": str(tmp_path)}
        command = [SCRIPT, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done, seen.read_text().splitlines()

    return run


def name_of(root):
    return json.loads((root / "kind.json").read_text())["name"]


def config(*roles):
    nodes = [{"role": role} for role in roles]
    return json.dumps({"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "nodes": nodes})


@pytest.mark.parametrize(
    ("nodes", "roles"),
    [
        (["--nodes", "1"], ["control-plane"]),
        ([], ["control-plane", "worker", "worker"]),
        (["--nodes", "3"], ["control-plane", "worker", "worker", "worker"]),
    ],
    ids=["one", "default", "three"],
)
def test_up_with_kind_creates_a_cluster_with_as_many_nodes_for_pods_as_asked(run, tmp_path, nodes, roles):
    root = tmp_path / "d"
    done, commands = run("up", "--kind", "--dir", str(root), *nodes)
    assert done.returncode == 0, done.stderr
    access = f"--name={name_of(root)} --kubeconfig={root}/admin.kubeconfig"
    created = f"kind create cluster --config=- --wait=120s {access} < {config(*roles)}"
    assert commands == ["docker info", created]
    assert done.stdout.splitlines()[-1] == f"export KUBECONFIG={root}/admin.kubeconfig"


def test_the_other_commands_go_to_the_cluster_that_kind_made(run, tmp_path):
    root, image = tmp_path / "d", tmp_path / "image.tar"
    image.touch()
    run("up", "--kind", "--dir", str(root))
    name = name_of(root)
    load, commands = run("load", "--dir", str(root), str(image))
    assert commands == [f"kind load image-archive {image} --name={name}"]
    assert load.stdout == "every node has image.tar\n"
    status, commands = run("status", "--dir", str(root))
    assert (status.returncode, status.stdout, commands) == (0, "one\ntwo\n", [f"kind get nodes --name={name}"])
    down, commands = run("down", "--dir", str(root))
    assert commands == [f"kind delete cluster --name={name} --kubeconfig={root}/admin.kubeconfig"]
    assert down.stdout == f"removed the cluster {name} in {root}\n"
    assert not root.exists()
    assert run("down", "--dir", str(root))[0].stdout == f"there is no cluster in {root}\n"


def test_a_cluster_that_kind_does_not_finish_is_deleted_again(run, tmp_path):
    root = tmp_path / "d"
    done, commands = run("up", "--kind", "--dir", str(root), fails="create")
    assert done.returncode == 1
    assert done.stderr == "hack/cluster: kind create cluster: exit code 1; see above what it says\n"
    assert [command.split()[:3] for command in commands[1:]] == [
        ["kind", "create", "cluster"],
        ["kind", "delete", "cluster"],
    ]
    assert not root.exists()


@pytest.mark.parametrize(
    ("problem", "outcome", "complaint"),
    [
        ("files", (1, ["docker info"]), "d is not empty: choose another directory"),
        ("docker", (2, ["docker info"]), "--kind needs a docker that runs; `docker info` says that it does not"),
        ("kind", (2, []), "--kind needs docker and kind; there is no kind on PATH"),
    ],
)
def test_what_is_in_the_way_is_named(*, run, fakes, tmp_path, problem, outcome, complaint):
    if problem == "files":
        (tmp_path / "d" / "mine").mkdir(parents=True)
    if problem == "kind":
        (fakes / "kind").unlink()
    done, commands = run("up", "--kind", "--dir", str(tmp_path / "d"), fails="info" if problem == "docker" else "never")
    assert (done.returncode, commands) == outcome
    assert complaint in done.stderr
