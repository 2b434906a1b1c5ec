"""The Lease as a value: what is believed of it, and what is written."""

from datetime import UTC, datetime, timedelta

import pytest

from support.lease_model import KEY
from support.loopback import Loopback, reply
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
    """A client that notes down what it is asked for, and answers with one thing."""

    def __init__(self, reply):
        self.asked = []
        self._reply = reply

    async def get(self, resource, key):
        return self._answer("get", str(resource), key, None)

    async def create(self, resource, namespace, body):
        return self._answer("create", str(resource), namespace, body)

    async def update(self, resource, key, body):
        return self._answer("update", str(resource), key, body)

    def _answer(self, *asked):
        self.asked.append(asked)
        if isinstance(self._reply, Exception):
            raise self._reply
        return self._reply


REPLY = {"metadata": {"uid": "u", "resourceVersion": "8"}, "spec": {"holderIdentity": "a"}}


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
def test_garbage_in_a_lease_reads_like_nothing(body):
    assert read_lease(body).record == LeaseRecord()


def test_a_time_far_in_the_future_is_only_a_text_for_people():
    assert lease(renewTime="2099-01-01T00:00:00.000000Z").record.renewed == datetime(2099, 1, 1, tzinfo=UTC)


def test_a_renewal_repairs_a_time_that_is_none():
    assert LeaseRecord(holder="a").held("a", seconds=15, now=LATER).acquired == LATER


def test_a_released_lease_is_nobodys_and_lasts_one_second():
    record = LeaseRecord(holder="a", seconds=15, acquired=NOON, renewed=NOON, transitions=3)

    assert record.released(LATER) == LeaseRecord("", seconds=1, acquired=LATER, renewed=LATER, transitions=3)


def test_a_lease_runs_out_by_its_holders_own_measure_when_nothing_changes():
    seen = Observation(lease(holderIdentity="a", leaseDurationSeconds=60), at=100.0)

    seen = seen.followed_by(lease(holderIdentity="a", leaseDurationSeconds=60), at=130.0)

    assert seen.expires_at(15) == 160.0


def test_a_lease_runs_out_by_our_measure_when_its_own_is_invalid():
    assert Observation(lease(holderIdentity="a", leaseDurationSeconds=2**31), at=100.0).expires_at(15) == 115.0


def test_a_change_of_the_spec_is_a_sign_of_life():
    seen = Observation(lease(holderIdentity="a", renewTime="not even a time"), at=100.0)

    assert seen.followed_by(lease(holderIdentity="a", renewTime="another one"), at=130.0).at == 130.0


def test_a_new_annotation_is_no_sign_of_life():
    first = lease(holderIdentity="a")
    annotated = Lease(first.record, {**first.body, "metadata": {"resourceVersion": "9", "annotations": {"x": "y"}}})

    assert Observation(first, at=100.0).followed_by(annotated, at=130.0) == Observation(annotated, at=100.0)


async def test_a_404_that_says_nothing_about_the_lease_is_an_error():
    page = errors.NotFound(404, errors.Status(message="HTTP 404: <html>"))

    with pytest.raises(errors.NotFound):
        await LeaseLock(OneReply(page), KEY).read()


async def test_the_lease_is_read_in_its_place():
    client = OneReply(REPLY)

    found = await LeaseLock(client, KEY).read()

    assert found == Lease(LeaseRecord("a"), REPLY)
    assert client.asked == [("get", "leases.coordination.k8s.io", KEY, None)]


async def test_a_created_lease_has_a_name_and_the_record():
    client = OneReply(REPLY)
    record = LeaseRecord(holder="a", seconds=15, acquired=NOON, renewed=NOON)

    await LeaseLock(client, KEY).create(record)

    body = {"metadata": {"namespace": KEY.namespace, "name": KEY.name}, "spec": record.spec()}
    assert client.asked == [("create", "leases.coordination.k8s.io", KEY.namespace, body)]


async def test_an_update_sends_back_what_it_does_not_know_and_what_guards_it():
    client = OneReply(REPLY)
    metadata = {"name": KEY.name, "uid": "u", "resourceVersion": "7", "labels": {"team": "ml"}}
    seen = read_lease({"metadata": {**metadata, "managedFields": [{}]}, "spec": {"strategy": "x", "renewTime": 5}})
    record = LeaseRecord(holder="a", seconds=15, acquired=NOON, renewed=NOON)

    await LeaseLock(client, KEY).update(seen, record)

    body = {"metadata": metadata, "spec": {"strategy": "x", **record.spec()}}
    assert client.asked == [("update", "leases.coordination.k8s.io", KEY, body)]


@pytest.mark.parametrize("metadata", [{}, {"uid": "u"}, {"resourceVersion": "8"}, None], ids=str)
async def test_a_reply_that_could_not_guard_the_next_update_is_refused(metadata):
    with pytest.raises(errors.Garbled, match="no UID or no resourceVersion"):
        await LeaseLock(OneReply({**REPLY, "metadata": metadata}), KEY).read()


async def test_a_lock_of_its_own_sends_each_call_once():
    class Here:
        async def read(self, *, refused=False):
            return ClientConfig(server.url)

    answers = [reply(200, b'{"metadata": {"uid": "u", "resourceVersion": "8"}}'), reply(500), reply(503)]
    connection = Connection(Here(), clock=SystemClock())
    async with Loopback(answers) as server, open_lock(connection, KEY, clock=SystemClock()) as lock:
        lease = await lock.read()
        for _ in range(2):
            with pytest.raises(errors.ServerFailed):
                await lock.read()

    assert lease.record == LeaseRecord()
    assert [seen.target for seen in server.seen] == [
        "/apis/coordination.k8s.io/v1/namespaces/tf-operator/leases/tf-operator"
    ] * 3
