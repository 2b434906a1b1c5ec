"""The lock of an election on a real apiserver. How replicas contend for it is in test/faults."""

import pytest

from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.election.lease import LeaseRecord, open_lock
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.connection import Connection
from tf_operator.machinery.transport.kubeconfig import KubeConfig
from tf_operator.meta import ObjectKey


@pytest.fixture
async def lock(control_plane, namespace):
    clock = SystemClock()
    connection = Connection(KubeConfig(str(control_plane.kubeconfig("admin"))), clock=clock)
    async with open_lock(connection, ObjectKey(namespace, "lease"), clock=clock) as lock:
        yield lock


async def test_an_update_of_a_lease_that_was_deleted_does_not_make_it_again(lock, control_plane, namespace):
    lease = await lock.create(LeaseRecord("a", seconds=15))
    control_plane.admin.delete(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/lease")

    with pytest.raises(errors.Conflict):
        await lock.update(lease, lease.record)

    assert await lock.read() is None
