"""Fixtures of the fault tests: the operator as a process, a proxy before it, and an administrator past it.

A test that asks for ``operator`` gets the process of its module, in the module's namespace; one that asks for ``start``
starts its own in a namespace of its own. Either way ``proxy`` is the one before that process, without earlier rules and
calls, and the history of the jobs is held against the invariants at the end.
"""

import asyncio
from asyncio.subprocess import PIPE
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count

import pytest
import pytest_asyncio

from lab.control_plane.plane import ControlPlane
from lab.tools.get import programs
from support import invariants, oracle
from support.api import Api, RefusedError
from support.disturbances.fault_proxy import faults
from support.disturbances.fault_proxy.proxy import FaultProxy
from support.disturbances.fault_proxy.trigger import opening, watch
from support.history import Recorder
from support.jobs import builders
from support.operators import operator_process
from support.operators.operator_process import OperatorProcess
from support.resources import PODS, SERVICES, TFJOBS
from support.settle import eventually, settle

ARGUMENTS = ("--leader-elect=false", "--restart-delay-base=50ms")
_SERIAL = count(1)


def pytest_collection_modifyitems(items):
    """One event loop for all tests of a module: they share processes, whose logs are read in it."""
    for item in items:
        if pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@dataclass
class Field:
    """One namespace with jobs in it, and what a test does to them. Jobs are named in short, such as ``w``."""

    admin: Api
    namespace: str
    plane: ControlPlane
    proxy: FaultProxy
    suffix: str = ""
    waived: set[str] = field(default_factory=set)
    """Invariants that do not hold on purpose."""

    def name(self, job):
        return f"{job}{self.suffix}"

    def pod(self, job, index):
        """The name of a worker's pod and of its Service."""
        return f"{job}{self.suffix}-worker-{index}"

    def path(self, job):
        return TFJOBS.path(self.namespace, self.name(job))

    async def want(self, job, workers, *, note=None, ballast=0):
        """Have a job want so many workers, whether it exists or not; ``ballast`` bytes are in no pod of it."""
        template = {"spec": {"containers": [{"name": "tensorflow", "image": "training:test"}]}}
        template["spec"]["containers"][0]["env"] = [{"name": "BALLAST", "value": "x" * ballast}]
        specs = {"Worker": {"replicas": workers}} | (
            {"Evaluator": {"replicas": 0, "template": template}} if ballast else {}
        )
        patch = {"spec": {"tfReplicaSpecs": specs}}
        if note is not None:
            patch["metadata"] = {"annotations": {"note": str(note)}}
        built = builders.tfjob(self.name(job)).workers(workers).dynamic_workers().merged(patch)
        try:
            return await self.admin.create(TFJOBS.path(self.namespace), built.body())
        except RefusedError as refused:
            if refused.status != 409:
                raise
            return await self.admin.patch(self.path(job), patch)

    async def job(self, job):
        return await self.admin.get(self.path(job))

    async def uid(self, job):
        return (await self.job(job))["metadata"]["uid"]

    async def delete_job(self, job):
        await self.admin.delete(self.path(job))

    async def delete_pod(self, job, index):
        await self.admin.delete(PODS.path(self.namespace, self.pod(job, index)))

    async def has_pods(self, job, workers):
        """Whether all these workers of a job have pods."""
        pods = await self.admin.list(PODS.path(self.namespace))
        return {self.pod(job, index) for index in range(workers)} <= {pod["metadata"]["name"] for pod in pods}

    async def collect_garbage(self):
        """Delete what belongs to no job any more, as the garbage collector does."""
        living = {job["metadata"]["uid"] for job in await self.admin.list(TFJOBS.path(self.namespace))}
        for kind in (PODS, SERVICES):
            for child in await self.admin.list(kind.path(self.namespace)):
                if child["metadata"]["ownerReferences"][0]["uid"] not in living:
                    with suppress(RefusedError):  # the operator was faster
                        await self.admin.delete(kind.path(self.namespace, child["metadata"]["name"]))

    async def store_raw(self, body):
        """Have a job stored as these bytes, which no JSON library needs to be able to write."""
        config = f"--kubeconfig={self.plane.kubeconfig('admin')}"
        command = (programs("kubectl")["kubectl"], config, "create", "--raw", TFJOBS.path(self.namespace), "-f", "-")
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        _, complaint = await process.communicate(body)
        assert process.returncode == 0, complaint.decode()

    async def quiet(self, seconds, *, within=30):
        """Wait until nothing has been written in this namespace for so long."""
        await settle(self.plane.store(), quiet_for=seconds, within=within, namespace=self.namespace)

    async def settled(self, process, *, within=60):
        await eventually(lambda: oracle.in_order(process, self.admin, self.namespace), within=within)

    async def reach(self, process, job, workers, **more):
        """Have a job want so many workers, and wait until everything is in order."""
        await self.want(job, workers, **more)
        await self.settled(process)

    async def settled_without_orphans(self, process, *, within=60):
        """The same, in a control plane without a garbage collector."""

        async def check():
            await self.collect_garbage()
            return await oracle.in_order(process, self.admin, self.namespace)

        await eventually(check, within=within)

    async def relist(self, resource):
        gone = self.proxy.on(opening(resource), do=faults.gone(), at_most=1)
        # The next watch may not be open yet after the last list.
        await eventually(lambda: self.proxy.now(watch(resource), do=faults.cut()))
        await self.proxy.until(gone.has_fired, within=30)

    def created(self):
        """How often each pod was created, by job and index, such as ``w-0``."""
        return Counter(name.replace(f"{self.suffix}-worker-", "-") for name in oracle.pods_created(self.proxy))


