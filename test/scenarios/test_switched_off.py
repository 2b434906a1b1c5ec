"""What nobody has switched on costs nothing: the operator asks for jobs, their pods and Services, and nothing else."""

import pytest

from lab.control_plane.access import OPERATOR
from support.audit import AuditLog
from support.jobs import builders
from support.operators.operator_fixture import make_namespaces, make_operator_fixture

ASKED_FOR = {"tfjobs.kubeflow.org", "tfjobs.kubeflow.org/status", "pods", "services", "events"}


@pytest.mark.parametrize("own_control_plane", [("audit",)], ids=["audit"], indirect=True)
async def test_without_its_flags_no_queue_gang_or_hpa_is_read_or_watched(own_control_plane):
    """Whatever the job says."""
    plane = own_control_plane
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
    }
    job = builders.tfjob("j").workers(2).elastic(1, 4, metrics=[metric], restartInPlace=True)
    job = job.scheduling(queue="q", priority_class="high").merged(
        {
            "metadata": {
                "labels": {"kueue.x-k8s.io/queue-name": "q"},
                "annotations": {"tf-operator.kubeflow.org/gang-scheduler": "volcano"},
            }
        }
    )
    async with make_operator_fixture(plane, namespaces=await make_namespaces(plane, "off", 1)) as operator:
        namespace = operator.job_namespace()
        await namespace.submit(job)
        await namespace.wait_pods("j-worker-0", "j-worker-1")
        await namespace.run("j-worker-0", "j-worker-1")
        await namespace.edit({"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 3}}}})
        await namespace.wait_event("Resized", "Worker from 2 to 3")
        await namespace.quiet()
    # Before it starts, the test asks as the operator whether its rights are in force.
    requests = [
        request
        for request in AuditLog(plane.audit_log).since().by(user=OPERATOR.login)
        if request.resource != "selfsubjectaccessreviews.authorization.k8s.io"
    ]
    assert {request.resource for request in requests} == ASKED_FOR
