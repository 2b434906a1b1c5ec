"""Deletion, and what goes with what is deleted."""

import pytest
from structlog.testing import capture_logs

from support.fake_clock import FakeClock
from support.toys import toy_kinds
from support.toys.toy_kinds import call, events, watch
from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.apiserver.writes.collector import MOST_AT_ONCE, RETRY_AFTER
from tf_operator.meta import uid_of

TOYS = "/apis/toys.io/v1/namespaces/team/toys"
BOXES = "/api/v1/namespaces/team/boxes"
NOTES = "/api/v1/namespaces/team/notes"
MERGE = "application/merge-patch+json"


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def server(clock):
    return toy_kinds.server(clock)


def put(server, path, name, *, owners=(), finalizers=()):
    metadata = {"name": name, "ownerReferences": list(owners), "finalizers": list(finalizers)}
    code, body = call(server, "POST", path, {"metadata": metadata})
    assert code == 201
    return body


def owned_by(body, *, blocks=True, **other):
    names = {"apiVersion": body["apiVersion"], "kind": body["kind"], "name": body["metadata"]["name"]}
    return names | {"uid": uid_of(body), "blockOwnerDeletion": blocks} | other


def delete(server, path, **options):
    return call(server, "DELETE", path, options or None)


def names(server, path):
    return [item["metadata"]["name"] for item in call(server, "GET", path)[1]["items"]]


def settle(server):
    while server.collect():
        pass


def test_without_finalizers_and_grace_an_object_is_gone_at_once(server):
    stream = watch(server, TOYS)
    created = put(server, TOYS, "car")
    code, status = delete(server, f"{TOYS}/car")
    details = {"name": "car", "group": "toys.io", "kind": "toys", "uid": uid_of(created)}
    assert (code, status["status"], status["details"]) == (200, "Success", details)
    assert events(stream) == ["ADDED car 3", "DELETED car 4"]


def test_a_finalizer_keeps_an_object_until_it_is_removed(server):
    put(server, TOYS, "car", finalizers=["a.io/b"])
    stream = watch(server, TOYS, resourceVersion="3")
    metadata = delete(server, f"{TOYS}/car")[1]["metadata"]
    assert (metadata["deletionGracePeriodSeconds"], metadata["generation"]) == (0, 2)
    added = {"metadata": {"finalizers": ["a.io/b", "c.io/d"]}}
    assert call(server, "PATCH", f"{TOYS}/car", added, content_type=MERGE)[0] == 422
    assert call(server, "PATCH", f"{TOYS}/car", {"metadata": {"finalizers": None}}, content_type=MERGE)[0] == 200
    assert events(stream) == ["MODIFIED car 4", "DELETED car 5"]


def test_a_grace_period_is_marked_and_can_only_become_shorter(server):
    put(server, BOXES, "crate")
    stream = watch(server, BOXES, resourceVersion="3")

    def deadline(**options):
        metadata = delete(server, f"{BOXES}/crate", **options)[1]["metadata"]
        return metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]

    assert deadline() == ("2026-01-01T00:00:10Z", 10)
    assert deadline(gracePeriodSeconds=60) == ("2026-01-01T00:00:10Z", 10)
    assert deadline(gracePeriodSeconds=3) == ("2026-01-01T00:00:03Z", 3)
    delete(server, f"{BOXES}/crate", gracePeriodSeconds=0)
    assert events(stream) == ["MODIFIED crate 4", "MODIFIED crate 5", "MODIFIED crate 6", "DELETED crate 7"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"preconditions": {"uid": "uid-00002", "resourceVersion": "3"}}, 200),
        ({"preconditions": {"resourceVersion": "2"}}, 409),
        ({"preconditions": {"uid": ""}}, 409),
        ({"propagationPolicy": "Sideways"}, 422),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422),
        ({"kind": "Toy"}, 400),
        ({"gracePeriodSeconds": "long"}, 400),
        ({"dryRun": ["All"]}, 200),
    ],
    ids=str,
)
def test_options_are_checked_before_anything_is_deleted(server, options, code):
    put(server, TOYS, "car")
    assert delete(server, f"{TOYS}/car", **options)[0] == code
    assert (names(server, TOYS) == []) is (code == 200 and "dryRun" not in options)


