"""Golden cases of the queue: ``test/golden/job_queue/<case>.input.yaml``, in a few words, and its schedule in words.

Times are seconds after the beginning. A job says its pods and what each asks for; one that has ``at`` was admitted, and
its workers are on these nodes.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import yaml

from golden.case import HEADER, INPUT, PLAN, Yaml, refuse_others, topics
from tf_operator.job.record import ReplicaType, UnfitRecord
from tf_operator.job.training_job import ElasticRange
from tf_operator.meta import ObjectKey
from tf_operator.planning.job_queue import schedule, shapes
from tf_operator.planning.job_queue.capacity import Node
from tf_operator.planning.job_queue.jobs import Admit, BoundPod, Decision, FitNote, QueueJob, ReplicaNeed
from tf_operator.planning.job_queue.schedule import Cluster, QueueRules

FOLDER: Final = Path("test/golden/job_queue")
_BEGINNING: Final = datetime(2026, 3, 1, 8, tzinfo=UTC)
_ROOM: Final = {"pods": "110"}
_OF_NODES: Final = {"labels", "taints", "cordoned", "used", "has"}
_OF_JOBS: Final = {
    *("workers", "min", "max", "ps", "asks", "pod", "psPod", "priority", "created", "queued", "at", "started"),
    *("resized", "placed", "namespace", "done", "deadline", "wants", "wantsPs", "holds", "unfit", "saved"),
}


def plans(root: Path) -> dict[Path, str]:
    return {FOLDER / f"{name}{PLAN}": text(read(root, name)) for name in topics(root, FOLDER)}


def read(root: Path, name: str) -> Cluster:
    entries = yaml.safe_load((root / FOLDER / f"{name}{INPUT}").read_text(encoding="utf-8"))
    refuse_others(entries, {"title", "now", "nodes", "jobs", "resizes", "reserves"}, name)
    rules = QueueRules(resizes=entries.get("resizes", True))
    return Cluster(
        now=_moment(entries["now"]),
        nodes=tuple(_node(node, entry) for node, entry in entries["nodes"].items()),
        jobs=tuple(_job(job, entry) for job, entry in entries["jobs"].items()),
        rules=rules if entries.get("reserves", True) else replace(rules, reserve_after=None),
    )


def text(cluster: Cluster) -> str:
    plan = schedule.make_schedule(cluster)
    content: Yaml = {"decisions": [_sentence(decision) for decision in plan.decisions], "waiting": plan.waiting}
    if plan.notes:
        content["notes"] = [_note(note) for note in plan.notes]
    if plan.kept_for:
        content["room is kept for"] = plan.kept_for.key.name
    if plan.wake_at:
        content["again"] = (plan.wake_at - _BEGINNING).total_seconds()
    return HEADER + yaml.safe_dump(content, sort_keys=False, width=120)


def _sentence(decision: Decision) -> str:
    if isinstance(decision, Admit):
        return f"start {decision.job.key.name} with {decision.workers} workers, most of them on {decision.node}"
    counts = [
        (decision.job.workers, decision.workers, "workers"),
        (decision.job.servers, decision.servers, "parameter servers"),
    ]
    changes = [f"from {old} to {new} {word}" for old, new, word in counts if old != new]
    return f"resize {decision.job.key.name} {', and '.join(changes)}"


def _note(note: FitNote) -> str:
    if note.unfit is None:
        return f"{note.job.key.name} can fit"
    details = (note.unfit.cause, note.unfit.type, note.unfit.resource)
    return f"{note.job.key.name} cannot fit: {', '.join(filter(None, details))}"


def _node(name: str, entry: Yaml) -> Node:
    refuse_others(entry, _OF_NODES, name)
    return Node(
        name,
        shapes.amounts_of(_ROOM | entry.get("has", {})),
        shapes.amounts_of(entry.get("used")),
        labels=entry.get("labels", {}),
        taints=tuple(shapes.Taint(key) for key in entry.get("taints", ())),
        is_usable=not entry.get("cordoned", False),
    )


def _job(name: str, entry: Yaml) -> QueueJob:
    refuse_others(entry, _OF_JOBS, name)
    pods = [entry.get("pod", {}), entry.get("psPod") or entry.get("pod", {})]
    containers = [{"resources": {"requests": entry["asks"]}}]
    shape, of_servers = (shapes.shape_of({"containers": containers, **pod}) for pod in pods)
    workers, nodes = entry["workers"], entry.get("at")
    # What each of its pods holds, if another than it asks for now.
    requests = shapes.requests_of({"containers": [{"resources": {"requests": entry.get("holds", entry["asks"])}}]})
    needs = [
        ReplicaNeed(ReplicaType.PS, entry.get("ps", 0), of_servers),
        ReplicaNeed(ReplicaType.WORKER, workers, shape),
    ]
    return QueueJob(
        key=ObjectKey(entry.get("namespace", "team"), name),
        uid=name,
        created=_moment(entry.get("created", 0)),
        needs=tuple(need for need in needs if need.number),
        priority=entry.get("priority", 0),
        elastic=ElasticRange(ReplicaType.WORKER, entry["min"], entry["max"]) if "min" in entry else None,
        workers=workers,
        requested_workers=entry.get("wants", 0),
        requested_servers=entry.get("wantsPs", 0),
        completions=((ReplicaType.WORKER, entry["done"]),) if "done" in entry else (),
        pods=tuple(
            BoundPod(ReplicaType.WORKER, index, node, requests) for index, node in enumerate(nodes or ()) if node
        ),
        is_admitted=nodes is not None,
        queued_time=_moment(entry["queued"]) if "queued" in entry else None,
        admitted_time=_moment(entry.get("started", 0)) if nodes is not None else None,
        resized_time=_moment(entry["resized"]) if "resized" in entry else None,
        checkpoint_time=_moment(entry["saved"]) if "saved" in entry else None,
        longest=timedelta(seconds=entry["deadline"]) if "deadline" in entry else None,
        is_reserved=entry.get("placed", True),
        unfit=UnfitRecord(*entry["unfit"]) if "unfit" in entry else None,
    )


def _moment(seconds: float) -> datetime:
    return _BEGINNING + timedelta(seconds=seconds)
