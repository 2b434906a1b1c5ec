"""An operator whose watches are late: it never acts twice, because it waits until its caches show what it wrote."""

from lab.fault_proxy import faults
from lab.fault_proxy.proxy import FaultProxy
from lab.fault_proxy.trigger import watch
from support import builders
from support.audit import Tally
from support.operator_fixture import make_namespaces, make_operator_fixture
from support.pod_status import Exit

LATE = 3.0


async def test_nothing_is_made_twice_when_the_watches_are_late(control_plane, tmp_path):
    namespaces = await make_namespaces(control_plane, "late", 1)
    with FaultProxy(control_plane.kubeconfig("operator")) as proxy:
        kubeconfig = proxy.kubeconfig(tmp_path / "kubeconfig")
        async with make_operator_fixture(
            control_plane, namespaces=namespaces, kubeconfig=kubeconfig
        ) as operator_fixture:
            job_namespace = operator_fixture.job_namespace()
            with proxy.on(watch(), do=faults.delay(LATE)):
                await job_namespace.submit(builders.tfjob("j").workers(4, restart="ExitCode").parameter_servers(2))
                for count in range(10):
                    await job_namespace.edit({"metadata": {"labels": {"count": str(count)}}})
                pods = await job_namespace.wait_pods("j-ps-0", "j-ps-1", *(f"j-worker-{index}" for index in range(4)))
                await job_namespace.run(*pods)
                await job_namespace.wait("j", "Running")
                before = await job_namespace.kubelet.fail("j-worker-3", Exit(137))
                await job_namespace.wait_replaced(before, within=60)
                await job_namespace.wait_status(restarts=1)
                await job_namespace.quiet(LATE + 1.5)
            tally = job_namespace.sent().tally()
    assert tally[Tally("create", "pods", 201)] == 7
    assert tally[Tally("create", "services", 201)] == 6
    assert tally[Tally("delete", "pods", 200)] == 1
    assert not [what for what in tally if what.code >= 400], tally
