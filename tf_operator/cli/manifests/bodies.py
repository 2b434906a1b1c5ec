"""The objects that would be created, in full: YAML documents for ``kubectl apply --dry-run``.

In the order in which the operator creates them: the PodGroup, Service and pod of each replica, the TensorBoard. One
at a time, because the pods of a large job do not fit into memory together. Neighbour: ``client.plan`` has the objects.
"""

from collections.abc import Iterator

from tf_operator.client.manifests import kube_yaml
from tf_operator.client.manifests.validate import NO_UID
from tf_operator.client.plan.job_plan import JobPlan


def text(plan: JobPlan) -> Iterator[str]:
    """The documents, each with its separator in front."""
    job = plan.job
    yield f"# {job.profile.kind} {job.key}\n"
    if not job.is_ours:
        yield f"# It is managed by {job.run_policy.managed_by}: nothing is made for it here.\n"
        return
    if job.run_policy.is_suspended:
        yield "# It is suspended: nothing of this is made until it is resumed.\n"
    if job.uid == NO_UID:
        yield f"# {NO_UID} stands for the UID that the cluster will give it.\n"
    yield from (f"---\n{kube_yaml.write(body)}" for body in plan.objects())
