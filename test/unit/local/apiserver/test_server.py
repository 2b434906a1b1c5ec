"""The verbs, as any client sees them."""

import json

import pytest

from support.fake_clock import FakeClock
from support.toys import toy_kinds
from support.toys.toy_kinds import call
from tf_operator.local.apiserver.reads.views import MOST_AT_ONCE
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.machinery.transport.requests import Request

TOYS = "/apis/toys.io/v1/namespaces/team/toys"
BOXES = "/api/v1/namespaces/team/boxes"
MERGE = "application/merge-patch+json"


@pytest.fixture
def server():
    return toy_kinds.server(FakeClock())


def toy(name="car", **spec):
    return {"metadata": {"name": name}, "spec": spec}


def test_a_new_object_has_what_only_the_server_writes(server):
    code, body = call(server, "POST", TOYS, toy(wheels=4) | {"status": {"sold": True}})
    assert code == 201
    assert body == {
        "kind": "Toy",
        "apiVersion": "toys.io/v1",
        "metadata": {
            "name": "car",
            "namespace": "team",
            "resourceVersion": "3",
            "uid": "uid-00002",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generation": 1,
        },
        "spec": {"wheels": 4},
    }
    assert call(server, "GET", f"{TOYS}/car") == (200, body)


def test_a_generated_name_is_completed(server):
    names = {
        call(server, "POST", TOYS, {"metadata": {"generateName": "car-"}})[1]["metadata"]["name"] for _ in range(3)
    }
    assert len(names) == 3
    assert all(name.startswith("car-") and len(name) == 9 for name in names)


