"""Counting requests in an audit log."""

import json

import pytest

from support.audit import AuditLog, Request, requests_of


def event(number: int, verb: str = "get", resource: str = "pods", **more: object) -> dict:
    target = {"resource": resource, "namespace": "ns", "name": "a", **more.pop("target", {})}
    return {
        "auditID": f"id-{number}",
        "stage": "ResponseComplete",
        "verb": verb,
        "requestURI": "/uri",
        "user": {"username": "operator"},
        "userAgent": "tf-operator/1.0",
        "objectRef": target,
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": f"2026-01-01T00:00:{number:02}.000000Z",
        **more,
    }


def text(*events: dict) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in events)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.log"


def test_a_request_is_read_with_its_group_and_subresource():
    job = event(1, "patch", "tfjobs", target={"apiGroup": "kubeflow.org", "subresource": "status"})

    (found,) = requests_of([job])

    assert found == Request(
        verb="patch",
        resource="tfjobs.kubeflow.org/status",
        namespace="ns",
        name="a",
        code=200,
        user="operator",
        user_agent="tf-operator/1.0",
        uri="/uri",
        at="2026-01-01T00:00:01.000000Z",
    )


def test_a_request_counts_once_however_many_stages_were_logged():
    stages = [
        event(1, stage="RequestReceived", responseStatus={}),
        event(1, stage="ResponseStarted"),
        event(1, stage="ResponseComplete", responseStatus={"code": 409}),
    ]

    assert requests_of(stages).tally() == {("get", "pods", 409): 1}


def test_requests_are_in_the_order_in_which_they_came_not_in_which_they_ended():
    assert [entry.at[17:19] for entry in requests_of([event(3), event(1), event(2)])] == ["01", "02", "03"]


def test_writes_are_all_that_is_not_a_read():
    verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]

    found = requests_of([event(number, verb) for number, verb in enumerate(verbs)])

    assert [entry.verb for entry in found.writes()] == verbs[3:]


def test_requests_are_chosen_by_user_agent_namespace_and_resource():
    found = requests_of(
        [
            event(1),
            event(2, user={"username": "other"}),
            event(3, userAgent="kubectl/1"),
            event(4, target={"namespace": "elsewhere"}),
            event(5, resource="services"),
        ]
    )

    chosen = found.by(user="operator", user_agent="tf-operator", namespace="ns").of("pods")

    assert [entry.at[17:19] for entry in chosen] == ["01"]
    assert len(found.by()) == 5


def test_a_request_without_an_object_or_an_answer_is_still_a_request():
    bare = event(1)
    del bare["objectRef"], bare["responseStatus"]

    (found,) = requests_of([bare])

    assert (found.resource, found.namespace, found.code) == ("", "", 0)


def test_only_what_comes_after_the_mark_is_read(path):
    path.write_text(text(event(1)))
    log = AuditLog(path)
    mark = log.mark()

    with path.open("a") as file:
        file.write(text(event(2), event(3)))

    assert len(log.since(mark)) == 2
    assert len(log.since()) == 3


def test_a_line_that_is_being_written_is_left_for_later(path):
    whole = text(event(1), event(2))
    path.write_text(whole[:-20])
    log = AuditLog(path)
    mark = log.mark()
    assert len(log.since()) == 1

    path.write_text(whole)

    assert [entry.at[17:19] for entry in log.since(mark)] == ["02"]


def test_a_log_that_does_not_exist_yet_is_empty(path):
    log = AuditLog(path)

    assert len(log.since(log.mark())) == 0


def test_a_rotated_log_is_an_error_and_not_a_small_count(path):
    path.write_text(text(event(1), event(2)))
    log = AuditLog(path)
    mark = log.mark()
    path.write_text(text(event(3)))

    with pytest.raises(ValueError, match="was rotated"):
        log.since(mark)
