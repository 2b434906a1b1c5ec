"""The Lease as a value: how it is read, and what is written."""

from datetime import UTC, datetime, timedelta

import pytest

from support.disturbances.loopback import Loopback, reply
from support.leases.lease_model import KEY
from support.operators.config_source import ConfigSource
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.election.lease import (
    LONGEST_LEASE,
    Lease,
    LeaseLock,
    LeaseRecord,
    Observation,
    open_lock,
    read_lease,
)
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.config import ClientConfig
from tf_operator.machinery.transport.connection import Connection

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(seconds=2, microseconds=5)


def lease(**spec):
    return read_lease({"metadata": {"name": "tf-operator", "uid": "u", "resourceVersion": "7"}, "spec": spec})


class OneReply:
    """A client that records its calls, and gives the same reply to each."""

    def __init__(self, reply):
        self.calls = []
        self._reply = reply

    def __getattr__(self, verb):
        async def call(resource, *arguments):
            self.calls.append((verb, str(resource), *arguments))
            if isinstance(self._reply, Exception):
                raise self._reply
            return self._reply

        return call


LEASES = "leases.coordination.k8s.io"
REPLY = {"metadata": {"uid": "u", "resourceVersion": "8"}, "spec": {"holderIdentity": "a"}}
RECORD = LeaseRecord(holder="a", seconds=15, acquire_time=NOON, renew_time=NOON)


def test_times_are_written_with_six_digits_when_the_second_is_whole():
    spec = LeaseRecord().held("a", seconds=15, now=NOON).spec()

    assert spec["renewTime"] == spec["acquireTime"] == "2026-01-01T12:00:00.000000Z"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({}, id="no spec"),
        pytest.param({"spec": None}, id="spec null"),
        pytest.param({"spec": "x"}, id="spec text"),
        pytest.param({"spec": {"holderIdentity": None}}, id="all null"),
        pytest.param({"spec": {"holderIdentity": 5}}, id="holder number"),
        pytest.param({"spec": {"leaseDurationSeconds": 2**31}}, id="duration too long"),
        pytest.param({"spec": {"leaseDurationSeconds": LONGEST_LEASE + 1}}, id="duration longer than any"),
        pytest.param({"spec": {"leaseDurationSeconds": 0}}, id="duration zero"),
        pytest.param({"spec": {"leaseDurationSeconds": -1}}, id="duration negative"),
        pytest.param({"spec": {"leaseDurationSeconds": True}}, id="duration boolean"),
        pytest.param({"spec": {"leaseDurationSeconds": "15"}}, id="duration text"),
        pytest.param({"spec": {"leaseTransitions": -1}}, id="transitions negative"),
        pytest.param({"spec": {"leaseTransitions": 2**31 - 1}}, id="transitions at the end"),
        pytest.param({"spec": {"renewTime": "yesterday", "acquireTime": 17}}, id="times no times"),
    ],
)
def test_an_invalid_lease_reads_like_an_empty_one(body):
    assert read_lease(body).record == LeaseRecord()


def test_a_renewal_repairs_a_time_that_is_none():
    assert LeaseRecord(holder="a").held("a", seconds=15, now=LATER).acquire_time == LATER


def test_a_released_lease_is_nobodys_and_lasts_one_second():
    record = LeaseRecord(holder="a", seconds=15, acquire_time=NOON, renew_time=NOON, transitions=3)

    assert record.released(LATER) == LeaseRecord("", seconds=1, acquire_time=LATER, renew_time=LATER, transitions=3)


@pytest.mark.parametrize(("version", "since"), [("7", 100.0), ("9", 130.0)], ids=["the same", "a new one"])
def test_a_lease_is_as_old_as_its_version_whatever_it_says(version, since):
    first = lease(holderIdentity="a")
    second = Lease(first.record, {**first.body, "metadata": {**first.body["metadata"], "resourceVersion": version}})

    assert Observation(first, at=100.0).followed_by(second, at=130.0) == Observation(second, at=since)


async def test_a_404_that_says_nothing_about_the_lease_is_an_error():
    page = errors.NotFound(404, errors.Status(message="HTTP 404: <html>"))

    with pytest.raises(errors.NotFound):
        await LeaseLock(OneReply(page), KEY).read()


async def test_a_lease_is_read_and_created_under_its_name():
    client = OneReply(REPLY)
    lock = LeaseLock(client, KEY)

    assert await lock.read() == Lease(LeaseRecord("a"), REPLY)
    await lock.create(RECORD)

    body = {"metadata": {"namespace": KEY.namespace, "name": KEY.name}, "spec": RECORD.spec()}
    assert client.calls == [("get", LEASES, KEY), ("create", LEASES, KEY.namespace, body)]


async def test_an_update_keeps_unknown_fields_and_sends_uid_and_version_back():
    client = OneReply(REPLY)
    metadata = {"name": KEY.name, "uid": "u", "resourceVersion": "7", "labels": {"team": "ml"}}
    stored = read_lease({"metadata": {**metadata, "managedFields": [{}]}, "spec": {"strategy": "x", "renewTime": 5}})

    await LeaseLock(client, KEY).update(stored, RECORD)

    body = {"metadata": metadata, "spec": {"strategy": "x", **RECORD.spec()}}
    assert client.calls == [("update", LEASES, KEY, body)]


async def test_annotations_are_written_with_each_record_beside_those_of_others():
    client = OneReply(REPLY)
    lock = LeaseLock(client, KEY, {"mine": "new"})
    annotations = {"theirs": "x", "mine": "old"}

    await lock.create(RECORD)
    await lock.update(read_lease({"metadata": {"annotations": annotations}}), RECORD)

    sent = [call[-1]["metadata"]["annotations"] for call in client.calls]
    assert sent == [{"mine": "new"}, {"theirs": "x", "mine": "new"}]


@pytest.mark.parametrize("annotations", [None, "x", {"address": 5}, {}], ids=str)
def test_an_annotation_that_is_none_reads_like_an_empty_one(annotations):
    assert read_lease({"metadata": {"annotations": annotations}}).annotation("address") == ""


@pytest.mark.parametrize("metadata", [{}, {"uid": "u"}, {"resourceVersion": "8"}, None], ids=str)
async def test_a_reply_that_could_not_guard_the_next_update_is_refused(metadata):
    with pytest.raises(errors.Garbled, match="no UID or no resourceVersion"):
        await LeaseLock(OneReply({**REPLY, "metadata": metadata}), KEY).read()


async def test_a_lock_of_its_own_sends_each_call_once():
    answers = [reply(200, b'{"metadata": {"uid": "u", "resourceVersion": "8"}}'), reply(500), reply(503)]
    async with Loopback(answers) as server:
        connection = Connection(ConfigSource(ClientConfig(server.url)), clock=SystemClock())
        async with open_lock(connection, KEY, clock=SystemClock()) as lock:
            lease = await lock.read()
            for _ in range(2):
                with pytest.raises(errors.ServerFailed):
                    await lock.read()

    assert lease.record == LeaseRecord()
    assert [request.target for request in server.requests] == [
        "/apis/coordination.k8s.io/v1/namespaces/tf-operator/leases/tf-operator"
    ] * 3
