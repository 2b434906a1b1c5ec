"""The plugin for krew: a manifest that krew's index takes, and an archive that runs the program and nothing else."""

import hashlib
import os
import re
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

import krew

ADDRESS = "https://example.com/tf-operator"
# What krew's Go types know; it refuses other fields.
FIELDS = {
    "plugin": {"apiVersion", "kind", "metadata", "spec"},
    "spec": {"version", "shortDescription", "description", "caveats", "homepage", "platforms"},
    "platform": {"uri", "sha256", "selector", "files", "license", "bin"},
}
SEMVER = re.compile(r"v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")


@pytest.fixture
def plugin_files(tmp_path):
    """What is written for a project with an address."""
    archive, manifest = krew.write(krew.ROOT, tmp_path, at=ADDRESS)
    return archive, yaml.safe_load(manifest.read_text())


def unpacked(archive, folder):
    with tarfile.open(archive) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
        tar.extractall(folder)
    return folder / "kubectl-tfjob"


def test_the_manifest_is_one_that_the_index_accepts(plugin_files):
    """The rules of krew's own validation, and of its check of manifests."""
    archive, plugin = plugin_files
    spec = plugin["spec"]
    (platform,) = spec["platforms"]

    assert plugin.keys() == FIELDS["plugin"]
    assert plugin["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert (plugin["kind"], plugin["metadata"]) == ("Plugin", {"name": "tfjob"})
    assert spec.keys() <= FIELDS["spec"]
    assert SEMVER.fullmatch(spec["version"])
    assert 0 < len(spec["shortDescription"]) <= 50
    assert platform.keys() <= FIELDS["platform"]
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert platform["uri"] == f"{ADDRESS}/releases/download/{spec['version']}/{archive.name}"
    assert [entry["key"] for entry in platform["selector"]["matchExpressions"]] == ["os"]
    with tarfile.open(archive) as tar:
        files = {entry.name: entry.mode for entry in tar.getmembers()}
    assert {entry["from"] for entry in platform["files"]} == set(files) == {"LICENSE", platform["bin"]}
    assert files[platform["bin"]] & stat.S_IXUSR


def test_the_archive_is_the_same_each_time_and_has_no_manifest_without_an_address(plugin_files, tmp_path):
    (again,) = krew.write(krew.ROOT, tmp_path, at="")

    assert again.read_bytes() == krew.archive(krew.ROOT, krew.version_of(krew.ROOT)) == plugin_files[0].read_bytes()


@pytest.mark.parametrize(
    ("present", "beginning"),
    [(("uvx", "pipx"), "uvx --quiet --from"), (("pipx",), "pipx run --quiet --spec")],
    ids=["uv", "pipx"],
)
def test_the_plugin_passes_its_arguments_on_as_they_are(plugin_files, tmp_path, present, beginning):
    plugin, programs = unpacked(plugin_files[0], tmp_path), tmp_path / "programs"
    programs.mkdir()
    for name in present:
        (programs / name).write_text(f'#!/bin/sh\nprintf "%s\\n" {name} "$@"\n')
        (programs / name).chmod(0o755)
    arguments = ["submit", "-f", "a job.yaml", "--", "$HOME"]
    process = subprocess.run(
        [plugin, *arguments], env={"PATH": str(programs)}, capture_output=True, text=True, check=True
    )

    package = f"tf-operator[cli]=={krew.version_of(krew.ROOT)}"
    assert process.stdout.splitlines() == [*beginning.split(), package, "kubectl-tfjob", *arguments]


def test_without_uv_and_pipx_the_plugin_says_what_to_install(plugin_files, tmp_path):
    plugin = unpacked(plugin_files[0], tmp_path)
    process = subprocess.run([plugin, "get"], env={"PATH": "/nowhere"}, capture_output=True, text=True, check=False)

    assert process.returncode == 127
    assert "install one of them" in process.stderr


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_the_plugin_runs_the_program_of_the_wheel(plugin_files, tmp_path):
    """With uv, and a folder with the wheel beside the package index."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    source = tmp_path / "source"
    subprocess.run(["git", "clone", "--quiet", krew.ROOT, source], check=True)
    subprocess.run([*build, "--wheel-dir", tmp_path, source], check=True)
    scripts = Path(sys.executable).parent
    variables = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    variables |= {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "UV_FIND_LINKS": str(tmp_path)}
    variables |= {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_CACHE_DIR": str(tmp_path / "cache")}
    plugin = unpacked(plugin_files[0], tmp_path)
    process = subprocess.run([plugin, "--version"], env=variables, capture_output=True, text=True, check=False)

    assert (process.returncode, process.stderr) == (0, "")
    assert krew.version_of(krew.ROOT) in process.stdout
