"""Conversations with an API server as data: a file of them, one line for each step.

    let pod = {spec: {containers: [{name: c, image: i}]}}
    == a pod is created and watched
    POST pods pod+{metadata: {name: a}}
    l = GET pods
    w = WATCH pods?resourceVersion=<l.metadata.resourceVersion>
    PATCH/merge pods/a {metadata: {labels: {x: y}}}
    READ w 1                  # one event; a name instead of a number: all up to the first of that object
    UNTIL 404 GET pods/a
    GET /api/v1 -> only pods, pods/status

A target is a path, or short: ``pods/a/status`` is in the conversation's own namespace. ``<ns>`` is that namespace,
``<l.metadata.uid>`` a value of an earlier answer, or nothing. Bodies are flow YAML, or ``raw`` and any text. Behind the
arrow is what of the answer counts: the entries of these names (``only``), these fields (``at``), or no more than code
and reason (``code``).
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from support.resources import Json

Value = Any
"""Any JSON."""

CONTENT_TYPES: Final = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
    "yaml": "application/yaml",
    "text": "text/plain",
    "protobuf": "application/vnd.kubernetes.protobuf",
}
_META = ";v=v1;g=meta.k8s.io"
ACCEPTS: Final = {
    "table": f"application/json;as=Table{_META}",
    "partial": f"application/json;as=PartialObjectMetadata{_META}",
    "partials": f"application/json;as=PartialObjectMetadataList{_META}",
    "aggregated": "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList",
    "html": "text/html",
    "asprotobuf": "application/vnd.kubernetes.protobuf",
    "either": "application/vnd.kubernetes.protobuf,application/json",
    "partialprotobuf": f"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata{_META}",
    "partialsprotobuf": f"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList{_META}",
    "tableprotobuf": f"application/vnd.kubernetes.protobuf;as=Table{_META}",
    "asyaml": "application/yaml",
    "yamltable": f"application/yaml;as=Table{_META}",
}
# Short name of a collection: group and version, plural, kind, and whether it is in a namespace.
COLLECTIONS: Final = {
    "cm": ("v1", "configmaps", "ConfigMap", True),
    "secrets": ("v1", "secrets", "Secret", True),
    "pods": ("v1", "pods", "Pod", True),
    "svc": ("v1", "services", "Service", True),
    "sa": ("v1", "serviceaccounts", "ServiceAccount", True),
    "events": ("v1", "events", "Event", True),
    "newevents": ("events.k8s.io/v1", "events", "Event", True),
    "pvc": ("v1", "persistentvolumeclaims", "PersistentVolumeClaim", True),
    "quotas": ("v1", "resourcequotas", "ResourceQuota", True),
    "leases": ("coordination.k8s.io/v1", "leases", "Lease", True),
    "deployments": ("apps/v1", "deployments", "Deployment", True),
    "ns": ("v1", "namespaces", "Namespace", False),
    "nodes": ("v1", "nodes", "Node", False),
    "pc": ("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", False),
    "crds": ("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", False),
    "tfjobs": ("kubeflow.org/v1", "tfjobs", "TFJob", True),
    "mlkube": ("mlkube.io/v1beta1", "tfjobs", "TfJob", True),
    "t9k": ("batch.tensorstack.dev/v1beta1", "tensorflowtrainingjobs", "TensorFlowTrainingJob", True),
}
_STEP = re.compile(
    r"(?:(?P<label>\w+) = )?(?:UNTIL (?P<until>\S+) )?(?P<method>[A-Z]+)(?P<options>(?:/\w+)*) (?P<rest>.+)"
)
_VALUE = re.compile(r"<(\w+)((?:\.[\w-]+)*)([+-]\d+)?>")


@dataclass(frozen=True, slots=True)
class Step:
    """One request, or the reading of a watch (``READ``)."""

    text: str
    label: str
    until: str
    """What ends its repetition, a code or ``status.phase=Failed``; empty for a step that is done once."""
    method: str
    target: str
    """Of a ``READ``: the label of the watch."""
    body: str | None = None
    count: int = 0
    """How many events are read."""
    last: str = ""
    """Or else the name of the object whose first event is the last that is read; it ends the watch."""
    content_type: str = "application/json"
    accept: str = "application/json"
    only: tuple[str, ...] = ()
    at: tuple[str, ...] = ()
    is_code_only: bool = False


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is said to a server, in order."""

    name: str
    steps: tuple[Step, ...]


