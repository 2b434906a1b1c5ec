"""Which container's log is meant, and which part of it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tf_operator.local.apiserver.http import pod_logs
from tf_operator.local.apiserver.http.pod_logs import LogRequest
from tf_operator.local.apiserver.messages import ApiFailure
from tf_operator.local.log_source import LogGone
from tf_operator.meta import ObjectKey, rfc3339

ALL = LogRequest(
    "a", follow=False, previous=False, timestamps=False, tail_lines=None, since_seconds=None, limit_bytes=None
)
RUNNING = {"state": {"running": {}}}
ENDED = {"terminated": {"containerID": "process://1"}}


def pod(*containers, init=(), node="local", **statuses):
    listed = [{"name": name, **status} for name, status in statuses.items()]
    spec = {"containers": [{"name": name} for name in containers], "initContainers": [{"name": name} for name in init]}
    status = {"containerStatuses": listed} if listed else {}
    return {"metadata": {"name": "p"}, "spec": spec | ({"nodeName": node} if node else {}), "status": status}


def request_of(pod_body, clock, **query):
    return pod_logs.parse(query, pod_body, clock.now())


def test_parameters_are_those_of_kubectl(clock):
    query = {"follow": "true", "previous": "false", "timestamps": "1", "tailLines": "0", "limitBytes": "5"}
    request = request_of(pod("a", "b", b=RUNNING), clock, container="b", sinceSeconds="60", **query)

    assert request == LogRequest(
        "b", follow=True, previous=False, timestamps=True, tail_lines=0, since_seconds=60, limit_bytes=5
    )


def test_since_a_time_is_since_so_many_seconds(clock):
    since = rfc3339(clock.now() - timedelta(seconds=90))
    assert request_of(pod("a", a=RUNNING), clock, sinceTime=since).since_seconds == 90


@pytest.mark.parametrize(
    "status",
    [
        RUNNING,
        {"state": ENDED},
        {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ENDED},
    ],
)
def test_the_only_container_has_a_log_once_it_has_run(clock, status):
    assert request_of(pod("a", a=status, init=("i",)), clock) == ALL


def test_a_log_that_was_deleted_is_not_taken_for_an_empty_one(clock):
    class NoLogs:
        def read(self, *_where, **_options):
            raise LogGone

    for wish, run in ((ALL, "container a"), (replace(ALL, previous=True), "the previous run of container a")):
        with pytest.raises(ApiFailure, match=f"the log of {run} in pod p was deleted") as refused:
            wish.read(NoLogs(), ObjectKey("n", "p"))
        assert (refused.value.code, refused.value.reason) == (410, "Gone")


def test_a_pod_without_a_node_has_an_empty_log(clock):
    assert request_of(pod("a", node=""), clock) is None


@pytest.mark.parametrize(
    ("pod_body", "query", "code", "message"),
    [
        (pod("a", "b"), {}, 400, "a container name must be specified for pod p, choose one of: [a b]"),
        (
            pod("a", "b", init=("i",)),
            {},
            400,
            "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i]",
        ),
        (pod("a"), {"container": "x"}, 400, "container x is not valid for pod p"),
        (pod("a"), {}, 400, 'container "a" in pod "p" is not available'),
        (
            pod("a", a={"state": {"waiting": {"reason": "ContainerCreating"}}}),
            {},
            400,
            'container "a" in pod "p" is waiting to start: ContainerCreating',
        ),
        (pod("a", a={}), {}, 400, 'container "a" in pod "p" is waiting to start - no logs yet'),
        (
            pod("a", a=RUNNING),
            {"previous": "true"},
            400,
            'previous terminated container "a" in pod "p" not found',
        ),
        (pod("a", a=RUNNING), {"follow": "maybe"}, 400, 'strconv.ParseBool: parsing "maybe": invalid syntax'),
        (pod("a", a=RUNNING), {"tailLines": "x"}, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        (pod("a", a=RUNNING), {"sinceTime": "noon"}, 400, "sinceTime 'noon' is no time as in 2026-01-31T12:00:00Z"),
        (
            pod("a", a=RUNNING),
            {"tailLines": "-1"},
            422,
            'PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0',
        ),
        (
            pod("a", a=RUNNING),
            {"limitBytes": "0"},
            422,
            'PodLogOptions "p" is invalid: limitBytes: Invalid value: 0: must be greater than 0',
        ),
    ],
)
def test_what_cannot_be_read_says_why(clock, pod_body, query, code, message):
    with pytest.raises(ApiFailure) as failure:
        request_of(pod_body, clock, **query)
    assert (failure.value.code, str(failure.value)) == (code, message)
