"""v1alpha1: a list of replicas, with the restart policy in each pod template.

What was filled in when nothing was said is shown: the types, counts and ports of replicas, the image and the container
of parameter servers that bring none, and the ``RuntimeId``. The template of a replica is the same in both versions
once it has been in v1. A list that is malformed is noted as it is, and v1 has no replicas then.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tf_operator.dialects import replica_lists
from tf_operator.dialects.json_values import object_of
from tf_operator.dialects.kubeflow.versions import v1alpha1_status
from tf_operator.dialects.kubeflow.versions.v1alpha2_to_v1beta2 import ADDED_BY_V1, CLEAN, REPLICAS
from tf_operator.dialects.phases import TYPES
from tf_operator.dialects.replica_lists import CONTAINER, DEFAULT_IMAGE, PORT, PORT_NAME
from tf_operator.job import defaults
from tf_operator.job.training_job import CleanPodPolicy, RestartPolicy
from tf_operator.meta import Body, objects_of, text_of

NAME: Final = "v1alpha1"
LIST: Final = replica_lists.REPLICAS
RUNTIME_ID: Final = "RuntimeId"
OTHERS: Final = "others"
"""In the notes of v1: replicas for which a list has no place, such as evaluators."""
_ITEMS: Final = f"{LIST}[]"
_ENTRIES: Final = f"{REPLICAS}[]"
"""What is noted of well-formed replicas, under names that no field has."""
_KEYS: Final = "keys"
_ORDER: Final = "order"
_IMAGE: Final = "tfImage"
_SCHEDULER: Final = "schedulerName"
_CLEAN_UP: Final = "cleanupPodPolicy"
_ELASTIC: Final = "elasticPolicy"
_COUNTS: Final = {"min-instance": "minReplicas", "max-instance": "maxReplicas"}
_TYPE: Final = "tfReplicaType"
_PORT: Final = "tfPort"
_DEFAULT_PS: Final = "IsDefaultPS"
_SHOWN_AS: Final = {"chief": "MASTER", "master": "MASTER", "worker": "WORKER", "ps": "PS"}
"""The types in the list, by keys of v1 in lower case."""
_POLICIES: Final = frozenset({RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER})


def normalized(spec: Body, uid: str) -> dict[str, Any]:
    """The spec with what is in force, and without what is shown in it although nobody gave it."""
    fields = {name: value for name, value in spec.items() if name != "runtimeid" or RUNTIME_ID in spec}
    if "runtimeid" in spec and RUNTIME_ID not in spec:
        fields[RUNTIME_ID] = spec["runtimeid"]
    if uid and fields.get(RUNTIME_ID) == replica_lists.generated_runtime_id(uid):
        del fields[RUNTIME_ID]
    if fields.get(_IMAGE) == DEFAULT_IMAGE:
        del fields[_IMAGE]
    items = _items(fields)
    return fields if items is None else fields | {LIST: items}


def with_implied_fields(spec: Body, runtime_id: str | None) -> dict[str, Any]:
    """The spec as users read it, with what nobody gave, unless the job has the rules of v1."""
    if runtime_id is None:
        return dict(spec)
    fields = {_IMAGE: DEFAULT_IMAGE} | ({RUNTIME_ID: runtime_id} if runtime_id else {})
    return fields | dict(spec)


def to_v1(spec: Body) -> dict[str, Any]:
    result: dict[str, Any] = {"runPolicy": {**ADDED_BY_V1, CLEAN: spec.get(_CLEAN_UP, str(CleanPodPolicy.RUNNING))}}
    items = _items(spec)
    if (counts := _elastic(spec)) and items is not None:
        result[_ELASTIC] = counts
    return result | {REPLICAS: {TYPES[item[_TYPE]].value: _entry(item, spec) for item in items or ()}}


def from_v1(spec: Body) -> dict[str, Any]:
    """The spec in v1alpha1, as far as v1 knows it."""
    result: dict[str, Any] = {_CLEAN_UP: object_of(spec, "runPolicy").get(CLEAN, str(CleanPodPolicy.NONE))}
    replicas = spec.get(REPLICAS)
    if not isinstance(replicas, Mapping) or not replicas:  # no list, or a malformed one
        return result
    result[LIST] = [_item(kind, replicas[key]) for kind, key in _keys(replicas).items()]
    schedulers = [_pod(item).get(_SCHEDULER) for item in result[LIST]]
    scheduler = schedulers[0] if schedulers and schedulers[1:] == schedulers[:-1] else None
    elastic = object_of(spec, _ELASTIC)
    result |= {name: elastic[field] for name, field in _COUNTS.items() if _is_count(elastic.get(field))}
    return result | ({_SCHEDULER: scheduler} if scheduler and isinstance(scheduler, str) else {})


# --- What may be noted of a spec -----------------------------------------------------------------------------------


def split(spec: Body) -> dict[str, Any]:
    """What v1 may have no place for: the order of the list, and all but the counts and templates of its items."""
    items = _items(spec)
    if items is None:
        return dict(spec)
    notes: dict[str, Any] = {item[_TYPE]: _without(item, _TYPE, "replicas", "template") for item in items}
    notes[_ORDER] = [item[_TYPE] for item in items]
    return _without(spec, LIST) | {_ITEMS: notes}


def join(spec: Body, own: Body) -> dict[str, Any]:
    """The spec with what was noted; a list is noted only when it is malformed.

    How many workers there may be is for v1 to say: no note gives a policy to a job that has none, or a wider one.
    """
    fields = _without(own, _ITEMS, LIST)
    items = _items(spec)
    if items is None:
        return fields | ({LIST: own[LIST]} if LIST in own and _items(own) is None else {})
    if _elastic({**fields, LIST: items}) != _elastic(spec):
        fields = _without(fields, *_COUNTS) | {name: spec[name] for name in _COUNTS if name in spec}
    notes = object_of(own, _ITEMS)
    order = notes.get(_ORDER)
    by_type: dict[str, Any] = {item[_TYPE]: _restored_item(item, object_of(notes, item[_TYPE])) for item in items}
    types = order if isinstance(order, list) and sorted(map(str, order)) == sorted(by_type) else by_type
    return fields | {LIST: [by_type[kind] for kind in types]}


def split_v1(spec: Body) -> dict[str, Any]:
    """What v1alpha1 may have no place for: how keys are written, all but the templates, and what is not listed."""
    replicas = spec.get(REPLICAS)
    if not isinstance(replicas, Mapping):
        return dict(spec)
    keys = _keys(replicas)
    notes: dict[str, Any] = {kind: _without(replicas[key], "template") for kind, key in keys.items()}
    others = {key: [replicas[key]] for key in not_listed(replicas)}  # in lists, to be noted as a whole
    return _without(spec, REPLICAS) | {_ENTRIES: notes | {_KEYS: keys, OTHERS: others}}


def join_v1(spec: Body, own: Body) -> dict[str, Any]:
    """The spec of v1 with what was noted; whatever is noted, counts and templates of what is listed stay."""
    fields = _without(own, _ENTRIES, REPLICAS)
    replicas = spec.get(REPLICAS)
    if not isinstance(replicas, Mapping):
        return fields | (
            {REPLICAS: own[REPLICAS]} if REPLICAS in own and not isinstance(own[REPLICAS], Mapping) else {}
        )
    notes = object_of(own, _ENTRIES)
    names = object_of(notes, _KEYS)
    keys = _keys(replicas)
    entries: dict[str, Any] = {}
    for kind, key in keys.items():
        name = text_of(names, kind)
        is_name = _SHOWN_AS.get(name.lower()) == kind
        entries[name if is_name else key] = _restored_entry(replicas[key], object_of(notes, kind))
    noted_others = {key: entry for key, entry in object_of(notes, OTHERS).items() if isinstance(entry, list)}
    others = {key: entry[0] for key, entry in noted_others.items() if entry and _may_be_other(key, entry[0], keys)}
    return fields | {REPLICAS: others | entries}


def _may_be_other(key: str, entry: object, keys: Mapping[str, str]) -> bool:
    """Replicas that a list has a place for are not added to it by a note, unless that makes them malformed."""
    kind = _SHOWN_AS.get(key.lower())
    return kind is None or kind in keys or not isinstance(entry, Mapping)


def _restored_item(item: Body, note: Body) -> dict[str, Any]:
    current = {name: item[name] for name in (_TYPE, "replicas", "template") if name in item}
    return _without(note, _TYPE, "replicas", "template") | current


def _restored_entry(entry: Body, note: Body) -> dict[str, Any]:
    result = _without(note, "template") | {name: entry[name] for name in ("template",) if name in entry}
    # A count that v1 does not give, or gives as null, is 1 in the list.
    return result | ({"replicas": entry["replicas"]} if note.get("replicas") is not None else {})


# --- The replicas --------------------------------------------------------------------------------------------------


def _items(spec: Body) -> list[dict[str, Any]] | None:
    """The items of a well-formed list, with type, count and port; ``None`` when there is none, or it is empty."""
    elements = spec.get(LIST)
    if not isinstance(elements, list) or not elements or not all(isinstance(item, Mapping) for item in elements):
        return None
    items = [_with_defaults(item) for item in elements]
    types = {text_of(item, _TYPE) for item in items}
    return items if len(types) == len(items) and types <= TYPES.keys() else None


def _with_defaults(item: Body) -> dict[str, Any]:
    default_fields: dict[str, Any] = {_TYPE: "MASTER", "replicas": defaults.REPLICAS, _PORT: PORT}
    return dict(item) | {name: value for name, value in default_fields.items() if item.get(name) is None}


def _keys(replicas: Body) -> dict[str, str]:
    """The key of each type that is listed, in the order of the list; of several keys for one type the first."""
    keys: dict[str, str] = {}
    for key in sorted(replicas):
        if (kind := _SHOWN_AS.get(key.lower())) and isinstance(replicas[key], Mapping):
            keys.setdefault(kind, key)
    return {kind: keys[kind] for kind in TYPES if kind in keys}


def not_listed(replicas: Body) -> list[str]:
    """The keys of v1 that have no place in the list."""
    keys = _keys(replicas).values()
    return [key for key in replicas if key not in keys]


def _entry(item: Body, spec: Body) -> dict[str, Any]:
    entry: dict[str, Any] = {"replicas": item["replicas"]}
    template, scheduler = item.get("template"), text_of(spec, _SCHEDULER)
    if item[_TYPE] == "PS" and _needs_server(item):
        image = text_of(spec, _IMAGE) or DEFAULT_IMAGE
        template = replica_lists.with_default_server(template if isinstance(template, Mapping) else {}, image)
    if scheduler:  # where there is no pod, v1 adds one, and the scheduler is for each
        template = _with_pod(template)
    if "template" in item or template:
        entry["template"] = _adapt(template, item, scheduler)
    policy = _pod(entry).get("restartPolicy")
    return entry | {"restartPolicy": policy if policy in _POLICIES else str(RestartPolicy.ALWAYS)}


def _item(kind: str, entry: Body) -> dict[str, Any]:
    count, template = entry.get("replicas"), entry.get("template")
    item = {_TYPE: kind, "replicas": defaults.REPLICAS if count is None else count, _PORT: _port_of(template)}
    if "template" in entry:
        item["template"] = template
    return item | ({_DEFAULT_PS: False} if kind == "PS" and _needs_server(item) else {})


def _elastic(spec: Body) -> dict[str, Any]:
    """The elastic policy of v1, of a job that says the most workers and has any; the fewest are 1 without a word."""
    counts = {field: spec[name] for name, field in _COUNTS.items() if _is_count(spec.get(name))}
    has_workers = any(item[_TYPE] == "WORKER" for item in _items(spec) or ())
    return counts if has_workers and "maxReplicas" in counts else {}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _needs_server(item: Body) -> bool:
    """Whether it has no container to train in. Where there is one that says so, v1 has been without it."""
    template = item.get("template")
    is_open = template is None or (isinstance(template, Mapping) and isinstance(template.get("spec", {}), Mapping))
    has_list = isinstance(_pod(item).get("containers", []), list)
    return item.get(_DEFAULT_PS) is not False and is_open and has_list and not list(_main_containers(template))


def _with_pod(template: object) -> object:
    """The template with an empty pod if it has none; what is no template stays as it is."""
    body = {} if template is None else template
    return {**body, "spec": {}} if isinstance(body, Mapping) and body.get("spec") is None else body


def _adapt(template: object, item: Body, scheduler: str) -> object:
    """The template with the port and the scheduler that stand beside it; what is no template stays as it is."""
    if not isinstance(template, Mapping) or not isinstance(template.get("spec"), Mapping):
        return template
    pod = {**template["spec"], **({_SCHEDULER: scheduler} if scheduler else {})}
    port = item[_PORT]
    is_port = isinstance(port, int) and not isinstance(port, bool) and 0 < port < 65536
    if is_port and port != _port_of(template) and (main := next(_main_containers(template), None)):
        pod["containers"] = [_open_port(entry, port) if entry is main else entry for entry in pod["containers"]]
    return {**template, "spec": pod}


def _open_port(container: Body, port: int) -> dict[str, Any]:
    ports = container.get("ports")
    entries = ports if isinstance(ports, list) else []
    own_entries = [{**entry, "containerPort": port} if _is_ours(entry) else entry for entry in entries]
    additions = [] if any(map(_is_ours, entries)) else [{"name": PORT_NAME, "containerPort": port}]
    return {**container, "ports": [*own_entries, *additions]}


def _port_of(template: object) -> object:
    main = next(_main_containers(template), {})
    ours = (entry for entry in objects_of(main.get("ports")) if _is_ours(entry))
    return next(ours, {}).get("containerPort", PORT)


def _is_ours(port: object) -> bool:
    return isinstance(port, Mapping) and port.get("name") == PORT_NAME


def _main_containers(template: object) -> Iterator[Body]:
    containers = _pod({"template": template}).get("containers")
    for entry in containers if isinstance(containers, list) else []:
        if isinstance(entry, Mapping) and entry.get("name") == CONTAINER:
            yield entry


def _pod(item: Body) -> Body:
    return object_of(object_of(item, "template"), "spec")


def _without(body: Body, *names: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in names}


class V1Alpha1:
    """The functions above, as ``conversion`` needs them."""

    name = NAME
    spec_to_v1 = staticmethod(to_v1)
    spec_from_v1 = staticmethod(from_v1)
    status_to_v1 = staticmethod(v1alpha1_status.to_v1)
    status_from_v1 = staticmethod(v1alpha1_status.from_v1)
    normalized = staticmethod(normalized)
    with_implied_fields = staticmethod(with_implied_fields)
    split = staticmethod(split)
    join = staticmethod(join)
    split_v1 = staticmethod(split_v1)
    join_v1 = staticmethod(join_v1)
