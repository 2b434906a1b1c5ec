"""A TensorBoard that the operator runs, whichever API asks for it: what its Deployment and its Service are made of.

Two kinds of objects ask for one: a job, for itself, and an object of kind TensorBoard. What is wrong with it is in
``problems``: it never makes a job invalid.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from tf_operator.meta import Body, GroupVersionResource

RESOURCE: Final = GroupVersionResource("tensorstack.dev", "v1beta1", "tensorboards", "TensorBoard")
"""The objects of that kind."""
OPERATOR_NAME: Final = "tensorboard-controller"
"""On all children of TensorBoards, so that no cache of pods and Services of jobs has them."""
PORT: Final = 6006
_MOST_PROBLEMS: Final = 5


class TensorBoardPhase(StrEnum):
    """In the status of an object of that kind."""

    PENDING = "Pending"
    RUNNING = "Running"


@dataclass(frozen=True, slots=True)
class TensorBoard:
    """One TensorBoard. Volumes and mounts are those of a pod, as JSON."""

    name: str
    """Of the Deployment and the Service."""
    image: str
    command: tuple[str, ...]
    volumes: tuple[Any, ...] = ()
    mounts: tuple[Any, ...] = ()
    resources: Body = field(default_factory=dict)
    is_suspended: bool = False
    """No pod runs."""
    problems: tuple[str, ...] = ()
    """Why it cannot run, in sentences without a full stop; then nothing is made."""


def first_of(problems: Sequence[object]) -> tuple[str, ...]:
    """The first few problems, and how many there are besides."""
    more = len(problems) - _MOST_PROBLEMS
    return (*map(str, problems[:_MOST_PROBLEMS]), *((f"and {more} more",) if more > 0 else ()))
