"""What a page may change of its job, as its user may in a terminal: which changes, with which permissions, and how.

The API server decides. A page asks it before, so that it shows no button that would be refused.
"""

import asyncio
from collections.abc import Collection
from typing import Final

import msgspec

from tf_operator.cli import access
from tf_operator.cli.diagnosis import Permission
from tf_operator.client import AsyncTFJobs, Job, NotPossible
from tf_operator.dialects import registry
from tf_operator.job.record import JobPhase

MOST_BYTES: Final = 1000
"""Of an order."""
VERBS: Final = ("suspend", "resume", "restart", "scale", "delete")
_MOST_REPLICAS: Final = 100_000


class Order(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A change of the job with this UID, as a page sends it."""

    verb: str
    uid: str
    type: str = ""
    """Of the replicas that ``scale`` is for."""
    replicas: int = 0


def read(body: bytes) -> Order:
    """The order in the body of a request; ``ValueError`` for anything else."""
    try:
        order = msgspec.json.decode(body, type=Order)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None
    if order.verb not in VERBS or not 0 <= order.replicas <= _MOST_REPLICAS:
        raise ValueError("it names no change")
    return order


def possible(job: Job) -> list[str]:
    """The changes that make sense in the state of a job."""
    if job.spec.is_being_deleted:
        return []
    changeable = job.spec.profile.api_version == registry.DEFAULT.resource.api_version and not job.is_finished
    is_suspended = job.spec.run_policy.is_suspended
    state = ["resume", "scale"] if is_suspended else ["suspend", "restart", "scale"]
    if job.phase is JobPhase.QUEUED:
        state.remove("restart")
    return [*(state if changeable else []), "delete"]


async def allowed(jobs: AsyncTFJobs, name: str) -> list[str]:
    """The changes of a job that its user has the permissions for; an ``ApiError`` if the API server cannot say."""
    resource = jobs.api.resource
    patch, delete = (Permission(verb, resource.group, resource.plural) for verb in ("patch", "delete"))
    may_patch, may_delete, may_delete_pods = await asyncio.gather(
        access.is_allowed(jobs, patch, name),
        access.is_allowed(jobs, delete, name),
        access.is_allowed(jobs, Permission("delete", "", "pods")),
    )
    may = {"restart": may_delete_pods, "delete": may_delete}
    return [verb for verb in VERBS if may.get(verb, may_patch)]


async def perform(jobs: AsyncTFJobs, name: str, order: Order) -> str:
    """Do it, and say what was done. ``NotPossible`` or an ``ApiError`` says why it was not."""
    job = await jobs.get(name)
    if job.uid != order.uid:
        raise NotPossible(f"{job.kind} {name} is another one than this page shows: open it again")
    match order.verb:
        case "suspend":
            await jobs.suspend(job)
            return f"{name} is suspended."
        case "resume":
            await jobs.resume(job)
            return f"{name} is resumed."
        case "scale":
            await jobs.scale(job, order.replicas, type=order.type)
            return f"{name} has {order.replicas} replicas of type {order.type} now."
        case "restart":
            pods = await jobs.restart(job)
            return f"Pods deleted, which the operator replaces: {_names([pod.replica for pod in pods])}."
        case _:
            await jobs.delete(job)
            return f"{name} is deleted."


def _names(replicas: Collection[str]) -> str:
    return ", ".join(replicas) if replicas else "none, because none was running"
