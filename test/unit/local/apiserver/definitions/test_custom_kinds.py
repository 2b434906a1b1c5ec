"""CustomResourceDefinitions, and the kinds that they define; the columns of their tables."""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.fake_clock import FakeClock
from support.toys.toy_kinds import call
from tf_operator.dialects import registry
from tf_operator.dialects.kubeflow import hub
from tf_operator.dialects.served import Crd
from tf_operator.local.apiserver import ages
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.definitions import custom_kinds, definition, json_path
from tf_operator.local.apiserver.messages import ApiFailure
from tf_operator.local.apiserver.reads import tables
from tf_operator.local.apiserver.reads.watches import WatchStream
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.machinery.transport.requests import Request
from tf_operator.meta import rfc3339

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KIND = definition.kind()
Json = dict[str, Any]
VERSION = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
DEFINITION: Json = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [VERSION],
    },
}


def _stored(crd: Json) -> Json:
    assert KIND.prepare is not None
    return KIND.prepare(copy.deepcopy(crd), None, NOW)


@pytest.mark.parametrize(
    "crd",
    [
        *(api.crd.load(*api.conversion.versions) for api in (*registry.SERVED, hub.API)),
        Crd("tf_operator.dialects.tensorboard").load(),
    ],
    ids=lambda crd: crd["metadata"]["name"],
)
def test_each_definition_of_this_project_can_be_stored(crd: Json) -> None:
    stored = _stored(crd)
    assert KIND.validate is not None
    assert KIND.validate(stored, None) == ()
    assert [condition["type"] for condition in stored["status"]["conditions"]] == ["NamesAccepted", "Established"]
    kinds = custom_kinds.defined(stored)
    assert [kind.resource.version for kind in kinds] == [version["name"] for version in crd["spec"]["versions"]]
    for kind in kinds:
        assert kind.storage.version == stored["status"]["storedVersions"][0]


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"group": ""}, "spec.group: Required value"),
        ({"scope": "Both"}, 'spec.scope: Unsupported value: "Both": supported values: "Cluster", "Namespaced"'),
        ({"versions": [VERSION | {"schema": None}]},
         "spec.versions[0].schema.openAPIV3Schema: Required value"),
        ({"versions": [VERSION | {"additionalPrinterColumns": [{"name": "A", "jsonPath": ".a"}]}]},
         ('spec.versions[0].additionalPrinterColumns[0].type: Unsupported value: "": supported values: "boolean",'
         ' "date", "integer", "number", "string"')),
        ({"versions": [VERSION | {"additionalPrinterColumns": [{"name": "A", "type": "date"}]}]},
         "spec.versions[0].additionalPrinterColumns[0].jsonPath: Required value"),
        ({"versions": [VERSION | {"selectableFields": [{"jsonPath": "a b"}]}]},
         ('spec.versions[0].selectableFields[0].jsonPath: Invalid value: "a b": is not a path that the embedded API'
         " server knows: a b")),
        ({"versions": [VERSION | {"schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}}}]},
         ("spec.validation.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified object"
         " fields")),
        ({"versions": [VERSION | {"schema": {"openAPIV3Schema": {"type": "array", "items": {"type": "text"}}}}]},
         ('spec.validation.openAPIV3Schema.items.type: Unsupported value: "text": supported values: "array", "boolean",'
         ' "integer", "number", "object", "string"')),
        ({"versions": [VERSION | {"schema": {"openAPIV3Schema": {"type": "integer", "default": "x"}}}]},
         ('spec.validation.openAPIV3Schema.default: Invalid value: "string": spec.validation.openAPIV3Schema.default in'
         ' body must be of type integer: "string"')),
        ({"versions": [VERSION | {"schema": {"openAPIV3Schema": {"type": "string", "pattern": "a("}}}]},
         ('spec.validation.openAPIV3Schema.pattern: Invalid value: "a(": must be a valid regular expression, but'
         " isn't: error parsing regexp: missing closing ): `a(`")),
        ({"versions": [VERSION | {"schema": {"openAPIV3Schema": {
            "type": "object", "anyOf": [{"properties": {"a": {"not": {"items": {"pattern": r"\Z"}}}}}]}}}]},
         (r'spec.validation.openAPIV3Schema.anyOf[0].properties[a].not.items.pattern: Invalid value: "\\Z": must be a'
         r" valid regular expression, but isn't: error parsing regexp: invalid escape sequence: `\Z`")),
        ({"names": {"plural": "others", "kind": "Thing"}},
         'metadata.name: Invalid value: "things.example.com": must be spec.names.plural+"."+spec.group'),
    ],
)  # fmt: skip
def test_a_definition_with_a_mistake_is_refused(change: Json, cause: str) -> None:
    assert KIND.validate is not None
    stored = _stored(DEFINITION | {"spec": DEFINITION["spec"] | change})
    assert cause in map(str, KIND.validate(stored, None))


def test_exactly_one_version_is_stored() -> None:
    assert KIND.validate is not None
    stored = _stored(DEFINITION | {"spec": DEFINITION["spec"] | {"versions": [VERSION, VERSION | {"name": "v2"}]}})
    assert [cause.field for cause in KIND.validate(stored, None)] == ["spec.versions"]


_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete"
    " validation"
)


