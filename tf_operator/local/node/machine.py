"""This machine as pods see it: what it has, and the Python that stands for their images."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tf_operator.local.node.pod import LocalPod

PYTHON_ANNOTATION = "tf-operator.kubeflow.org/python"
"""On a pod: the interpreter, or the folder of a virtual environment, that it runs in."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the machine has."""

    cpus: int
    memory: int


def machine_capacity() -> Capacity:
    return Capacity(os.cpu_count() or 1, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


@dataclass(frozen=True, slots=True)
class Interpreter:
    """What is used in place of images."""

    python: str
    variables: Mapping[str, str]
    """What every process finds in its environment."""
    folder: str = ""
    """Where programs run that name no working directory, as an image has one; empty: in a folder of their own."""

    def of(self, pod: LocalPod) -> "Interpreter":
        """The interpreter that the pod's annotation names, or this one."""
        place = pod.metadata.annotations.get(PYTHON_ANNOTATION, "")
        return replace(self, python=python_at(place)) if place else self


def python_at(place: str) -> str:
    return str(Path(place) / "bin" / "python") if Path(place).is_dir() else place


def user_python(variables: Mapping[str, str]) -> str:
    """The interpreter in a shell with these variables: of the virtual environment that is active, else this one."""
    active = variables.get("VIRTUAL_ENV", "")
    return python_at(active) if active and os.access(python_at(active), os.X_OK) else sys.executable
