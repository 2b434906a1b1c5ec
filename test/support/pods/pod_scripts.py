"""Scripts for the kubelet's auto mode: what becomes of each pod, by the pattern of its name.

    Script().on("*-worker-1", [running(), failing(Exit(137))], [running()]).otherwise([running(), succeeding(after=1)])

The first pattern that fits decides. Several courses are for several incarnations: the first pod of a name takes the
first, its replacement the second, and the last is for all that follow. A pod that no pattern fits is left as it is.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial

from support.pods import pod_status
from support.pods.pod_status import Exit
from support.resources import Json


@dataclass(frozen=True, slots=True)
class Step:
    """``after`` seconds after the step before, the pod gets the status that ``status`` makes of it."""

    after: float
    status: Callable[[Json, str], Json]


Course = tuple[Step, ...]


def unschedulable(message: str) -> Step:
    return Step(0.0, partial(pod_status.unschedulable, message=message))


def running(*, after: float = 0.0) -> Step:
    return Step(after, pod_status.running)


def restarting(how: Exit, *, after: float = 0.0) -> Step:
    return Step(after, partial(pod_status.restarted, how=how))


def succeeding(*, after: float = 0.0) -> Step:
    return Step(after, pod_status.finished)


def failing(how: Exit, *, after: float = 0.0) -> Step:
    """The pod is over and Failed; with exit code 0 it would be Succeeded."""
    return Step(after, partial(pod_status.finished, how=how))


def evicted(*, after: float = 0.0) -> Step:
    return Step(after, pod_status.evicted)


@dataclass(frozen=True, slots=True)
class Script:
    rules: tuple[tuple[str, tuple[Course, ...]], ...] = ()

    def on(self, pattern: str, *courses: Iterable[Step]) -> "Script":
        """Add a rule for the pods whose name fits a shell pattern; one course for each incarnation."""
        return Script((*self.rules, (pattern, tuple(tuple(course) for course in courses))))

    def otherwise(self, *courses: Iterable[Step]) -> "Script":
        return self.on("*", *courses)

    def course_of(self, name: str, incarnation: int) -> Course:
        for pattern, courses in self.rules:
            if fnmatchcase(name, pattern):
                return courses[min(incarnation, len(courses) - 1)]
        return ()
