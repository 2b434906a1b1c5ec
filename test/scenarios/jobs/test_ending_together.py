"""A replica that ends while the operator is about to delete its pod: the evidence stays."""

import pytest

from support.audit import Tally
from support.disturbances.fault_proxy import faults
from support.disturbances.fault_proxy.proxy import FaultProxy
from support.disturbances.fault_proxy.trigger import delete
from support.jobs import builders
from support.operators.operator_fixture import make_namespaces, make_operator_fixture


@pytest.mark.parametrize(("policy", "left"), [("Running", ["j-chief-0", "j-worker-0"]), ("All", [])])
async def test_a_pod_that_ends_between_the_look_and_the_delete_is_judged_again(control_plane, tmp_path, policy, left):
    """Under Running it has ended by then, so it stays readable; under All it goes whatever it does."""
    namespaces = await make_namespaces(control_plane, "ending", 1)
    with FaultProxy(control_plane.kubeconfig("operator")) as proxy:
        kubeconfig = proxy.kubeconfig(tmp_path / "kubeconfig")
        async with make_operator_fixture(
            control_plane, namespaces=namespaces, kubeconfig=kubeconfig
        ) as operator_fixture:
            job_namespace = operator_fixture.job_namespace()
            await job_namespace.begin(builders.tfjob("j").chief().workers(2).clean_pods(policy))
            await job_namespace.run("j-chief-0", "j-worker-0", "j-worker-1")
            await job_namespace.wait("j", "Running")
            with proxy.on(delete("pods", name="j-worker-0"), do=faults.hold(), at_most=1) as held:
                await job_namespace.succeed("j-chief-0")
                await proxy.until(held.has_fired)
                await job_namespace.succeed("j-worker-0")
                held.release()
            await job_namespace.wait_pods(*left)
            await job_namespace.quiet(2.0)
            sent = job_namespace.sent().tally()
    assert sent[Tally("delete", "pods", 409)] == (policy == "Running")
    assert sent[Tally("delete", "pods", 200)] == 3 - len(left)
