"""What has to be so of the Services of a job: the sentences of docs/behaviour.md, "Pods and Services"."""

from collections.abc import Iterable, Iterator

from proof import oracle
from proof.oracle import Look, Replica

OF_JOB: Replica = "Job", 0
"""In place of a replica: the one Service of a job."""


def _modes(job: oracle.Job, pods: Iterable[Look]) -> set[bool]:
    """Whether pods are hosts: "A job keeps the mode with which its pods were created, until all of them have ended"."""
    return {pod.is_host for pod in pods if pod.phase not in oracle.ENDS} or {job.has_one_service}


def _needed(job: oracle.Job, pods: Iterable[Look]) -> set[Replica]:
    replicas = set(job.all_replicas())
    return {OF_JOB} if True in _modes(job, pods) and replicas else replicas


def on_create(now: oracle.Children, replica: Replica, *, is_host: bool) -> Iterator[str]:
    """Sentences about every pod that is created."""
    if (OF_JOB if is_host else replica) not in now.services:
        yield "the Service is created first"
    # What it was decided on may have ended since then.
    ended = {pod.is_host for pod in now.pods if pod.phase in oracle.ENDS}
    if is_host not in _modes(now.job, now.pods) | ended:
        yield "the pods of a job are created with the mode of those that are there, or that of the spec"


def on_delete_services(now: oracle.Children, services: Iterable[Replica]) -> Iterator[str]:
    """Sentences about every Service that the operator deletes."""
    if oracle.end_of(now.status):
        if now.job.clean == "None":
            yield "cleanPodPolicy None: Services stay"
        return
    is_idle = now.job.is_suspended or oracle.state_of(now.status) == "Suspended"
    if not is_idle and set(services) & _needed(now.job, now.pods):
        yield "a Service that is needed is deleted for no reason"


def on_rest(now: oracle.Rest) -> Iterator[str]:
    """Sentences about every state in which the operator rests."""
    if oracle.end_of(now.status) or now.job.is_suspended:
        return
    needed = _needed(now.job, now.pods)
    if not now.is_rejected and needed - now.services:
        yield "each replica has a Service, or the job has one"
    if now.services - needed:
        yield "there are Services that nobody needs"
    if len(_modes(now.job, now.pods)) > 1:
        yield "the pods of a job do not find each other: they have names of two modes"
