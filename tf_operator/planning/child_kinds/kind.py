"""What there is to know of a kind of child: its resource, what is wanted of it, what is kept of it, its words."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from tf_operator.job.profile import Profile
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import Body, GroupVersionResource

DIGEST: Final = "tf-operator.kubeflow.org/wanted"
"""The annotation with the digest of the spec that an object was last given."""


def digest(spec: Body) -> str:
    return sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]


def _no_problem(_job: TrainingJob) -> str:
    return ""


def _any_profile(_profile: Profile) -> bool:
    return True


@dataclass(frozen=True, slots=True, eq=False)
class ChildKind:
    """A kind of which a job has one object, of its own name."""

    resource: GroupVersionResource
    spec: Callable[[TrainingJob], Body | None]
    """What the job wants of it; ``None`` if it wants none."""
    problem: Callable[[TrainingJob], str] = _no_problem
    """Why a job can have none that wants one; empty if it can."""
    may_have: Callable[[Profile], bool] = _any_profile
    """Whether jobs with this profile may want one."""
    is_for_active: bool = True
    """Whether it goes when the job is idle or ends. Else it is made before the end, and stays until the deletion."""
    is_needed: bool = False
    """Whether no pod is made before it is there. Else it is made whenever it can be, and nothing waits for it."""
    is_whole: bool = False
    """Whether spec and status of the objects are cached. Then fields that the job does not set are taken away, and its
    API may report the status; else fields that others add stay."""
    is_labelled: bool = True
    """Whether only what carries the operator's label is watched. Else others use the objects, too."""
    is_noted: bool = True
    """Whether the condition of the job says why there is none. Else the status of its API has a place for it."""
    flag: str = ""
    """Which flag of the operator has jobs get it; empty if they always do."""
    flag_help: str = ""
    """Of a flag that only says whether; others are described where they are declared."""
    off: str = ""
    """Why there is none without the flag."""
