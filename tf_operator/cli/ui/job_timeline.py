"""The timeline of one job: a picture of its replicas, and what was reported, in words. Pure.

    job       |..waits..|======= runs ===x====|
    worker-0     |.|======= runs ======       |

A cluster keeps no history: pods that are gone have left their events, for an hour. The picture shows what is known.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tf_operator.cli.ui import board, feed
from tf_operator.client import Job, JobEvent, JobPod
from tf_operator.client.explanation import attempts
from tf_operator.client.explanation.situation import Situation
from tf_operator.job.curves import Saved
from tf_operator.job.record import JobPhase
from tf_operator.meta import mapping_of, objects_of, parse_time, text_of
from tf_operator.planning.snapshot import MainContainer

MOST_ENTRIES: Final = 200
MOST_LANES: Final = 20
_MOST_MARKS: Final = 50
"""Of a lane: the last ones."""
_MOST_WORDS: Final = 200
_UNEVENTFUL: Final = frozenset({"Scheduled", "Pulling", "Pulled", "Created", "Started", "SuccessfulCreatePod"})
"""What is reported of every pod, and is seen in its lane."""
Shown = Mapping[str, object]


class Span(NamedTuple):
    begin: str
    end: str | None
    """``None`` if it goes on."""
    tone: str
    what: str


class Mark(NamedTuple):
    time: str
    tone: str
    what: str


def entries(situation: Situation) -> list[Shown]:
    """Conditions, events and the current attempt, the newest first."""
    notes = [*_conditions(situation.job), *_attempt(situation), *map(_event, situation.events)]
    notes.sort(key=lambda entry: str(entry["time"] or ""))
    return notes[: -MOST_ENTRIES - 1 : -1]


def picture(situation: Situation, checkpoints: Sequence[Saved] = ()) -> Shown | None:
    """Lanes of the job and of its first replicas; ``checkpoints``: those that are known. ``None`` before it began."""
    job, pods = situation.job, situation.pods
    if job.created is None:
        return None
    lanes = [_lane("job", _job_spans(job), _job_marks(situation, checkpoints))]
    for pod in pods[:MOST_LANES]:
        events = [event for event in situation.events if event.name == pod.name]
        lanes.append(_lane(pod.replica, _pod_spans(pod), _pod_marks(events)))
    end = board.moment(job.finished or situation.now)
    return {"begin": board.moment(job.created), "end": end, "lanes": lanes, "more": max(0, len(pods) - MOST_LANES)}


def _lane(name: str, spans: Iterator[Span], marks: Iterator[Mark]) -> Shown:
    by_time = sorted(marks, key=lambda mark: mark.time)
    return {"name": name, "spans": list(spans), "marks": by_time[-_MOST_MARKS:]}


def _job_spans(job: Job) -> Iterator[Span]:
    """Until it ran for the first time, then until its end, or until it was put aside."""
    record = job.spec.record
    began = record.first_run_time or record.all_running_time or (record.start_time if job.is_finished else None)
    created, finished = board.moment(job.created) or "", board.moment(job.finished)
    if not began:
        yield Span(created, finished, "idle", "suspended" if job.phase is JobPhase.SUSPENDED else "waits")
        return
    yield Span(created, board.moment(began), "idle", "waits")
    idle = _since(job, job.phase) if job.phase in {JobPhase.SUSPENDED, JobPhase.QUEUED} else None
    tone = {JobPhase.SUCCEEDED: "good", JobPhase.FAILED: "bad"}.get(job.phase, "run")
    yield Span(board.moment(began) or "", idle or finished, tone, "runs" if tone == "run" else str(job.phase).lower())
    if idle:
        yield Span(idle, None, "idle", str(job.phase).lower())


def _since(job: Job, phase: JobPhase) -> str | None:
    """When the condition of a phase became true."""
    entries = objects_of(mapping_of(job.body.get("status")).get("conditions"))
    times = [entry.get("lastTransitionTime") for entry in entries if entry.get("type") == phase]
    return board.moment(parse_time(times[-1])) if times else None


def _job_marks(situation: Situation, checkpoints: Sequence[Saved]) -> Iterator[Mark]:
    job = situation.job
    for saved in checkpoints:
        yield Mark(board.moment(saved.time) or "", "saved", f"checkpoint of step {saved.step}")
    first = job.first_failure
    if first and first.time:
        yield Mark(board.moment(first.time) or "", "bad", feed.printable(f"first failure: {first.pod}", _MOST_WORDS))
    for event in situation.events:
        if event.name == job.name and event.kind == job.kind and (event.is_warning or attempts.is_begin(event)):
            yield from _mark(event)


def _pod_spans(pod: JobPod) -> Iterator[Span]:
    """From its creation to the end of its program; also the run before the last restart in place."""
    created, now = board.moment(pod.created) or "", pod.main
    last = pod.state.last_termination
    if last and last.started_at and (now is None or last != now):
        yield Span(created, board.moment(last.started_at), "idle", "starts")
        yield _run(last)
        created = board.moment(last.finished_at) or created
    if now is None or now.started_at is None:
        tone = "bad" if pod.phase == "Failed" else "idle"
        yield Span(created, board.moment(now.finished_at) if now else None, tone, pod.phase.lower() or "starts")
        return
    yield Span(created, board.moment(now.started_at), "idle", "starts")
    yield _run(now)


def _run(program: MainContainer) -> Span:
    ended = board.moment(program.finished_at)
    tone = "run" if program.exit_code is None else "bad" if program.exit_code else "good"
    state = "runs" if program.exit_code is None else f"exited with code {program.exit_code}"
    return Span(board.moment(program.started_at) or "", ended, tone, state)


def _pod_marks(events: Sequence[JobEvent]) -> Iterator[Mark]:
    for event in events:
        if event.reason not in _UNEVENTFUL:
            yield from _mark(event)


def _mark(event: JobEvent) -> Iterator[Mark]:
    if event.time:
        tone = "warn" if event.is_warning or attempts.is_begin(event) else "event"
        text = feed.printable(f"{event.reason}: {event.message}", _MOST_WORDS)
        yield Mark(board.moment(event.time) or "", tone, text)


def _conditions(job: Job) -> Iterator[Shown]:
    for entry in objects_of(mapping_of(job.body.get("status")).get("conditions")):
        is_true = entry.get("status") == "True"
        time = text_of(entry, "lastTransitionTime") or text_of(entry, "lastUpdateTime")
        yield {
            "time": feed.printable(time, 40) or None,
            "tone": "bad" if is_true and entry.get("type") == "Failed" else "state",
            "what": feed.printable(f"{'' if is_true else 'no longer '}{text_of(entry, 'type')}", 100),
            "about": "job",
            "message": feed.printable(text_of(entry, "message")),
        }


def _attempt(situation: Situation) -> Iterator[Shown]:
    """The begin of the current attempt; of those before it there are events, for an hour."""
    record = situation.job.spec.record
    if record.attempt > 1:
        yield {
            "time": board.moment(record.attempt_time),
            "tone": "attempt",
            "what": f"Attempt {record.attempt}",
            "about": "job",
            "message": "all replicas begin again that have not completed",
        }


def _event(event: JobEvent) -> Shown:
    times = f" (x{event.count})" if event.count > 1 else ""
    tone = "attempt" if attempts.is_begin(event) else "warn" if event.is_warning else "idle"
    return {
        "time": board.moment(event.time),
        "tone": tone,
        "what": feed.printable(event.reason, 100),
        "about": feed.printable(f"{event.kind.lower()}/{event.name}", 300),
        "message": feed.printable(event.message) + times,
    }