def test_a_generated_name_is_none_that_is_taken():
    server = ApiServer(FakeClock(), kinds=toy_kinds.KINDS, uids=lambda: "always the same")
    call(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    answers = [call(server, "POST", TOYS, {"metadata": {"generateName": "car-"}})[0] for _ in range(3)]
    assert answers == [201, 201, 201]


def test_a_change_of_the_wish_is_a_new_generation_and_status_is_not(server):
    call(server, "POST", TOYS, toy(wheels=4))

    def patch(path, body):
        metadata = call(server, "PATCH", path, body, content_type=MERGE)[1]["metadata"]
        return metadata["generation"], metadata["resourceVersion"]

    assert patch(f"{TOYS}/car", {"spec": {"wheels": 3}, "status": {"sold": True}}) == (2, "4")
    assert patch(f"{TOYS}/car/status", {"spec": {"wheels": 9}, "status": {"sold": True}}) == (2, "5")
    assert patch(f"{TOYS}/car", {"spec": {"wheels": 3}}) == (2, "5"), "nothing has changed"
    assert patch(f"{TOYS}/car", {"metadata": {"labels": {"a": "b"}}}) == (2, "6")
    stored = call(server, "GET", f"{TOYS}/car")[1]
    assert (stored["spec"], stored["status"]) == ({"wheels": 3}, {"sold": True})


def test_an_update_replaces_the_version_that_it_names(server):
    first = call(server, "POST", TOYS, toy(wheels=4))[1]
    code, second = call(server, "PUT", f"{TOYS}/car", {**first, "spec": {"wheels": 3}})
    assert (code, second["metadata"]["resourceVersion"]) == (200, "4")
    assert call(server, "PUT", f"{TOYS}/car", {**first, "spec": {"wheels": 2}})[0] == 409


def test_version_zero_is_none(server):
    none = [{"metadata": {"name": "box", "resourceVersion": version}} for version in ("0", "", "00", "x")]
    for body in none:
        assert call(server, "POST", BOXES, body)[0] == 201
        delete = call(server, "DELETE", f"{BOXES}/box", {"gracePeriodSeconds": 0})
        assert delete[0] == 200
    assert call(server, "POST", BOXES, {"metadata": {"name": "box", "resourceVersion": "1"}})[0] == 500
    call(server, "POST", BOXES, none[0])
    call(server, "POST", TOYS, toy())
    for body, of_built_in in zip(none, (200, 200, 200, 500), strict=True):
        assert call(server, "PUT", f"{BOXES}/box", body)[0] == of_built_in
        body["metadata"]["name"] = "car"
        assert call(server, "PUT", f"{TOYS}/car", body)[0] == (422 if of_built_in == 200 else 500)
    stored = call(server, "GET", f"{BOXES}/box")[1]
    stored["metadata"]["resourceVersion"] = f"0{stored['metadata']['resourceVersion']}"
    assert call(server, "PUT", f"{BOXES}/box", stored)[0] == 200
    stored["metadata"]["resourceVersion"] = str(2**64)
    assert call(server, "PUT", f"{BOXES}/box", stored)[0] == 500


def test_an_older_version_is_the_same_object(server):
    old = "/apis/toys.io/v1alpha1/namespaces/team/toys"
    code, created = call(server, "POST", old, toy(colour="red"))
    assert (code, created["spec"]) == (201, {"colour": "red"})
    assert call(server, "GET", f"{TOYS}/car")[1]["spec"] == {"color": "red"}
    call(server, "PATCH", f"{old}/car", {"spec": {"colour": "blue"}}, content_type=MERGE)
    assert call(server, "GET", f"{TOYS}/car")[1]["spec"] == {"color": "blue"}
    assert call(server, "GET", TOYS)[1]["items"][0]["apiVersion"] == "toys.io/v1"


def test_a_dry_run_changes_nothing(server):
    assert call(server, "POST", TOYS, toy(), dryRun="All")[0] == 201
    assert call(server, "GET", f"{TOYS}/car")[0] == 404
    call(server, "POST", TOYS, toy())
    for method, body in (("PATCH", {"spec": {"wheels": 1}}), ("DELETE", None)):
        assert call(server, method, f"{TOYS}/car", body, content_type=MERGE, dryRun="All")[0] == 200
    assert call(server, "GET", f"{TOYS}/car")[1]["spec"] == {}


def test_an_unknown_field_is_dropped_where_nobody_asks_for_its_validation(server):
    call(server, "POST", "/api/v1/definitions", {"metadata": {"name": "cars"}, "spec": {"plural": "cars"}})
    path, sent = "/apis/made.io/v1/namespaces/team/cars", toy(wheels=4, rust="much")
    assert call(server, "POST", path, sent, fieldValidation="Ignore")[1]["spec"] == {"wheels": 4}


def test_a_dry_run_does_not_look_at_the_version_of_a_new_object(server):
    body = {"metadata": {"name": "box", "resourceVersion": "7"}}
    code, box = call(server, "POST", BOXES, body, dryRun="All")
    assert (code, box["metadata"]["resourceVersion"]) == (201, "7")
    assert call(server, "POST", BOXES, body)[0] == 500


@pytest.mark.parametrize(
    ("body", "media", "problem"),
    [
        (b'{"metadata": {"name": "a"}, "spec": {"parts": [{"id": 1, "id": 2}]}}', "json", "spec.parts[0].id"),
        (b'{"metadata": {"name": "a"}, "metadata": {"name": "a"}}', "json", "metadata"),
        (b"metadata:\n  name: a\nspec:\n  size: 1\n  size: 2\n", "yaml", 'line 5: key \\"size\\" already set'),
    ],
)
def test_a_field_that_stands_twice_is_warned_of_and_under_strict_refused(server, body, media, problem):
    send = {"content_type": f"application/{media}"}
    answer = server.handle(Request("", "POST", BOXES, {}, body, **send))
    assert (answer.code, problem in answer.headers["Warning"]) == (201, True)
    code, status = call(server, "POST", BOXES, body, **send, fieldValidation="Strict")
    assert (code, problem.replace("\\", "") in status["message"]) == (400, True)
    assert "Warning" not in server.handle(Request("", "POST", BOXES, {"fieldValidation": "Ignore"}, body)).headers


def test_yaml_may_have_tabs_where_go_takes_them(server):
    body = b"metadata: {\n\tname: a\n}\nspec:\tx\n"
    code, box = call(server, "POST", BOXES, body, content_type="application/yaml")
    assert (code, box["metadata"]["name"], box["spec"]) == (201, "a", "x")
    bad = call(server, "POST", BOXES, b"metadata:\n\tname: b\n", content_type="application/yaml")
    assert bad[0] == 400


@pytest.mark.parametrize("namespace", ["..", "."])
def test_no_namespace_leads_elsewhere(server, namespace):
    path = f"/api/v1/namespaces/{namespace}/boxes"
    assert [call(server, "GET", path)[0], call(server, "POST", path, toy())[0]] == [500, 500]


def test_an_action_changes_the_object_and_answers_with_a_status(server):
    call(server, "POST", BOXES, toy(size=1))
    code, status = call(server, "POST", f"{BOXES}/car/binding", {"target": {"name": "shelf"}})
    assert (code, status["status"]) == (201, "Success")
    assert call(server, "GET", f"{BOXES}/car")[1]["spec"] == {"size": 1, "on": "shelf"}


def test_a_scale_is_read_from_an_object_and_written_to_it(server):
    path = f"{TOYS}/car/scale"
    call(server, "POST", TOYS, toy())
    assert call(server, "GET", path)[1]["message"].endswith('the spec replicas field ".spec.wheels" does not exist')
    call(server, "PATCH", f"{TOYS}/car", {"spec": {"wheels": 4}}, content_type=MERGE)
    call(server, "PATCH", f"{TOYS}/car/status", {"status": {"wheels": 3, "selector": "a=b"}}, content_type=MERGE)
    scale = call(server, "GET", path)[1]
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 4})
    assert scale["status"] == {"replicas": 3, "selector": "a=b"}
    assert call(server, "PUT", path, {**scale, "spec": {"replicas": 6}})[1]["spec"] == {"replicas": 6}
    assert call(server, "PUT", path, scale)[0] == 409
    assert call(server, "PATCH", path, {"spec": {"replicas": -1}}, content_type=MERGE)[0] == 422
    assert call(server, "GET", f"{TOYS}/car")[1]["spec"] == {"wheels": 6}


