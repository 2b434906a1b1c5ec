"""From objects, as the API server has them, to what the demo shows: a row for each job, a note for each event. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tf_operator.dialects.kubeflow import v1

Body = Mapping[str, Any]
ENDS: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Row:
    """One job, as ``kubectl get tfjobs`` shows it, with its pods."""

    name: str
    state: str = ""
    ready: str = ""
    restarts: int = 0
    pods: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will become of it."""
        return self.state in ENDS


@dataclass(frozen=True, slots=True)
class Note:
    """One event of a job, as often as it has been reported by now."""

    uid: str
    count: int
    job: str
    reason: str
    message: str


def rows(jobs: Iterable[Body], pods: Iterable[Body]) -> list[Row]:
    """The jobs in alphabetical order."""
    of = _by_job(pods)
    return sorted((_row(job, of.get(job["metadata"]["name"], [])) for job in jobs), key=lambda row: row.name)


def notes(events: Iterable[Body]) -> list[Note]:
    """What was said of jobs, in the order in which it was said last: times have whole seconds, versions are exact."""
    of_jobs = [event for event in events if event["involvedObject"].get("kind") == "TFJob"]
    of_jobs.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
    return [
        Note(
            uid=event["metadata"]["uid"],
            count=event.get("count") or 1,
            job=event["involvedObject"]["name"],
            reason=event["reason"],
            message=event["message"],
        )
        for event in of_jobs
    ]


def _row(job: Body, pods: list[Body]) -> Row:
    status = job.get("status", {})
    phases = Counter(_phase(pod) for pod in pods)
    return Row(
        name=job["metadata"]["name"],
        state=_state(status),
        ready=status.get("ready", ""),
        restarts=status.get("restarts", 0),
        pods=", ".join(f"{number} {phase}" for phase, number in sorted(phases.items())) or "none",
    )


def _state(status: Body) -> str:
    """The last condition that is so."""
    conditions = reversed(status.get("conditions") or ())
    return next((condition["type"] for condition in conditions if condition["status"] == "True"), "")


def _phase(pod: Body) -> str:
    is_going = pod["metadata"].get("deletionTimestamp") is not None
    return "Terminating" if is_going else str(pod.get("status", {}).get("phase", "Pending"))


def _by_job(pods: Iterable[Body]) -> dict[str, list[Body]]:
    found: dict[str, list[Body]] = {}
    for pod in pods:
        found.setdefault(pod["metadata"].get("labels", {}).get(v1.PROFILE.labels.job, ""), []).append(pod)
    return found
