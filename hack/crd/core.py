"""Keep of the API server's OpenAPI description what a pod template is made of.

The description (GET /openapi/v3/api/v1) has 1.5 MB and changes with each release in ways that do not matter here.
What is kept, ``core-v1.json``, is the definitions that PodTemplateSpec reaches, without descriptions, one to a line:
so the generator works offline, and a new release of Kubernetes shows as the few lines in which pods have changed.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from lab.control_plane.plane import ControlPlane
from lab.tools import catalogue, get

Definitions = Mapping[str, Mapping[str, Any]]

POD_TEMPLATE: Final = "io.k8s.api.core.v1.PodTemplateSpec"
OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_PREFIX: Final = "#/components/schemas/"


def ask_apiserver() -> dict[str, Any]:
    """The description of the core API by a real kube-apiserver of the newest minor, started for the question.

    Whatever KUBERNETES_MINOR says: what the CRD once knew may not be lost when another one is asked.
    """
    get.use_minor(catalogue.kubernetes_minors(catalogue.FOLDER)[-1])
    with tempfile.TemporaryDirectory() as scratch, ControlPlane.up(Path(scratch) / "plane") as plane:
        return plane.admin.get("/openapi/v3/api/v1")


def keep(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definitions that a pod template consists of, by name, without descriptions."""
    definitions: Definitions = document["components"]["schemas"]
    kept_definitions: dict[str, Any] = {}
    waiting = [POD_TEMPLATE]
    while waiting:
        name = waiting.pop()
        # Of the metadata only a few fields can be set in a template: pod_template.py knows them.
        if name not in kept_definitions and name != OBJECT_META:
            kept_definitions[name] = without_descriptions(definitions[name])
            waiting.extend(references(definitions[name]))
    return dict(sorted(kept_definitions.items()))


def references(node: object) -> Iterator[str]:
    """The names of all definitions that a piece of a description refers to."""
    if isinstance(node, Mapping):
        if isinstance(node.get("$ref"), str):
            yield target(node["$ref"])
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from references(part)


def target(reference: str) -> str:
    return reference.removeprefix(_PREFIX)


def without_descriptions(node: Any) -> Any:  # noqa: ANN401 - any piece of JSON
    """Leave out every description, but no property that is called description: that one is not a text."""
    if isinstance(node, Mapping):
        return {
            key: without_descriptions(value)
            for key, value in node.items()
            if not (key == "description" and isinstance(value, str))
        }
    if isinstance(node, list):
        return [without_descriptions(part) for part in node]
    return node


def write(definitions: Definitions) -> str:
    lines = (f"{json.dumps(name)}: {json.dumps(body, sort_keys=True)}" for name, body in definitions.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"