def test_an_update_creates_where_the_kind_allows_it(server):
    elsewhere = {"metadata": {"name": "crate", "uid": "other"}}
    assert call(server, "PUT", f"{BOXES}/crate", elsewhere)[0] == 409
    assert call(server, "PUT", f"{BOXES}/crate", {"metadata": {"name": "crate", "resourceVersion": "1"}})[0] == 201
    assert call(server, "PUT", f"{BOXES}/crate", toy("crate", size=2))[0] == 200
    assert call(server, "PUT", f"{TOYS}/car", toy())[0] == 404


@pytest.mark.parametrize(
    ("path", "form", "kind"),
    [
        (f"{TOYS}/car", "PartialObjectMetadata", "PartialObjectMetadata"),
        (TOYS, "PartialObjectMetadataList", "PartialObjectMetadataList"),
        (TOYS, "Table", "Table"),
        (f"{TOYS}/car", "Table", "Table"),
        (TOYS, "PartialObjectMetadata", "Status"),
    ],
)
def test_an_answer_has_the_form_that_is_accepted(server, path, form, kind):
    call(server, "POST", TOYS, toy(wheels=4))
    accept = f"application/json;as={form};v=v1;g=meta.k8s.io"
    code, answer = call(server, "GET", path, accept=accept)
    assert (code, answer["kind"]) == (406 if kind == "Status" else 200, kind)
    assert "wheels" not in str(answer)


class Applier:
    """``kubectl apply --server-side`` of a box."""

    def __init__(self, server, manager="me"):
        self._server = server
        self._manager = manager

    def __call__(self, spec, **metadata):
        body = {"apiVersion": "v1", "kind": "Box", "metadata": {"name": "crate", **metadata}, "spec": spec}
        path, media = f"{BOXES}/crate", "application/apply-patch+yaml"
        query = {"fieldManager": self._manager, "force": "false"}  # as kubectl sends it
        return call(self._server, "PATCH", path, body, content_type=media, **query)


def test_an_apply_replaces_what_the_manager_applied_before(server):
    apply = Applier(server)
    code, first = apply({"size": 1, "colour": "red", "parts": [{"id": "a", "n": 1}, {"id": "b"}]}, labels={"l": "m"})
    assert code == 201
    assert (
        apply({"size": 1, "colour": "red", "parts": [{"id": "a", "n": 1}, {"id": "b"}]}, labels={"l": "m"})[1] == first
    )
    others = {"metadata": {"labels": {"theirs": "x"}}, "spec": {"theirs": "x"}}
    call(server, "PATCH", f"{BOXES}/crate", others, content_type=MERGE)
    code, last = apply({"size": 2, "parts": [{"id": "b", "n": 2}, {"id": "c"}]})
    assert (code, last["metadata"]["labels"]) == (200, {"theirs": "x"})
    assert last["spec"] == {"size": 2, "parts": [{"id": "b", "n": 2}, {"id": "c"}], "theirs": "x"}
    assert [entry["manager"] for entry in last["metadata"]["managedFields"]] == ["me", "unknown"]


def test_an_apply_that_cannot_be_served_says_why(server):
    Applier(server)({"size": 1})
    code, status = Applier(server, "another")({"size": 2})
    assert (code, status["reason"]) == (409, "Conflict")
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "me": .spec.size'
    assert Applier(server, "")({})[1]["details"]["causes"][0]["field"] == "fieldManager"
    assert Applier(server)({}, managedFields=[{"manager": "x"}])[0] == 400
    assert Applier(server)({}, name="other")[0] == 400


