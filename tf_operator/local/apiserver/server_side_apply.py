"""Server-side apply, for one manager of an object: what it applies is merged in, what it no longer applies is removed.

What a manager has applied is kept in ``metadata.managedFields`` as kube-apiserver writes it. Fields that other requests
wrote have no owner here, so an apply never conflicts with an update; that of a second manager is refused.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from tf_operator.local.apiserver import failures
from tf_operator.local.apiserver.kinds import Json, Kind
from tf_operator.local.apiserver.messages import ApiFailure, FieldCause
from tf_operator.meta import Body, metadata_of, rfc3339

_LEAF: Json = {}
_NO_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
_NO_METADATA = frozenset({"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation"})


def checked(config: Body, query: Mapping[str, str]) -> str:
    """Who applies; what is not an apply configuration is refused."""
    manager = query.get("fieldManager", "")
    if not manager:
        cause = FieldCause("fieldManager", "FieldValueRequired", "Required value: is required for apply patch")
        raise failures.invalid_options("PatchOptions", [cause])
    if not config.get("apiVersion") or not config.get("kind"):
        group, _, version = str(config.get("apiVersion") or "").rpartition("/")
        raise failures.bad_request(f"invalid object type: {group}/{version}, Kind={config.get('kind', '')}")
    if metadata_of(config).get("managedFields"):
        raise failures.bad_request("metadata.managedFields must be nil")
    return manager


def applied(kind: Kind, live: Body, config: Body, *, manager: str) -> Json:
    """The live object with a configuration applied; the records of managers are the caller's."""
    entry = _entry_of(kind, live, manager)
    before = entry["fieldsV1"] if entry else _LEAF
    result: Json = msgspec.json.decode(msgspec.json.encode(live))
    now = _fields(kind, config)
    _remove(result, before, now)
    for name, value in config.items():
        if name == "metadata":
            own = {field: item for field, item in value.items() if field not in _NO_METADATA or field == "name"}
            result["metadata"] = _merged(kind, result["metadata"], own, "metadata")
        elif name not in _NO_FIELDS:
            result[name] = _merged(kind, result.get(name), value, name)
    return result


def records(kind: Kind, live: Body | None, config: Body, *, manager: str, now: datetime) -> list[Json]:
    """``managedFields`` after an apply: as it was, if the manager applies the same fields again."""
    entry = None if live is None else _entry_of(kind, live, manager)
    fields = _fields(kind, config)
    if entry is not None and entry["fieldsV1"] == fields:
        return [entry]
    frame = {"manager": manager, "operation": "Apply", "apiVersion": config["apiVersion"], "time": rfc3339(now)}
    return [{**frame, "fieldsType": "FieldsV1", "fieldsV1": fields}]


def _entry_of(kind: Kind, live: Body, manager: str) -> Json | None:
    for entry in metadata_of(live).get("managedFields", ()):
        if entry["manager"] != manager:
            message = (
                f'Apply failed: the object is managed by "{entry["manager"]}", and the embedded API server serves '
                "server-side apply to one manager of an object; a cluster (--context) serves several"
            )
            details = {"name": live["metadata"]["name"], "group": kind.resource.group, "kind": kind.resource.plural}
            raise ApiFailure(409, "Conflict", message, details=details)
        found: Json = entry
        return found
    return None


def _fields(kind: Kind, config: Body) -> Json:
    """The set of the fields in a configuration, as FieldsV1."""
    found = {f"f:{name}": _set(kind, value, name) for name, value in config.items() if name not in _NO_FIELDS}
    own = {name: value for name, value in metadata_of(config).items() if name not in _NO_METADATA}
    if own:
        found["f:metadata"] = {f"f:{name}": _set(kind, value, f"metadata.{name}") for name, value in own.items()}
    return found


def _set(kind: Kind, value: object, path: str) -> Json:
    if isinstance(value, Mapping):
        return {f"f:{name}": _set(kind, item, f"{path}.{name}") for name, item in value.items()}
    key = _key(kind, path)
    if key is None or not isinstance(value, list):
        return _LEAF
    return {_item_name(item, key): _item_set(kind, item, path) for item in value}


def _item_set(kind: Kind, item: object, path: str) -> Json:
    return {".": _LEAF} | _set(kind, item, path) if isinstance(item, Mapping) else _LEAF


def _key(kind: Kind, path: str) -> str | None:
    """The field that tells the items of a list apart; empty for a set, ``None`` for a list that is one value."""
    return kind.merge_keys.get(path)


def _item_name(item: Any, key: str) -> str:  # noqa: ANN401 - any JSON
    if key and isinstance(item, Mapping):
        return "k:" + msgspec.json.encode({key: item.get(key)}).decode()
    return "v:" + msgspec.json.encode(item).decode()


def _remove(live: Any, before: Body, now: Body) -> None:  # noqa: ANN401 - any JSON
    """Take away what was applied and is no longer."""
    for name, fields in before.items():
        if name == ".":
            continue
        if isinstance(live, list):
            for item in [item for item in live if _is_named(item, name)]:
                if name not in now:
                    live.remove(item)
                else:
                    _remove(item, fields, now[name])
        elif isinstance(live, dict) and name[2:] in live:
            if name not in now:
                _take(live, name[2:], fields)
            else:
                _remove(live[name[2:]], fields, now[name])


def _take(live: Json, name: str, fields: Body) -> None:
    """Take a field away, but for what others wrote into it."""
    if fields and isinstance(live[name], dict | list):
        _remove(live[name], fields, _LEAF)
    if not fields or not live[name]:
        del live[name]


def _is_named(item: object, name: str) -> bool:
    value = msgspec.json.decode(name[2:])
    if name.startswith("v:"):
        return bool(item == value)
    return isinstance(item, Mapping) and all(item.get(key) == wanted for key, wanted in value.items())


def _merged(kind: Kind, live: Any, config: Any, path: str) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(config, Mapping):
        base = dict(live) if isinstance(live, Mapping) else {}
        return base | {name: _merged(kind, base.get(name), value, f"{path}.{name}") for name, value in config.items()}
    key = _key(kind, path)
    if key is None or not isinstance(config, list) or not isinstance(live, list):
        return config
    found = {_item_name(item, key): item for item in live}
    for item in config:
        found[_item_name(item, key)] = _merged(kind, found.get(_item_name(item, key)), item, path)
    return list(found.values())
