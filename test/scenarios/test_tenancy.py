"""Several operators and several tenants: rights in some namespaces only, and replicas that stand by."""

from contextlib import asynccontextmanager

import pytest

from lab.control_plane.access import OPERATOR
from support.api import Api, RefusedError
from support.audit import AuditLog
from support.jobs import builders
from support.jobs.builders import child_labels
from support.jobs.job_namespace import JobNamespace, states
from support.operators.operator_fixture import make_namespaces, make_operator_fixture
from support.operators.operator_process import start
from support.pods.kubelet import Kubelet
from support.pods.pod_status import Exit
from support.resources import PODS, TFJOBS, Resource
from support.settle import eventually
from support.stopwatch import Stopwatch

BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings")
CLUSTER_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings")
ELECTION = tuple(f"--leader-election-{name}" for name in ("lease-duration=6s", "renew-deadline=4s", "retry-period=1s"))


@pytest.fixture(scope="module")
def plane(fresh_plane):
    """A plane of this module's own: its tests take rights away, and stand for election."""
    with fresh_plane("audit") as plane:
        yield plane


@pytest.fixture
def no_rights_in_the_cluster(plane):
    """The operator has only the rights that the test gives it in single namespaces."""
    path = CLUSTER_BINDINGS.path(name="tf-operator")
    binding = plane.admin.get(path)
    plane.admin.delete(path)
    yield
    body = {field: binding[field] for field in ("roleRef", "subjects")} | {"metadata": {"name": "tf-operator"}}
    plane.admin.create(CLUSTER_BINDINGS.path(), body)


@pytest.mark.real_server("RBAC")
@pytest.mark.usefixtures("no_rights_in_the_cluster")
async def test_rights_in_two_namespaces_are_enough_to_serve_two_namespaces(plane):
    served = await make_namespaces(plane, "served", 2)
    [other] = await make_namespaces(plane, "other", 1)
    async with Api(plane.kubeconfig("admin")) as admin:
        for namespace in served:
            await admin.create(BINDINGS.path(namespace), _binding())
        mark = AuditLog(plane.audit_log).mark()
        async with make_operator_fixture(plane, namespaces=served) as operator_fixture:
            elsewhere = JobNamespace(plane, admin, Kubelet(admin, other), other)
            await elsewhere.submit(builders.tfjob("j").workers(1))
            for _ in served:
                job_namespace = operator_fixture.job_namespace()
                await job_namespace.begin_running(builders.tfjob("j").workers(2).clean_pods("All"))
                await job_namespace.succeed("j-worker-0")
                await job_namespace.wait("j", "Succeeded")
                await job_namespace.wait_pods()
                await job_namespace.wait_services()
            assert "status" not in await elsewhere.job()
        sent = AuditLog(plane.audit_log).since(mark).by(user=OPERATOR.login)
    assert len(sent) > 0
    assert {entry.namespace for entry in sent} == set(served)
    assert not [entry for entry in sent if entry.code == 403]


@pytest.mark.real_server("RBAC")
@pytest.mark.usefixtures("no_rights_in_the_cluster")
async def test_a_namespace_that_may_no_longer_be_read_keeps_no_new_leader_from_the_others(plane):
    """As when it is deleted, and the RoleBinding in it; if the rights come back, so does its work."""
    readable, lost = await make_namespaces(plane, "shared", 2)
    async with (
        Api(plane.kubeconfig("admin")) as admin,
        Api(plane.kubeconfig("kubelet")) as nodes,
        Api(plane.kubeconfig("operator")) as account,
    ):
        for namespace in (readable, lost):
            await admin.create(BINDINGS.path(namespace), _binding())
        job_namespace, elsewhere = (JobNamespace(plane, admin, Kubelet(nodes, name), name) for name in (readable, lost))
        async with _replicas(plane, [readable, lost]) as (leader, standby):
            await _work(job_namespace, "a")
            await elsewhere.begin(builders.tfjob("j").workers(1))
            await admin.delete(BINDINGS.path(lost, "tf-operator"))
            assert await eventually(lambda: _is_forbidden(account, TFJOBS.path(lost)), within=30)

            assert await leader.terminate() == 0
            await standby.wait_for("workers started", within=20)
            await _work(job_namespace, "b")
            await elsewhere.run("j-worker-0")

            await admin.create(BINDINGS.path(lost), _binding())
            await elsewhere.wait("j", "Running", within=90)