UID = {"preconditions": {"uid": "other"}}
OTHERS = {"metadata": {"name": "a", "namespace": "other"}}
STALE = {"metadata": {"name": "car", "resourceVersion": "1"}}
LONG = b'{"metadata":{"name":"' + b"x" * 3 * 1024 * 1024 + b'"}}'


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("GET", f"{TOYS}/plane"), (404, "NotFound", 'toys.toys.io "plane" not found')),
        (("GET", f"{BOXES}/plane"), (404, "NotFound", 'boxes "plane" not found')),
        (("GET", "/apis/toys.io/v2/toys"), (404, "NotFound", "the server could not find the requested resource")),
        (("GET", f"{TOYS}/car/shadow"), (404, "NotFound", 'toys.toys.io "car" not found')),
        (("GET", f"{BOXES}/car/shadow"), (404, "NotFound", "the server could not find the requested resource")),
        (("POST", TOYS, toy()), (409, "AlreadyExists", 'toys.toys.io "car" already exists')),
        (("POST", TOYS, b"{"), (400, "BadRequest", "")),
        (("POST", TOYS, b"[]"), (400, "BadRequest", "")),
        (("POST", TOYS, b"[" * 100_000), (400, "BadRequest", "")),
        (("POST", TOYS, {"metadata": 7}), (400, "BadRequest", "")),
        (("POST", TOYS, LONG), (413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")),
        (("POST", TOYS, {"apiVersion": "toys.io/v1alpha1"}), (400, "BadRequest", "expected API version (toys.io/v1)")),
        (("POST", TOYS, OTHERS), (400, "BadRequest", "does not match the namespace sent on the request")),
        (("POST", TOYS.replace("team", "none"), toy()), (404, "NotFound", 'namespaces "none" not found')),
        (("POST", TOYS, {}), (422, "Invalid", 'Toy.toys.io "" is invalid: metadata.name: Required value: name or ')),
        (("PUT", f"{TOYS}/car", toy()), (422, "Invalid", 'toys.toys.io "car" is invalid: metadata.resourceVersion: ')),
        (
            ("PUT", f"{TOYS}/car", toy("bus")),
            (400, "BadRequest", "object (bus) does not match the name on the URL (car)"),
        ),
        (
            ("PUT", f"{BOXES}/car", STALE),
            (409, "Conflict", 'on boxes "car": the object has been modified; please apply'),
        ),
        (("DELETE", f"{TOYS}/car", UID), (409, "Conflict", "precondition (other) does not match the UID in record (")),
        (("PATCH", f"{TOYS}/car", {}), (415, "UnsupportedMediaType", "")),
        (("PUT", BOXES, toy()), (405, "MethodNotAllowed", "the server does not allow this method on the requested ")),
        (("PUT", TOYS, toy()), (400, "BadRequest", "name must be provided")),
        (
            ("POST", f"{TOYS}/car/status", toy()),
            (405, "MethodNotAllowed", "create is not supported on resources of kind"),
        ),
        (("POST", "/api/v1/boxes", toy()), (405, "MethodNotAllowed", "")),
        (("POST", "/apis/toys.io/v1/toys", toy()), (404, "NotFound", "")),
    ],
)
def test_an_error_is_a_status_in_the_words_of_the_real_server(server, arguments, expected):
    call(server, "POST", TOYS, toy())
    call(server, "POST", BOXES, toy())
    code, status = call(server, *arguments)
    assert (code, status["kind"], status["code"], status["reason"]) == (expected[0], "Status", *expected[:2])
    assert expected[2] in status["message"]


def test_a_defect_is_a_status_too(server, monkeypatch):
    monkeypatch.setattr(server, "_answer", None)
    code, status = call(server, "GET", TOYS)
    assert (code, status["reason"]) == (500, "InternalError")


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward"])
def test_what_takes_a_node_is_refused_with_a_way_out(server, subresource):
    code, status = call(server, "POST", f"{BOXES}/b/{subresource}")
    assert (code, status["reason"]) == (405, "MethodNotAllowed")
    assert f"{subresource} of pods is not served here" in status["message"]


def test_yaml_whose_aliases_stand_for_more_than_memory_holds_is_refused(server):
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 12))
    text = f"metadata: {{name: bomb}}\nl0: &l0 [x]\n{levels}".encode()
    code, status = call(server, "POST", BOXES, text, content_type="application/yaml")
    assert (code, "excessive aliasing" in status["message"]) == (400, True)


@pytest.mark.parametrize(
    ("method", "accept", "left"),
    [("GET", "application/json;as=Table;v=v1;g=meta.k8s.io", MOST_AT_ONCE + 1), ("DELETE", "application/json", 1)],
)
def test_an_answer_about_many_objects_is_made_in_parts_and_about_no_others(server, method, accept, left):
    last = f"toy-{MOST_AT_ONCE:04}"
    for number in range(MOST_AT_ONCE + 1):
        call(server, "POST", TOYS, toy(f"toy-{number:04}"))
    parts = server.begin(Request("", method, TOYS, accept=accept))
    next(parts)
    call(server, "DELETE", f"{TOYS}/{last}")
    call(server, "POST", TOYS, toy(last))

    with pytest.raises(StopIteration) as end:
        [next(parts) for _ in range(9)]

    answer = json.loads(end.value.value.body)
    assert len(answer.get("rows") or answer["items"]) == MOST_AT_ONCE + 1
    assert len(call(server, "GET", TOYS)[1]["items"]) == left, "which is no longer the same object"