def test_rules_are_not_evaluated_on_an_object_that_breaks_its_schema() -> None:
    (kind,) = custom_kinds.defined(_stored(registry.DEFAULT.crd.load()))
    assert kind.validate is not None
    _specs, path = "spec.tfReplicaSpecs", ".spec.tfReplicaSpecs.Worker.replicas"
    causes = kind.validate({"metadata": {"name": "j"}, "spec": {"tfReplicaSpecs": 1}}, None)
    assert [(cause.field, cause.message) for cause in causes] == [
        (
            "spec.tfReplicaSpecs",
            'Invalid value: "integer": spec.tfReplicaSpecs in body must be of type object: "integer"',
        ),
        (path, f"Invalid value: 0: {path} accessor error: 1 is of the type int64, expected map[string]interface{{}}"),
        ("<nil>", f"Invalid value: null: {_NOT_CHECKED}"),
    ]


def test_older_versions_are_converted_as_by_tfjob_convert() -> None:
    api = registry.DEFAULT
    kinds = {kind.resource.version: kind for kind in custom_kinds.defined(_stored(api.crd.load("v1beta1")))}
    older = kinds["v1beta1"]
    assert older.storage == api.resource
    assert older.convert is not None
    body = {"apiVersion": "kubeflow.org/v1beta1", "kind": "TFJob", "metadata": {"name": "j"}, "spec": {}}
    assert older.convert(body, api.resource.api_version) == api.conversion.convert(body, api.resource.version)


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ({}, ""),
        ({"deprecated": True}, "example.com/v1beta1 Thing is deprecated; use example.com/v1 Thing"),
        ({"deprecated": True, "deprecationWarning": "Use boxes."}, "Use boxes."),
    ],
)
def test_each_answer_of_a_deprecated_version_says_so(change: Json, warning: str) -> None:
    server = ApiServer(FakeClock(), kinds=catalog.KINDS)
    crd = copy.deepcopy(DEFINITION) | {"kind": "CustomResourceDefinition"}
    crd["spec"]["versions"] += [VERSION | {"name": "v1beta1", "storage": False} | change]
    call(server, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    path = "/apis/example.com/v1beta1/things"
    warnings = [
        server.handle(Request("", "GET", where, query)).headers.get("Warning")
        for where, query in ((path, {}), (path, {"watch": "true"}), (path.replace("beta1", ""), {}))
    ]
    expected = f'299 - "{warning}"' if warning else None
    assert warnings == [expected, expected, None]


@pytest.mark.parametrize(
    ("change", "is_ended"),
    [
        ({"metadata": {"labels": {"a": "b"}}}, False),
        ({"spec": {"versions": [VERSION | {"storage": False}, VERSION | {"name": "v2"}]}}, True),
    ],
)
def test_a_watch_ends_when_its_kind_is_defined_in_another_way(change: Json, is_ended: bool) -> None:
    """Its objects are stored as those of another version now, which it would send as they are."""
    server = ApiServer(FakeClock(), kinds=catalog.KINDS)
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    call(server, "POST", definitions, DEFINITION | {"kind": "CustomResourceDefinition"})
    watching = server.handle(Request("", "GET", "/apis/example.com/v1/things", {"watch": "true"}))
    assert isinstance(watching, WatchStream)
    woken = list[bool]()
    watching.on_news(lambda: woken.append(True))
    call(server, "PATCH", f"{definitions}/things.example.com", change, content_type="application/merge-patch+json")
    assert (watching.news(), watching.is_ended, bool(woken)) == ([], is_ended, is_ended)


def test_a_conversion_that_needs_a_webhook_is_refused_loudly() -> None:
    versions = [VERSION, VERSION | {"name": "v2", "storage": False}]
    spec = DEFINITION["spec"] | {"versions": versions, "conversion": {"strategy": "Webhook"}}
    kind = custom_kinds.defined(_stored(DEFINITION | {"spec": spec}))[1]
    assert kind.convert is not None
    with pytest.raises(ApiFailure, match="calls no webhook"):
        kind.convert({"apiVersion": "example.com/v2"}, "example.com/v1")


BODY = {
    "metadata": {"name": "x", "creationTimestamp": rfc3339(NOW - timedelta(minutes=5, seconds=7))},
    "status": {
        "conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True", "n": 2}],
        "a.b": {"c": [1, 2]},
        "ok": True,
    },
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".status.conditions[0].type", ["A"]),
        (".status.conditions[-1:].type", ["Ready"]),
        (".status.conditions[-1].type", ["Ready"]),
        (".status.conditions[5].type", []),
        (".status.conditions[*].type", ["A", "Ready"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.n!=2)].type", []),
        (r".status.a\.b.c[1:2]", [2]),
        (".status['a.b'].c", [[1, 2]]),
        (".status.nothing.at.all", []),
    ],
)
def test_a_json_path_finds_what_columns_show(path: str, values: list[object]) -> None:
    assert json_path.compiled(path)(BODY) == values