def test_options_in_the_query_count_without_a_body_only(server):
    put(server, TOYS, "car")
    assert call(server, "DELETE", f"{TOYS}/car", dryRun="All")[0] == 200
    assert names(server, TOYS) == ["car"]
    assert call(server, "DELETE", f"{TOYS}/car", {"gracePeriodSeconds": 0}, dryRun="All")[0] == 200
    assert names(server, TOYS) == []


def test_dependents_go_after_their_last_owner(server):
    car, bus = put(server, TOYS, "car"), put(server, TOYS, "bus")
    put(server, TOYS, "of-car", owners=[owned_by(car)])
    put(server, TOYS, "of-both", owners=[owned_by(car), owned_by(bus)])
    delete(server, f"{TOYS}/car")
    settle(server)
    assert names(server, TOYS) == ["bus", "of-both"]
    owners = call(server, "GET", f"{TOYS}/of-both")[1]["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in owners] == ["bus"]


@pytest.mark.parametrize(
    ("wrong", "stays"),
    [
        ({"uid": "never"}, False),
        ({"kind": "Box", "apiVersion": "v1"}, False),
        ({"name": "bus"}, False),
        ({"kind": "Alien"}, True),
        ({"apiVersion": "toys.io/v1alpha1"}, True),
        ({}, True),
    ],
)
def test_an_owner_is_known_by_kind_name_and_uid(server, wrong, stays):
    car = put(server, TOYS, "car")
    put(server, TOYS, "wheel", owners=[owned_by(car, **wrong)])
    settle(server)
    assert ("wheel" in names(server, TOYS)) is stays


def test_an_object_of_the_cluster_cannot_be_owned_by_one_of_a_namespace_and_stays(server):
    car = put(server, TOYS, "car")
    put(server, "/api/v1/namespaces", "garage", owners=[owned_by(car)])
    settle(server)
    delete(server, f"{TOYS}/car")
    settle(server)
    assert names(server, "/api/v1/namespaces") == ["garage", "team"]


def test_in_the_foreground_an_owner_waits_for_those_that_block_it(server):
    car = put(server, TOYS, "car")
    put(server, BOXES, "blocks", owners=[owned_by(car)])
    put(server, BOXES, "follows", owners=[owned_by(car, blocks=False)])
    delete(server, f"{TOYS}/car", propagationPolicy="Foreground")
    settle(server)
    assert call(server, "GET", f"{TOYS}/car")[1]["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert all("deletionTimestamp" in item["metadata"] for item in call(server, "GET", BOXES)[1]["items"])
    delete(server, f"{BOXES}/blocks", gracePeriodSeconds=0)
    settle(server)
    assert names(server, TOYS) == []
    assert names(server, BOXES) == ["follows"]


def test_orphans_stay_without_their_owner(server):
    car = put(server, TOYS, "car")
    put(server, TOYS, "wheel", owners=[owned_by(car)])
    delete(server, f"{TOYS}/car", propagationPolicy="Orphan")
    settle(server)
    assert names(server, TOYS) == ["wheel"]
    assert "ownerReferences" not in call(server, "GET", f"{TOYS}/wheel")[1]["metadata"]


def test_a_namespace_goes_after_its_content(server):
    put(server, TOYS, "car")
    put(server, BOXES, "crate")
    team = "/api/v1/namespaces/team"
    assert delete(server, team)[1]["status"] == {"phase": "Terminating"}
    code, status = call(server, "POST", TOYS, {"metadata": {"name": "late"}})
    assert (code, status["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    settle(server)
    assert (names(server, TOYS), names(server, BOXES)) == ([], ["crate"])
    assert call(server, "GET", team)[0] == 200
    delete(server, f"{BOXES}/crate", gracePeriodSeconds=0)
    settle(server)
    assert call(server, "GET", team)[0] == 404


def test_a_step_of_the_collector_is_bounded(server):
    car = put(server, TOYS, "car")
    for number in range(MOST_AT_ONCE + 1):
        put(server, TOYS, f"of-car-{number:03}", owners=[owned_by(car)])
        put(server, NOTES, f"{number:03}")
    settle(server)
    delete(server, f"{TOYS}/car")
    for left in (1, 0):
        assert server.collect()
        assert len(names(server, TOYS)) == left
    delete(server, "/api/v1/namespaces/team")
    for left in (1, 0):
        assert server.collect()
        assert len(names(server, NOTES)) == left


@pytest.mark.parametrize("has_controllers", [True, False])
def test_a_definition_goes_after_its_objects_and_with_controllers_their_dependents_go(clock, has_controllers):
    server = toy_kinds.server(clock, has_controllers=has_controllers)
    plural = {"metadata": {"name": "apps"}, "spec": {"plural": "apps"}}
    assert call(server, "POST", "/api/v1/definitions", plural)[0] == 201
    apps = "/apis/made.io/v1/namespaces/team/apps"
    app = put(server, apps, "one")
    put(server, BOXES, "crate", owners=[owned_by(app)])
    delete(server, "/api/v1/definitions/apps")
    settle(server)
    assert call(server, "GET", apps)[0] == 404
    assert call(server, "GET", "/api/v1/definitions/apps")[0] == 404
    assert ("deletionTimestamp" in call(server, "GET", f"{BOXES}/crate")[1]["metadata"]) == has_controllers


async def test_what_has_a_time_to_live_goes_after_its_last_write(server, clock):
    put(server, NOTES, "first")
    put(server, NOTES, "second")
    await clock.advance(50)
    call(server, "PATCH", f"{NOTES}/first", {"spec": {"again": True}}, content_type=MERGE)
    await clock.advance(15)
    settle(server)
    assert names(server, NOTES) == ["first"]
    await clock.advance(50)
    settle(server)
    assert names(server, NOTES) == []


def test_a_collection_is_deleted_by_selector(server):
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        call(server, "POST", TOYS, {"metadata": {"name": name, "labels": {"l": label}}})
    code, listing = call(server, "DELETE", TOYS, labelSelector="l=x")
    assert (code, listing["kind"], len(listing["items"])) == (200, "ToyList", 2)
    assert names(server, TOYS) == ["b"]


def test_each_namespace_has_its_service_account_until_it_ends():
    server = ApiServer(FakeClock(), kinds=catalog.KINDS)
    accounts = "/api/v1/namespaces/team/serviceaccounts"
    call(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    settle(server)
    assert names(server, accounts) == ["default"]
    delete(server, f"{accounts}/default")
    settle(server)
    assert names(server, accounts) == ["default"]
    delete(server, "/api/v1/namespaces/team")
    settle(server)
    assert call(server, "GET", "/api/v1/namespaces/team")[0] == 404
    assert names(server, "/api/v1/serviceaccounts") == []


@pytest.mark.parametrize("seconds", [2**63 - 1, 10**18])
def test_a_grace_period_without_end_is_kept(seconds):
    server = ApiServer(FakeClock(), kinds=catalog.KINDS)
    call(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    pods, container = "/api/v1/namespaces/team/pods", {"name": "c", "image": "i"}
    spec = {"nodeName": "n", "containers": [container], "terminationGracePeriodSeconds": seconds}
    assert call(server, "POST", pods, {"metadata": {"name": "p"}, "spec": spec})[0] == 201
    code, pod = delete(server, f"{pods}/p")
    assert (code, pod["metadata"]["deletionGracePeriodSeconds"]) == (200, seconds)
    assert delete(server, f"{pods}/p", kind="DeleteOptions", gracePeriodSeconds=0)[0] == 200
    assert call(server, "GET", f"{pods}/p")[0] == 404


async def test_what_could_not_be_collected_is_tried_again_and_reported_once(server, clock, monkeypatch):
    car = put(server, TOYS, "car")
    for name in ("wheel", "door"):
        put(server, TOYS, name, owners=[owned_by(car)])
    put(server, NOTES, "old")
    await clock.advance(61)
    delete(server, f"{TOYS}/car")
    with capture_logs() as records, monkeypatch.context() as patch:
        patch.setattr(server.store, "commit", None)
        for _ in range(3):
            assert not server.collect()
            await clock.advance(RETRY_AFTER)
    assert [record["event"] for record in records] == ["an object cannot be collected; trying again"]
    assert server.collects_again_at == clock.monotonic()
    settle(server)
    assert (names(server, TOYS), names(server, NOTES), server.collects_again_at) == ([], [], None)