@dataclass(slots=True)
class Context:
    """What placeholders stand for: the namespace, and earlier answers by label."""

    namespace: str
    answers: dict[str, Any] = field(default_factory=dict)

    def filled(self, text: str) -> str:
        return _VALUE.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        label, path, shift = match.groups()
        if label == "ns" and not path:
            return self.namespace
        if label not in self.answers:
            return match[0]
        value = at_path(self.answers[label], path[1:])
        value = "" if value is None else value
        return str(int(value) + int(shift)) if shift else str(value)


def conversations(file: Path) -> Iterator[Conversation]:
    """All of one file."""
    fragments: dict[str, Any] = {}
    name, steps = "", list[Step]()
    for line in [*file.read_text().splitlines(), "== "]:
        if line.startswith("== "):
            if name:
                yield Conversation(name, tuple(steps))
            name, steps = line[3:].strip(), []
        elif line.startswith("let "):
            key, _, text = line[4:].partition(" = ")
            fragments[key] = _body(text, fragments)
        elif line and not line.startswith("#"):
            steps.append(step(line, fragments))


def step(line: str, fragments: Mapping[str, Any] = {}) -> Step:
    """One line as a step."""
    match = _STEP.fullmatch(line)
    assert match, f"not a step: {line}"
    label, until, method = match["label"] or "", match["until"] or "", match["method"]
    options = match["options"].split("/")[1:]
    rest, _, filtered = match["rest"].partition(" -> ")
    if method == "READ":
        watch, count = rest.split()
        is_last = not count.isdigit()
        return Step(line, label, until, method, watch, count=0 if is_last else int(count), last=is_last * count)
    short, _, text = rest.partition(" ")
    target, api_version, kind = _target(short)
    mode, _, names = filtered.partition(" ")
    fields = tuple(part.strip() for part in names.split(",")) if filtered else ()
    body = _text(text, fragments, {"apiVersion": api_version, "kind": kind} if method in {"POST", "PUT"} else {})
    return Step(
        line,
        label,
        until,
        method,
        target,
        body,
        content_type=next((CONTENT_TYPES[option] for option in options if option in CONTENT_TYPES), "application/json"),
        accept=next((ACCEPTS[option] for option in options if option in ACCEPTS), "application/json"),
        only=fields if mode == "only" else (),
        at=fields if mode == "at" else (),
        is_code_only=mode == "code",
    )


def at_path(body: Value, path: str) -> Value:
    """The value at ``a.b.0.c``; ``None`` if it is not there."""
    for part in path.split(".") if path else ():
        try:
            body = body[int(part)] if isinstance(body, list) else body[part]
        except (KeyError, IndexError, TypeError):
            return None
    return body


def _target(text: str) -> tuple[str, str, str]:
    """Path with query, apiVersion and kind."""
    short, mark, query = text.partition("?")
    first, _, rest = short.partition("/")
    if first not in COLLECTIONS:
        return text, "", ""
    api_version, plural, kind, is_namespaced = COLLECTIONS[first]
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    parts = [root, *(("namespaces", "<ns>") if is_namespaced else ()), plural, *((rest,) if rest else ())]
    return "/".join(parts) + mark + query, api_version, kind


def _text(text: str, fragments: Mapping[str, Any], frame: Json) -> str | None:
    if not text or text.startswith("raw "):
        return text.removeprefix("raw ") or None
    body = _body(text, fragments)
    if isinstance(body, dict) and frame.get("kind"):
        body = frame | body
    return json.dumps(body)


def _body(text: str, fragments: Mapping[str, Any]) -> Value:
    """Fragments and flow YAML, joined by ``+``: what comes later is merged into what was before."""
    body: Value = None
    while (match := re.match(r"(\w+)(?:\+|$)", text)) and match[1] in fragments:
        body = merged(body, fragments[match[1]])
        text = text[match.end() :]
    return merged(body, yaml.load(text, yaml.CSafeLoader)) if text else body


def merged(low: Value, high: Value) -> Value:
    """``high`` over ``low``, mappings merged."""
    if isinstance(low, dict) and isinstance(high, dict):
        return low | {key: merged(low.get(key), value) for key, value in high.items()}
    return high
