"""The JSON of Events, their names, and how messages are shortened."""

from datetime import UTC, datetime, timedelta

import pytest

from tf_operator.machinery.events import event_object
from tf_operator.machinery.events.event_object import MOST_BYTES, EventKey, EventSeries, Reference, Reporter, printable
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import ObjectKey

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TFJOBS = Resource("kubeflow.org", "v1", "tfjobs", "TFJob")
JOB = event_object.reference_to(TFJOBS, ObjectKey("team", "mnist"), "job-uid")
POD = Reference("v1", "Pod", ObjectKey("team", "mnist-worker-0"), "pod-uid")
REPORTER = Reporter("tfjob-controller", "tf-operator-0")


def test_an_event_is_what_clients_of_the_core_api_read():
    series = EventSeries("Warning", "no", NOON, NOON + timedelta(seconds=5), count=2)

    assert event_object.make_event(EventKey(JOB, "FailedCreate", POD), series, REPORTER) == {
        "metadata": {"namespace": "team", "name": "mnist.6b7b005f89fe34be"},
        "involvedObject": {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "namespace": "team",
            "name": "mnist",
            "uid": "job-uid",
        },
        "related": {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "mnist-worker-0", "uid": "pod-uid"},
        "reason": "FailedCreate",
        "type": "Warning",
        "message": "no",
        "count": 2,
        "firstTimestamp": "2026-01-01T12:00:00Z",
        "lastTimestamp": "2026-01-01T12:00:05Z",
        "source": {"component": "tfjob-controller"},
        "reportingComponent": "tfjob-controller",
        "reportingInstance": "tf-operator-0",
    }


def test_an_event_about_a_cluster_scoped_object_lives_in_default():
    node = Reference("v1", "Node", ObjectKey("", "node-1"), "node-uid")

    event = event_object.make_event(EventKey(node, "Ready"), EventSeries("Normal", "", NOON, NOON), REPORTER)

    assert event["metadata"]["namespace"] == "default"
    assert "namespace" not in event["involvedObject"]
    assert "related" not in event


def test_the_name_is_the_same_for_the_same_key_and_different_for_every_other():
    other_job = Reference(JOB.api_version, JOB.kind, JOB.key, "another-uid")
    keys = [EventKey(JOB, "A"), EventKey(JOB, "B"), EventKey(JOB, "A", POD), EventKey(other_job, "A")]
    keys += [EventKey(JOB, "A", text=text) for text in ("", "a")]

    names = {key.event_key(REPORTER).name for key in keys}
    other_names = {key.event_key(Reporter("other", "tf-operator-0")).name for key in keys}

    assert len(names | other_names) == 12
    assert EventKey(JOB, "A").event_key(REPORTER) == EventKey(JOB, "A").event_key(
        Reporter("tfjob-controller", "another")
    )


def test_a_long_name_is_cut_to_one_that_is_allowed():
    long = Reference("v1", "Pod", ObjectKey("team", "a" * 235 + "-." + "b" * 16), "uid")

    name = EventKey(long, "A").event_key(REPORTER).name

    assert len(name) <= 253
    assert name.startswith("a" * 235 + ".")


def test_a_series_counts_up_and_shows_the_latest_message():
    first = EventSeries("Normal", "one", NOON, NOON)

    both = first.followed_by(EventSeries("Warning", "two", NOON + timedelta(seconds=9), NOON + timedelta(seconds=9)))

    assert both == EventSeries("Warning", "two", NOON, NOON + timedelta(seconds=9), count=2)


OURS = {"firstTimestamp": "2026-01-01T12:00:00Z", "reportingInstance": "tf-operator-0"}


@pytest.mark.parametrize(
    ("stored", "count"),
    [
        pytest.param(OURS | {"count": 1}, 0, id="our own, whose reply was lost"),
        pytest.param(OURS | {"reportingInstance": "another", "count": 7}, 7, id="of another instance"),
        pytest.param(OURS | {"firstTimestamp": "2026-01-01T11:00:00Z", "count": 7}, 7, id="of an earlier time"),
        pytest.param({"count": None}, 1, id="without a count"),
        pytest.param({"count": "many"}, 1, id="with an invalid count"),
        pytest.param({"count": -3}, 1, id="with a negative count"),
    ],
)
def test_an_event_that_exists_already_is_counted_on_from_where_it_is(stored, count):
    assert event_object.counted_before(stored, EventSeries("Normal", "", NOON, NOON), REPORTER) == count


@pytest.mark.parametrize("text", ["x" * 1025, "世" * 1000, "\n" * 1024, "x" * 1022 + "世", "x" * 10**6])
def test_a_long_message_is_cut_and_says_so(text):
    cut = printable(text)

    assert MOST_BYTES - 4 <= len(cut.encode()) <= MOST_BYTES
    assert cut.endswith("...")
