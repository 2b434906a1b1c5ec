"""In which order a plan is carried out: record, act, confirm. Pure, so that every prefix of it can be tried.

Record: what the actions destroy the evidence of is stored first. Act: stage by stage. Confirm: progress is stored last.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from tf_operator.planning.actions import Action, Plan, Stage


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the job itself; there is no status any more that could say so."""


@dataclass(frozen=True, slots=True)
class ResumeJob:
    """Change the spec of the job itself. What else is to be done, the next plan says."""


class StoreStatus(msgspec.Struct, frozen=True):
    """Store the status, guarded by the version of the job that was decided on, and report what is stored.

    Where it says nothing new, nothing is sent, and what was seen counts as recorded all the same.
    """

    is_progress: bool = False
    """It may wait for more of it, and is stored although what comes before it fails."""
    has_waited: bool = False
    """It has what a program reported, which has waited for its turn: it is not to wait for more."""


class Act(msgspec.Struct, frozen=True):
    """Carry out the actions of each stage that has some; a stage begins when the one before it is done."""

    stages: tuple[tuple[Stage, tuple[Action, ...]], ...]


_STAGES: Final = tuple(Stage)
Step = DeleteJob | ResumeJob | StoreStatus | Act


def steps(plan: Plan) -> tuple[Step, ...]:
    """What is done, in this order."""
    if plan.deletes_job:
        return (DeleteJob(),)
    if plan.resumes_job:
        return (ResumeJob(),)
    stages = [(stage, tuple(action for action in plan.actions if action.stage is stage)) for stage in _STAGES]
    act = Act(tuple((stage, actions) for stage, actions in stages if actions))
    status = StoreStatus(is_progress=not plan.status_first, has_waited=_has_report(plan))
    return (status, act) if plan.status_first else (act, status)


def _has_report(plan: Plan) -> bool:
    return plan.report is not None and plan.report.record.progress != plan.report.job.record.progress


def after_failure(left: Sequence[Step]) -> tuple[StoreStatus, ...]:
    """What is done all the same when the server has failed: deadlines count from a start that is stored."""
    return tuple(step for step in left if isinstance(step, StoreStatus) and step.is_progress)