@pytest_asyncio.fixture(loop_scope="module")
async def admin(control_plane):
    async with Api(control_plane.kubeconfig("admin")) as api:
        yield api


@pytest.fixture
def is_shared(request):
    """Whether the test attacks the operator of its module."""
    return "operator" in request.fixturenames


@pytest.fixture
def proxy(request, control_plane, is_shared):
    """A proxy before the session's apiserver; a fault of it that never struck fails the test."""
    if not is_shared:
        with FaultProxy(control_plane.kubeconfig("operator")) as running:
            yield running
        return
    shared = request.getfixturevalue("shared_proxy")
    shared.begin()
    yield shared
    shared.end()


@pytest.fixture(scope="module")
def shared_proxy(control_plane):
    with FaultProxy(control_plane.kubeconfig("operator")) as running:
        yield running


@pytest.fixture(scope="module")
def shared_namespace(request, control_plane):
    return control_plane.make_namespace(request.module.__name__)


@pytest_asyncio.fixture(loop_scope="module")
async def field(request, admin, proxy, control_plane, is_shared):
    """The namespace of the test; its history is judged in the end."""
    if is_shared:
        namespace, suffix = request.getfixturevalue("shared_namespace"), f"-{next(_SERIAL)}"
    else:
        namespace, suffix = control_plane.make_namespace(request.node.name), ""
    new_field = Field(admin, namespace, control_plane, proxy, suffix)
    if not getattr(request.module, "IS_RECORDED", True):
        yield new_field
        return
    async with Recorder(control_plane.store()) as recorder:
        yield new_field
        history = await recorder.stop()
    for life in invariants.job_lives(history, namespace):
        for name, rule in invariants.RULES.items():
            assert name in new_field.waived or list(rule(life)) == [], name


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_operator(control_plane, shared_proxy, shared_namespace, tmp_path_factory):
    kubeconfig = shared_proxy.kubeconfig(tmp_path_factory.mktemp("shared") / "kubeconfig", client="operator")
    # One fault after the other lengthens its pauses; so they pass faster.
    async with running(control_plane, kubeconfig, shared_namespace, speed=3) as process:
        yield process
        assert await process.terminate() == 0


@pytest.fixture
def operator(field, module_operator):
    """The operator of the module, alive."""
    assert module_operator.exit_code is None, module_operator.records[-5:]
    return module_operator


@asynccontextmanager
async def running(plane, kubeconfig, namespace, *, until="workers started", arguments=ARGUMENTS, **disturbed):
    """An operator that serves one namespace. That it logs an error which nobody expects fails the test."""
    process = await operator_process.start(
        plane, namespaces=[namespace], arguments=arguments, kubeconfig=kubeconfig, probe=disturbed
    )
    try:
        await process.wait_for(until, within=60)
        yield process
        # One that was to end has said why.
        assert process.exit_code is not None or process.unexpected() == []
    finally:
        if process.exit_code is None:
            await process.kill()


@pytest_asyncio.fixture(loop_scope="module")
async def start(proxy, field, tmp_path):
    """Starts operators behind the proxy, disturbed as the test likes; they end with the test."""
    async with AsyncExitStack() as stack:

        async def started(*, kubeconfig=None, client="operator", **options) -> OperatorProcess:
            kubeconfig = kubeconfig or proxy.kubeconfig(tmp_path / "kubeconfig", client=client)
            return await stack.enter_async_context(running(field.plane, kubeconfig, field.namespace, **options))

        yield started
