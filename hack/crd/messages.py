"""The protobuf messages of what the embedded API server serves, from Kubernetes' published sources.

The ``generated.proto`` of a Go package says how fields travel, the tags of its types how the same fields are called in
JSON, and whether Go writes what is empty. Both come from the modules of the newest minor in ``hack/lab/tools/modules``.
Kept are the messages that the kinds in ``ROOTS`` reach, one to a line, without descriptions.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

FILE: Final = Path("tf_operator/local/apiserver/forms/protobuf.json")
_META: Final = "k8s.io.apimachinery.pkg.apis.meta.v1"
MODULES: Final = ("k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver")
ROOTS: Final[Mapping[str, tuple[str, ...]]] = {
    # Package of the messages, API version, kinds. Of those with a star there are lists.
    "k8s.io.api.core.v1 v1": (
        "Binding ConfigMap* Endpoints* Event* Namespace* Node* PersistentVolume* PersistentVolumeClaim* Pod*",
        "ReplicationController* ResourceQuota* Secret* Service* ServiceAccount*",
    ),
    "k8s.io.api.admissionregistration.v1 admissionregistration.k8s.io/v1": (
        "MutatingWebhookConfiguration* ValidatingWebhookConfiguration*",
    ),
    "k8s.io.api.apidiscovery.v2 apidiscovery.k8s.io/v2": ("APIGroupDiscoveryList",),
    "k8s.io.api.apps.v1 apps/v1": ("DaemonSet* Deployment* ReplicaSet* StatefulSet*",),
    "k8s.io.api.authentication.v1 authentication.k8s.io/v1": ("SelfSubjectReview",),
    "k8s.io.api.authorization.v1 authorization.k8s.io/v1": (
        "LocalSubjectAccessReview SelfSubjectAccessReview SubjectAccessReview",
    ),
    "k8s.io.api.autoscaling.v1 autoscaling/v1": ("Scale",),
    "k8s.io.api.autoscaling.v2 autoscaling/v2": ("HorizontalPodAutoscaler*",),
    "k8s.io.api.batch.v1 batch/v1": ("CronJob* Job*",),
    "k8s.io.api.coordination.v1 coordination.k8s.io/v1": ("Lease*",),
    "k8s.io.api.discovery.v1 discovery.k8s.io/v1": ("EndpointSlice*",),
    "k8s.io.api.events.v1 events.k8s.io/v1": ("Event*",),
    "k8s.io.api.networking.v1 networking.k8s.io/v1": ("Ingress* NetworkPolicy*",),
    "k8s.io.api.policy.v1 policy/v1": ("Eviction",),
    "k8s.io.api.rbac.v1 rbac.authorization.k8s.io/v1": ("ClusterRole* ClusterRoleBinding* Role* RoleBinding*",),
    "k8s.io.api.scheduling.v1 scheduling.k8s.io/v1": ("PriorityClass*",),
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1 apiextensions.k8s.io/v1": ("CustomResourceDefinition*",),
    f"{_META} v1": ("APIGroup APIGroupList APIResourceList APIVersions DeleteOptions Status",),
    f"{_META} meta.k8s.io/v1": ("PartialObjectMetadata*",),
    f"{_META} meta.k8s.io/v1beta1": ("PartialObjectMetadata*",),
}
FRAMES: Final = ("k8s.io.apimachinery.pkg.runtime.Unknown", f"{_META}.WatchEvent", f"{_META}.ListMeta")
"""What objects travel in."""
_SCALARS: Final = frozenset({"bool", "bytes", "double", "int32", "int64", "string"})
_MESSAGE: Final = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD: Final = re.compile(r"^  (?:(optional|repeated) ([\w.]+)|map<string, ([\w.]+)>) (\w+) = (\d+);", re.MULTILINE)
_STRUCT: Final = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_TAGGED: Final = re.compile(r'^\t(?:(\w+)\s+)?(\S+)\s+`.*?json:"([^"]*)".*?protobuf:"\w+,(\d+)', re.MULTILINE)
_PREFIX: Final = re.compile(r"k8s\.io\.(api|apimachinery\.pkg|apiextensions_apiserver\.pkg\.apis)\.")
"""What names of messages begin with, and do not need here."""
_SLICE: Final = re.compile(r"^type (\w+) \[\]string$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Package:
    """One Go package: its messages, and what its types say about them."""

    name: str
    messages: Mapping[str, str]
    tags: Mapping[str, Mapping[str, tuple[str, str, str]]]
    """By type and number: name (none if it is embedded) and type in Go, and the tag for JSON. Types that write
    themselves have none."""
    slices: frozenset[str] = field(default=frozenset())
    """Types that are lists of texts in JSON, and messages in protobuf."""


def read(name: str, folder: Path) -> Package:
    proto = (folder / "generated.proto").read_text(encoding="utf-8")
    code = "\n".join(
        file.read_text(encoding="utf-8")
        for file in sorted(folder.glob("*.go"))
        if not file.name.startswith(("generated", "zz_generated")) and not file.name.endswith("_test.go")
    )
    tags = {
        struct: {number: (name, go, tag) for name, go, tag, number in _TAGGED.findall(body)}
        for struct, body in _STRUCT.findall(code)
    }
    return Package(name, dict(_MESSAGE.findall(proto)), tags, frozenset(_SLICE.findall(code)))


def text(modules: Mapping[str, Path], version: str) -> str:
    """The file; ``modules`` has the folder of each Go module."""
    packages = cache(lambda name: read(name, _folder(name, modules)))
    kinds = dict(_kinds())
    messages: dict[str, Any] = {}
    waiting = [*FRAMES, *kinds.values()]
    while waiting:
        name = waiting.pop()
        if name not in messages:
            package, _, message = name.rpartition(".")
            messages[name] = fields = list(_fields(packages(package), message))
            waiting += [kind for _, _, kind, *_ in fields for kind in [kind.lstrip("[]{}")] if kind not in _SCALARS]
    lines = ",\n".join(f"{json.dumps(name)}:{_lines(fields)}" for name, fields in sorted(messages.items()))
    lines_of_kinds = ",\n".join(f"{json.dumps(kind)}:{json.dumps(name)}" for kind, name in sorted(kinds.items()))
    whole = f'{{"version":{json.dumps(version)},\n"kinds":{{\n{lines_of_kinds}\n}},\n"messages":{{\n{lines}\n}}}}\n'
    return _PREFIX.sub("", whole)


def _lines(fields: Sequence[Any]) -> str:
    return json.dumps(fields, separators=(",", ":")).replace("],[", "],\n[")


def _folder(package: str, modules: Mapping[str, Path]) -> Path:
    path = package.replace(".", "/").replace("k8s/io", "k8s.io", 1).replace("_", "-")
    module = next(module for module in sorted(modules, key=len, reverse=True) if path.startswith(f"{module}/"))
    return modules[module] / path.removeprefix(f"{module}/")


def _kinds() -> Iterator[tuple[str, str]]:
    for root, names in ROOTS.items():
        package, version = root.split()
        for name in " ".join(names).split():
            kind = name.rstrip("*")
            yield f"{version} {kind}", f"{package}.{kind}"
            if kind != name:
                yield f"{version} {kind}List", f"{package}.{kind}List"


def _fields(package: Package, message: str) -> Iterator[list[Any]]:
    """Number, name, type, flags of each field, and its name in JSON if that is another one.

    The flag is ``p`` for a pointer, so that what is empty is a value; ``w`` for what JSON has even if it is empty;
    ``i`` if its fields are in JSON those of the message around it; ``s`` if the message is a list of texts in JSON.
    """
    tags = package.tags.get(message) if message != "Unknown" else None  # which never is JSON
    for label, kind, value, name, number in _FIELD.findall(package.messages[message]):
        field_name, go, tag = tags[number] if tags else (name, "*", name)
        json_name, *options = tag.split(",")
        of = _qualified(value or kind, package)
        row = [int(number), name, f"{{}}{of}" if value else f"[]{of}" if label == "repeated" else of]
        row.append(_flag(go, options, is_inline=not (field_name or json_name), is_slice=message in package.slices))
        yield row if json_name in ("", name) else [*row, json_name]


def _flag(go: str, options: Sequence[str], *, is_inline: bool, is_slice: bool) -> str:
    if is_inline or is_slice:
        return "i" if is_inline else "s"
    return "p" if go.startswith("*") else "" if options else "w"


def _qualified(kind: str, package: Package) -> str:
    if kind in _SCALARS:
        return kind
    return kind.removeprefix(".") if kind.startswith(".") else f"{package.name}.{kind}"
