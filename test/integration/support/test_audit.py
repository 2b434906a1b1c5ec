"""Counting the requests of the operator's user in a real audit log."""

import pytest

from support import builders
from support.api import Api, RefusedError
from support.audit import AuditLog
from support.resources import CONFIG_MAPS, PODS


@pytest.fixture
async def operator(control_plane, namespace):
    """The operator's identity, with a user agent of this test's own."""
    async with Api(control_plane.kubeconfig("operator"), user_agent=f"op-{namespace}") as api:
        yield api


async def test_every_request_of_the_operator_counts_once_with_its_outcome(control_plane, admin, operator, namespace):
    log = AuditLog(control_plane.audit_log)
    start = log.mark()
    path = PODS.path(namespace)

    await operator.list(path)
    async with operator.watch(path, timeoutSeconds="1") as events:
        await operator.create(path, builders.pod("a").body())
        await anext(events)
    await admin.create(path, builders.pod("b").body())
    with pytest.raises(RefusedError, match="409"):
        await operator.create(path, builders.pod("a").body())
    with pytest.raises(RefusedError, match="403"):
        await operator.patch(PODS.path(namespace, "a", "status"), {"status": {"message": "no"}})
    await operator.delete(PODS.path(namespace, "a"))

    sent = log.since(start).by(user_agent=f"op-{namespace}")
    assert sent.tally() == {
        ("list", "pods", 200): 1,
        ("watch", "pods", 200): 1,
        ("create", "pods", 201): 1,
        ("create", "pods", 409): 1,
        ("patch", "pods/status", 403): 1,
        ("delete", "pods", 200): 1,
    }
    assert [entry.verb for entry in sent.writes()] == ["create", "create", "patch", "delete"]
    assert {entry.user for entry in sent} == {"system:serviceaccount:tf-operator:tf-operator"}
    assert {entry.namespace for entry in sent} == {namespace}


async def test_what_others_do_is_not_logged(control_plane, admin, namespace):
    log = AuditLog(control_plane.audit_log)
    start = log.mark()

    await admin.list(CONFIG_MAPS.path(namespace))

    assert len(log.since(start).by(namespace=namespace)) == 0


async def test_a_mark_leaves_out_what_was_sent_before_it(control_plane, operator, namespace):
    log = AuditLog(control_plane.audit_log)
    await operator.list(PODS.path(namespace))
    mark = log.mark()

    await operator.list(PODS.path(namespace), labelSelector="a=b")

    (sent,) = log.since(mark).by(namespace=namespace).of("pods")
    assert "labelSelector=a" in sent.uri
