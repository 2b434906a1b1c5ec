"""Jobs, replicas and events as they are printed, for people and for programs."""

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from tf_operator.client import Job, JobEvent, JobPod, progress
from tf_operator.client.display import age, table
from tf_operator.client.explanation import goodput
from tf_operator.meta import Body

_NO_NOTES: Final[Mapping[str, str]] = {}
FORMATS: Final = ("json", "yaml", "name", "wide")


def add_argument(parser: argparse.ArgumentParser, *formats: str) -> None:
    """Put the choice of a format into the grammar of a command."""
    choices = formats or FORMATS
    parser.add_argument("-o", "--output", choices=choices, metavar="FORMAT", help=f"one of {', '.join(choices)}")


def jobs(
    listed: Sequence[Job],
    form: str | None,
    *,
    now: datetime,
    shows_namespace: bool = False,
    notes: Mapping[str, str] = _NO_NOTES,
) -> Iterator[str]:
    """``notes``: what jobs wait for, by their UID."""
    if form == "name":
        yield from (f"{reference(job)}\n" for job in listed)
    elif form in {"json", "yaml"}:
        yield document({"apiVersion": "v1", "kind": "List", "items": [job.body for job in listed]}, form)
    else:
        is_wide = form == "wide"
        yield from job_table(listed, now=now, shows_namespace=shows_namespace, is_wide=is_wide, notes=notes)


def document(body: Body, form: str) -> str:
    if form == "yaml":
        from tf_operator.client.manifests import kube_yaml  # noqa: PLC0415 (nobody else waits for it)

        return kube_yaml.write(body)
    return f"{json.dumps(body, indent=2, ensure_ascii=False)}\n"


def reference(job: Job) -> str:
    """As ``kubectl get -o name`` prints it."""
    return f"{job.kind.lower()}.{job.spec.profile.api_version.rpartition('/')[0]}/{job.name}"


def job_table(
    listed: Sequence[Job],
    *,
    now: datetime,
    shows_namespace: bool = False,
    is_wide: bool = False,
    notes: Mapping[str, str] = _NO_NOTES,
) -> Iterator[str]:
    names = (["NAMESPACE"] if shows_namespace else []) + ["NAME", "STATE", "READY", "RESTARTS", "AGE"]
    shows_progress = any(job.spec.record.progress for job in listed)
    names += ["PROGRESS", "ETA"] if shows_progress else []
    shows_checkpoints = is_wide and any(progress.checkpoint(job, now) for job in listed)
    shows_goodput = is_wide and any(goodput.cell(job, now) for job in listed)
    rows = []
    for job in listed:
        row = [job.namespace] if shows_namespace else []
        row += [job.name, job.phase or "-", job.ready, str(job.restarts), age(job.created, now)]
        row += progress.cells(job) if shows_progress else ()
        if is_wide:
            row += [progress.checkpoint(job, now) or "-"] if shows_checkpoints else []
            row += [goodput.cell(job, now) or "-"] if shows_goodput else []
            row += [str(job.spec.record.attempt), age(job.started, now), age(job.finished, now)]
        if is_wide or notes:
            row.append(notes.get(job.uid) or (job.message if is_wide else ""))
        rows.append(row)
    names += ["CHECKPOINT"] if shows_checkpoints else []
    names += ["GOODPUT"] if shows_goodput else []
    names += ["ATTEMPT", "STARTED", "FINISHED"] if is_wide else []
    return table([*names, "MESSAGE"] if is_wide or notes else names, rows)


def state_of(pod: JobPod) -> str:
    """How a replica stands, in a few words."""
    if pod.is_terminating:
        return "is terminating"
    if pod.is_starting:
        return "is starting"
    if pod.main and pod.main.exit_code is not None:
        return f"ended with exit code {pod.main.exit_code}"
    if pod.is_running:
        return f"is running, restarted {pod.restarts} times" if pod.restarts else "is running"
    if pod.phase == "Running" and not pod.pending_reason:
        return "waits to be restarted"
    return f"waits: {pod.pending_reason}" if pod.pending_reason else pod.phase.lower()


def event_table(events: Iterable[JobEvent], *, now: datetime) -> Iterator[str]:
    rows = [
        [
            age(event.time, now),
            event.type,
            event.reason,
            f"{event.kind.lower()}/{event.name}",
            event.message + (f" (x{event.count})" if event.count > 1 else ""),
        ]
        for event in events
    ]
    return table(["AGE", "TYPE", "REASON", "OBJECT", "MESSAGE"], rows)


def event_body(event: JobEvent) -> Mapping[str, Any]:
    return {
        "time": event.time.isoformat() if event.time else None,
        "type": event.type,
        "reason": event.reason,
        "object": f"{event.kind.lower()}/{event.name}",
        "message": event.message,
        "count": event.count,
    }
