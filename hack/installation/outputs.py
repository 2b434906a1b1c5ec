"""The objects of manifests/ that ``tfjob install`` applies, and the lock of the image that it pushes, in the package.

The Kustomizations are read as far as these overlays use them. Whatever else one of them has is an error here, so that
what is installed never lacks a part of it. The CRD is not copied: the package has it already.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

FOLDER: Final = Path("tf_operator/client/installation")
OBJECTS: Final = FOLDER / "objects.json"
LOCK: Final = Path("tf_operator/client/images/operator.txt")
LOCK_SOURCE: Final = Path("hack/requirements/image.txt")
BASE: Final = Path("manifests/operator")
OVERLAYS: Final = Path("manifests/overlays")
NAMESPACED: Final = OVERLAYS / "namespaced/role-binding.yaml"
FEATURES: Final = (
    *("elastic", "high-availability", "job-queue", "kueue"),
    *("native-gangs", "network-policies", "restart-in-place"),
)
"""Overlays that add rights and arguments to the operator, and need nothing else. Helm has the others."""
_ALWAYS: Final = frozenset({"platform_python_implementation != 'PyPy'", "implementation_name != 'PyPy'"})
_RELEASE: Final = re.compile(r"python_full_version < '\d+\.\d+'")
_FIELDS: Final = {"apiVersion", "kind", "resources", "patches"}
_CHART: Final = Path("charts/tf-operator/Chart.yaml")

Json = dict[str, Any]


class UnlikeExpectedError(Exception):
    """A manifest has what this does not read."""


def render(root: Path) -> dict[Path, str]:
    """The files by their paths in the repository; raises UnlikeExpectedError."""
    (minor,) = re.findall(r'^kubeVersion: ">=(\d+\.\d+)\.0-0"$', (root / _CHART).read_text("utf-8"), re.MULTILINE)
    installation = {
        "kubernetes": minor,
        "objects": [*_objects(root / BASE)],
        "roleBinding": _read(root / NAMESPACED),
        "features": {name: _feature(root / OVERLAYS / name) for name in FEATURES},
    }
    lock = locked((root / LOCK_SOURCE).read_text("utf-8"))
    return {OBJECTS: f"{json.dumps(installation, separators=(',', ':'))}\n", LOCK: lock}


def locked(lock: str) -> str:
    """The lock for CPython on Linux: of its conditions only those remain that are about Python's release."""
    lines = []
    for line in lock.splitlines():
        requirement, _, condition = line.partition(" ; ")
        conditions = [it for it in condition.removesuffix(" \\").split(" and ") if it and it not in _ALWAYS]
        if len(conditions) > 1 or not all(map(_RELEASE.fullmatch, conditions)):
            raise UnlikeExpectedError(f"{LOCK_SOURCE} has a condition that is not understood: {condition}")
        lines.append(f"{' ; '.join([requirement, *conditions])} \\" if condition else line)
    return "\n".join([*lines, ""])


def _feature(folder: Path) -> Json:
    """What an overlay adds to ``cluster-wide``: objects, arguments, and fields of the Deployment."""
    kustomization = _kustomization(folder)
    (patch,) = kustomization["patches"]
    if set(patch) != {"path"} or "../cluster-wide" not in kustomization["resources"]:
        raise UnlikeExpectedError(f"{folder} is no overlay of cluster-wide with one patch")
    changes = _read(folder / patch["path"])["spec"]
    arguments = []
    for container in changes["template"]["spec"].pop("containers", ()):
        if set(container) != {"name", "args"} or container["args"][0] != "run":
            raise UnlikeExpectedError(f"{folder} changes more of the container than its arguments")
        arguments = container["args"][1:]
    return {
        "arguments": arguments,
        "deployment": changes if changes["template"]["spec"] else {},
        "objects": [*_objects(folder, leaves_out="../cluster-wide")],
    }


def _objects(folder: Path, *, leaves_out: str = "") -> Iterator[Json]:
    for name in _kustomization(folder)["resources"]:
        path = folder / name
        if name == leaves_out:
            continue
        if path.is_dir():
            yield from _objects(path)
        elif (body := _read(path))["kind"] != "CustomResourceDefinition":
            yield body


def _kustomization(folder: Path) -> Json:
    kustomization = _read(folder / "Kustomization")
    if unknown := set(kustomization) - _FIELDS:
        raise UnlikeExpectedError(f"{folder}/Kustomization has {', '.join(sorted(unknown))}")
    return kustomization


def _read(path: Path) -> Json:
    body: Json = yaml.safe_load(path.read_text("utf-8"))
    return body