async def test_a_pod_of_another_namespace_never_decides_about_a_job(plane):
    """Who may create pods in one namespace may write an owner reference to a job in another one."""
    # Without a garbage collector, which deletes such pods sooner or later.
    async with make_operator_fixture(plane, namespaces=await make_namespaces(plane, "tenants", 2)) as operator_fixture:
        victim, evil = operator_fixture.job_namespace(), operator_fixture.job_namespace()
        jobs = {name: await victim.submit(builders.tfjob(name).workers(1).clean_pods("All")) for name in ("j", "k")}
        await victim.wait_pods("j-worker-0", "k-worker-0")
        await victim.run("j-worker-0", "k-worker-0")
        for name, job in jobs.items():
            await victim.wait(name, "Running")
            forged = builders.pod(f"{name}-worker-0").owned_by(job).labels(child_labels(name, "Worker", 0))
            await evil.admin.create(PODS.path(evil.namespace), forged.body())
        uids = await victim.uids()
        await evil.kubelet.succeed("j-worker-0")
        await evil.kubelet.fail("k-worker-0", Exit(1))
        await operator_fixture.restart()
        await victim.quiet()

        assert [states(await victim.job(name)) for name in ("j", "k")] == [["Created", "Running"]] * 2
        assert await victim.uids() == uids
        assert set(await evil.pods()) == {"j-worker-0", "k-worker-0"}


async def test_a_leader_that_is_told_to_go_hands_over_at_once(plane):
    """SIGTERM: the Lease is released last, and the other need not wait for its end. Other ends: test/faults."""
    [namespace] = await make_namespaces(plane, "replicas", 1)
    async with (
        _replicas(plane, [namespace]) as (leader, standby),
        Api(plane.kubeconfig("admin")) as admin,
        Api(plane.kubeconfig("kubelet")) as nodes,
    ):
        job_namespace = JobNamespace(plane, admin, Kubelet(nodes, namespace), namespace)
        await _work(job_namespace, "a")
        assert await leader.terminate() == 0
        async with Stopwatch() as watch:
            await standby.wait_for("workers started", within=20)
            # Without a release it would take 4.8 s at least. What the standby is late itself, nobody measures.
            assert watch.seconds <= 4.5, f"{watch.seconds:.1f} s"
        await _work(job_namespace, "b")


@asynccontextmanager
async def _replicas(plane, namespaces):
    """A leader, and a standby with warm caches; both end well, unless they have ended."""
    first = await start(plane, namespaces=namespaces, arguments=ELECTION)
    await first.wait_for("workers started", within=60)
    second = await start(plane, namespaces=namespaces, arguments=ELECTION)
    await second.wait_for("caches synced", within=60)
    try:
        yield first, second
    finally:
        for process in (first, second):
            if process.exit_code is None:
                assert await process.terminate() == 0


async def _work(job_namespace, name):
    """Whoever leads takes a job to its end."""
    await job_namespace.submit(builders.tfjob(name).workers(1).clean_pods("All"))
    await _has_pod(job_namespace, name)
    await job_namespace.run(f"{name}-worker-0")
    await job_namespace.wait(name, "Running")
    await job_namespace.succeed(f"{name}-worker-0")
    await job_namespace.wait(name, "Succeeded")


async def _has_pod(job_namespace, name):
    async def check():
        pods = await job_namespace.pods()
        assert f"{name}-worker-0" in pods
        return pods

    assert await eventually(check, within=30)


async def _is_forbidden(account, path):
    try:
        await account.get(path)
    except RefusedError as refusal:
        return refusal.status == 403
    return False


def _binding():
    role = {"apiGroup": BINDINGS.group, "kind": "ClusterRole", "name": "tf-operator"}
    account = {"kind": "ServiceAccount", "name": "tf-operator", "namespace": "tf-operator"}
    return {"metadata": {"name": "tf-operator"}, "roleRef": role, "subjects": [account]}
