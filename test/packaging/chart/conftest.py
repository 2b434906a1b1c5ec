"""Fixtures of the tests of the chart: both Helms, and a control plane of their own."""

import subprocess

import pytest

from lab.control_plane.plane import ControlPlane
from lab.tools.get import programs
from support.partners.helm import PROGRAMS, Helm


@pytest.fixture(params=PROGRAMS)
def helm(request, tmp_path):
    """Each Helm in turn, without a cluster."""
    return Helm(request.param, tmp_path)


@pytest.fixture
def helm_3(tmp_path):
    """One of them, where it does not matter which."""
    return Helm("helm-3", tmp_path)


@pytest.fixture(scope="package")
def plane(plane_programs, tmp_path_factory):
    """A plane for the installations of these tests; each of them leaves nothing that is in the next one's way."""
    root = tmp_path_factory.mktemp("chart") / "plane"
    with ControlPlane.up(root, frozenset({"controller-manager"})) as plane:
        yield plane


@pytest.fixture
def kubectl(plane, tmp_path):
    """The real kubectl, as the administrator: call it with its arguments; a failure is a CalledProcessError."""
    program = programs("kubectl")["kubectl"]
    access = [f"--kubeconfig={plane.kubeconfig('admin')}", f"--cache-dir={tmp_path}"]

    def run(*arguments, stdin=""):
        command = [program, *access, *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True, timeout=100).stdout

    return run
