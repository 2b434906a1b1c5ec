"""What a job on this machine has instead of an image: folders, variables and an interpreter of this machine."""

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tf_operator.client.manifests import templates
from tf_operator.local.node.machine import PYTHON_ANNOTATION
from tf_operator.meta import Body

_VOLUME: Final = "tfjob-run"
_LISTS: Final = ("initContainers", "containers")
_NONE: Final[Mapping[str, Any]] = {}


def prepared(
    body: Body,
    *,
    mounts: Mapping[str, Path] = _NONE,
    variables: Mapping[str, str] = _NONE,
    python: str = "",
    default_python: str = "",
    folder: str = "",
) -> dict[str, Any]:
    """The object, with mounts, variables and interpreter in all of its pod templates.

    ``default_python`` is that of templates that name none, and ``folder`` where programs run that name no
    ``workingDir``.
    """
    changed = copy.deepcopy(dict(body))
    pod_templates = list(templates.of(changed))
    for spec in templates.specs(pod_templates):
        _add_mounts(spec, mounts)
        for container in _containers(spec) if variables else ():
            own = container.get("env") or []
            # In front: a variable of the manifest may use them.
            container["env"] = [*({"name": name, "value": value} for name, value in variables.items()), *own]
        for container in _containers(spec) if folder else ():
            container["workingDir"] = container.get("workingDir") or folder
    for template in pod_templates if python or default_python else ():
        metadata = template["metadata"] = dict(template.get("metadata") or {})
        own = metadata.get("annotations") or {}
        metadata["annotations"] = {**own, PYTHON_ANNOTATION: python or own.get(PYTHON_ANNOTATION) or default_python}
    return changed


def values_of(body: Body, variable: str) -> set[str]:
    containers = (container for template in templates.of(body) for container in _containers(template["spec"]))
    entries = (entry for container in containers for entry in container.get("env") or ())
    return {str(entry["value"]) for entry in entries if entry.get("name") == variable and "value" in entry}


def _containers(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    return (entry for field in _LISTS for entry in spec.get(field) or ())


def _add_mounts(spec: dict[str, Any], mounts: Mapping[str, Path]) -> None:
    """A hostPath volume for each mount, seen by every container."""
    for number, (inside, here) in enumerate(mounts.items()):
        name = f"{_VOLUME}-{number}"
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "hostPath": {"path": str(here)}}]
        for container in _containers(spec):
            mount = {"name": name, "mountPath": inside}
            container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
