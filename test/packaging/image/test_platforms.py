"""What hack/image asks of the engines, for this machine and for several platforms; without GNU's tools."""

import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FAKE = '#!/bin/sh\necho "${0##*/} $*" >> "$SEEN"\n'
# As macOS has them: each refuses what only GNU's can do.
LIKE_BSD = {
    "date": 'case "$*" in *-d*) exit 64 ;; esac\nexec /bin/date "$@"',
    "sed": 'case "$*" in -i*) exit 64 ;; esac\nexec /usr/bin/env -i /bin/sed "$@"',
    "readlink": "exit 64",
    "sha256sum": "exit 64",
    "realpath": "exit 64",
}
BOTH = "linux/amd64,linux/arm64"


@pytest.fixture
def image(tmp_path):
    """Run hack/image with fake engines; return its exit code and the commands that build or push."""
    folder = tmp_path / "bin"
    folder.mkdir()
    scripts = dict.fromkeys(("docker", "podman", "buildah"), FAKE)
    scripts |= {name: f"#!/bin/sh\n{script}\n" for name, script in LIKE_BSD.items()}
    for name, script in scripts.items():
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)

    def run(*arguments, tree=ROOT):
        log = tmp_path / "seen"
        log.write_text("")
        environ = {"PATH": f"{folder}:/usr/bin:/bin", "SEEN": str(log), "HOME": str(tmp_path)}
        command = [tree / "hack/image", "--name", "example/op:1", *arguments]
        process = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        return process, [line for line in log.read_text().splitlines() if " info" not in line]

    return run


@pytest.mark.parametrize("engine", ["docker", "podman", "buildah"])
def test_an_image_for_this_machine_is_built_with_the_time_of_its_commit(image, engine):
    process, (command,) = image("--engine", engine)

    assert process.returncode == 0, process.stderr
    assert process.stdout == "example/op:1\n"
    assert "--tag example/op:1" in command
    assert "--platform" not in command
    inputs = ("Dockerfile", ".dockerignore", "hack/requirements", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")
    ask = ["git", "log", "-1", "--format=%ct", "--", *inputs, "tf_operator"]
    seconds = int(subprocess.run(ask, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    assert f"CREATED={datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ} " in f"{command} "


@pytest.mark.parametrize("address", ["https://git.example/op", ""])
def test_an_image_names_the_address_of_the_project_once_there_is_one(image, tmp_path, address):
    tree = tmp_path / "tree"
    (tree / "hack").mkdir(parents=True)
    for name in ("image", "container-engine"):
        shutil.copy(ROOT / "hack" / name, tree / "hack")
    (tree / "setup.cfg").write_text("[metadata]\nversion = 1.2.3\n" + (f"url = {address}\n" if address else ""))
    author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for command in (("init", "--quiet"), ("add", "."), (*author, "commit", "--quiet", "--message", "a: b")):
        subprocess.run(["git", *command], cwd=tree, check=True)

    process, (command,) = image("--engine", "podman", tree=tree)

    assert process.returncode == 0, process.stderr
    assert re.findall(r"--label \S+=(\S+)", command) == [address] * bool(address)


def test_docker_builds_several_platforms_in_one_go_and_pushes_them(image):
    process, (command,) = image("--engine", "docker", "--platform", BOTH, "--push")

    assert process.returncode == 0, process.stderr
    assert command.startswith("docker buildx build ")
    assert f"--platform {BOTH}" in command
    assert "--output type=registry,rewrite-timestamp=true" in command


@pytest.mark.parametrize("engine", ["podman", "buildah"])
def test_podman_and_buildah_build_a_list_of_images_and_write_all_of_it(image, engine):
    process, commands = image("--engine", engine, "--platform", BOTH, "--archive", "op.tar")

    assert process.returncode == 0, process.stderr
    removed, *built, pushed, removed_again = commands
    assert removed.endswith("manifest rm example/op:1")
    assert removed_again == removed
    for command, platform in zip(built, BOTH.split(","), strict=True):
        assert f"--manifest example/op:1 --platform {platform} " in command
    assert pushed.endswith("manifest push --all example/op:1 oci-archive:op.tar")


@pytest.mark.parametrize(
    "arguments", [["--platform", BOTH], ["--push"], ["--archive", "op.tar"]], ids=lambda arguments: arguments[0]
)
def test_platforms_need_a_destination_and_a_destination_needs_platforms(image, arguments):
    process, commands = image("--engine", "docker", *arguments)

    assert process.returncode == 2
    assert "--platform" in process.stderr
    assert commands == []
