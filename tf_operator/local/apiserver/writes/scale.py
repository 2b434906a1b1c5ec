"""The ``scale`` subresource: an ``autoscaling/v1`` Scale, read from and written to an object by paths."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.kinds import Json, Kind, ScalePaths
from tf_operator.local.apiserver.messages import FieldCause
from tf_operator.meta import Body, GroupVersionResource

_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_ABSENT = object()
_NUMBER: Final = {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}}
KIND: Final = Kind(
    GroupVersionResource("autoscaling", "v1", "scales", "Scale"),
    "scale",
    schema={"type": "object", "properties": {"spec": _NUMBER, "status": _NUMBER}},
)


def scale_of(kind: Kind, body: Body) -> Json:
    paths = _paths(kind)
    replicas = _at(body, paths.spec_replicas)
    if not isinstance(replicas, int):
        raise failures.internal(f'the spec replicas field "{_dotted(paths.spec_replicas)}" does not exist')
    current = _at(body, paths.status_replicas)
    status: Json = {"replicas": current if isinstance(current, int) else 0}
    if selector := _selector(_at(body, paths.label_selector) if paths.label_selector else _ABSENT):
        status["selector"] = selector
    metadata = {name: body["metadata"][name] for name in _KEPT if name in body["metadata"]}
    frame = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata}
    return frame | {"spec": {"replicas": replicas} if replicas else {}, "status": status}  # as Go writes it


def replicas_path(kind: Kind) -> tuple[str, ...]:
    """Where the object has the number that a Scale has in its spec."""
    return _paths(kind).spec_replicas


def scaled(kind: Kind, body: Body, scale: object) -> Json:
    """The object with the number of a Scale that was sent, and its version, if it names one."""
    paths = _paths(kind)
    fields = scale if isinstance(scale, Mapping) else {}
    replicas = _at(fields, ("spec", "replicas"))
    replicas = 0 if replicas is _ABSENT else replicas
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise failures.bad_request("Scale.spec.replicas must be an integer")
    field = _dotted(paths.spec_replicas)
    if replicas < 0:
        message = f"Invalid value: {replicas}: should be a non-negative integer"
        raise failures.invalid(kind, body["metadata"]["name"], [FieldCause(field, "FieldValueInvalid", message)])
    result: Json = msgspec.json.decode(msgspec.json.encode(body))
    version = _at(fields, ("metadata", "resourceVersion"))
    if isinstance(version, str) and version:
        result["metadata"]["resourceVersion"] = version
    parent = result
    for name in paths.spec_replicas[:-1]:
        parent = parent.setdefault(name, {})
        if not isinstance(parent, dict):
            raise failures.internal(f'the spec replicas field "{field}" does not exist')
    parent[paths.spec_replicas[-1]] = replicas
    return result


def _selector(selector: object) -> str:
    """As a text: what says so already, labels, or a label selector."""
    if not isinstance(selector, Mapping):
        return selector if isinstance(selector, str) else ""
    is_selector = not selector.keys() - {"matchLabels", "matchExpressions"}
    labels, expressions = (
        (selector.get("matchLabels"), selector.get("matchExpressions")) if is_selector else (selector, None)
    )
    parts = [(name, f"{name}={value}") for name, value in (labels or {}).items()]
    parts += [(each["key"], _requirement(each)) for each in expressions or ()]
    return ",".join(text for _, text in sorted(parts))


def _requirement(expression: Body) -> str:
    key, values = expression["key"], ",".join(sorted(expression.get("values") or ()))
    texts: dict[str, str] = {
        "In": f"{key} in ({values})",
        "NotIn": f"{key} notin ({values})",
        "DoesNotExist": f"!{key}",
    }
    return texts.get(str(expression.get("operator")), str(key))


def _paths(kind: Kind) -> ScalePaths:
    if kind.scale is None:
        raise failures.no_such_path()
    return kind.scale


def _at(body: object, path: tuple[str, ...]) -> Any:  # noqa: ANN401 - any JSON
    for name in path:
        if not isinstance(body, Mapping) or name not in body:
            return _ABSENT
        body = body[name]
    return body


def _dotted(path: tuple[str, ...]) -> str:
    return "".join(f".{name}" for name in path)