def test_a_table_has_the_columns_of_the_definition() -> None:
    columns = [
        {"name": "Ready", "type": "string", "jsonPath": ".status.ok"},
        {"name": "N", "type": "integer", "jsonPath": ".status.conditions[1].n", "priority": 1},
        {"name": "None", "type": "boolean", "jsonPath": ".status.none"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    spec = DEFINITION["spec"] | {"versions": [VERSION | {"additionalPrinterColumns": columns}]}
    (kind,) = custom_kinds.defined(_stored(DEFINITION | {"spec": spec}))
    table = tables.table(kind, [BODY], NOW)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Ready", "N", "None", "Age"]
    (row,) = table["rows"]
    assert row["cells"] == ["x", "true", 2, None, "5m7s"]
    assert row["object"]["metadata"] == BODY["metadata"]
    assert tables.table(kind, [BODY], NOW, include="Object")["rows"][0]["object"] == BODY
    assert tables.table(kind, [BODY], NOW, include="None")["rows"][0]["object"] is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "<invalid>"), (0, "0s"), (119, "119s"), (120, "2m"), (605, "10m"), (185, "3m5s"), (3 * 3600 + 60, "3h1m"),
     (9 * 3600, "9h"), (50 * 3600, "2d2h"), (9 * 86400, "9d"), (3 * 365 * 86400, "3y"), (9 * 365 * 86400, "9y")],
)  # fmt: skip
def test_ages_are_those_of_kubectl(seconds: int, text: str) -> None:
    assert ages.duration(seconds) == text


@pytest.mark.parametrize(
    "change",
    [
        {"additionalPrinterColumns": ["Age"]},
        {"selectableFields": [{"jsonPath": 5}]},
        {"subresources": {"scale": {"specReplicasPath": []}}},
        {"schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": "string"}}}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_definition_that_could_not_be_read_at_the_next_start_is_never_stored(change: Json) -> None:
    crd = copy.deepcopy(DEFINITION)
    crd["spec"]["versions"][0] |= change
    with pytest.raises(ApiFailure, match="cannot be handled as a CustomResourceDefinition: "):
        _stored(crd)


def test_a_null_in_a_definition_is_a_field_that_is_missing() -> None:
    crd = copy.deepcopy(DEFINITION)
    crd["spec"]["versions"][0] |= {"subresources": {"scale": None}, "deprecated": None}
    (kind,) = custom_kinds.defined(_stored(crd))
    assert kind.scale is None
