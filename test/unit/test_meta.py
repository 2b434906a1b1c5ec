"""Keys, owners and times are read from bodies that nobody has vouched for."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tf_operator import meta
from tf_operator.meta import ObjectKey, OwnerRef

OWNER = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "name": "mnist",
    "uid": "u1",
    "controller": True,
    "blockOwnerDeletion": True,
}


def test_a_key_reads_as_kubectl_writes_it():
    assert str(ObjectKey("default", "mnist")) == "default/mnist"
    assert str(ObjectKey("", "node-1")) == "node-1"


def test_the_accessors_read_what_the_apiserver_sends():
    body = {
        "metadata": {
            "namespace": "default",
            "name": "mnist-worker-0",
            "uid": "u2",
            "resourceVersion": "17",
            "labels": {"a": "b"},
            "ownerReferences": [OWNER],
        }
    }

    assert meta.key_of(body) == ObjectKey("default", "mnist-worker-0")
    assert meta.uid_of(body) == "u2"
    assert meta.resource_version_of(body) == "17"
    assert meta.labels_of(body) == {"a": "b"}
    owner = meta.controller_of(body)
    assert owner == OwnerRef("kubeflow.org/v1", "TFJob", "mnist", "u1", controller=True, block_owner_deletion=True)
    assert owner.group == "kubeflow.org"
    assert owner.body() == OWNER


def test_an_owner_of_the_core_group_has_no_group():
    assert OwnerRef("v1", "Pod", "p", "u").group == ""


def test_an_owner_that_does_not_control_is_no_controller():
    body = {"metadata": {"ownerReferences": [OWNER | {"controller": "true"}, OWNER | {"controller": False}]}}

    assert len(list(meta.owners_of(body))) == 2
    assert meta.controller_of(body) is None


@pytest.mark.parametrize("entry", ["text", None, {}, {"uid": 7}], ids=["text", "null", "empty", "uid-is-a-number"])
def test_an_entry_that_is_no_owner_reference_is_passed_over(entry):
    body = {"metadata": {"ownerReferences": [entry, OWNER]}}

    assert [owner.uid for owner in meta.owners_of(body)] == ["u1"]


def test_labels_that_are_no_text_are_left_out():
    assert meta.labels_of({"metadata": {"labels": {"a": 1, "b": "x"}}}) == {"b": "x"}


def test_a_selector_is_the_same_text_whatever_the_order_of_the_labels():
    assert meta.selector_text({"b": "2", "a": "1"}) == meta.selector_text({"a": "1", "b": "2"}) == "a=1,b=2"


def test_a_time_has_whole_seconds_in_utc():
    moment = datetime(2026, 1, 2, 5, 4, 5, 678_900, tzinfo=timezone(timedelta(hours=2)))

    assert meta.rfc3339(moment) == "2026-01-02T03:04:05Z"


def test_a_micro_time_has_six_digits_even_when_they_are_zero():
    assert meta.micro_time(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == "2026-01-02T03:04:05.000000Z"


@pytest.mark.parametrize("year", [1, 25, 500, 999, 1000, 9999])
def test_a_year_has_four_digits_whatever_it_is(year):
    """Go refuses any other; and what somebody wrote into a Lease is written back with each renewal."""
    moment = datetime(year, 1, 2, 3, 4, 5, tzinfo=UTC)

    assert meta.rfc3339(moment) == f"{year:04}-01-02T03:04:05Z"
    assert meta.micro_time(moment) == f"{year:04}-01-02T03:04:05.000000Z"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05.5Z", datetime(2026, 1, 2, 3, 4, 5, 500_000, tzinfo=UTC)),
        ("2026-01-02T03:04:05.123456789Z", datetime(2026, 1, 2, 3, 4, 5, 123_456, tzinfo=UTC)),
        ("2026-01-02T05:04:05+02:00", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02t03:04:05z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
    ],
    ids=["seconds", "tenths", "nanoseconds", "zone", "lower-case"],
)
def test_a_time_is_read_as_any_client_may_have_written_it(text, expected):
    assert meta.parse_time(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        "",
        "yesterday",
        "2026-13-45T00:00:00Z",
        "2026-01-02",
        "2026-01-02T03:04:05",
        "0001-01-01T00:00:00+23:59",
    ],
)
def test_what_is_no_time_is_none(text):
    assert meta.parse_time(text) is None
