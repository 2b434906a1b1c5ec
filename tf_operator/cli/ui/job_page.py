"""What the page of one job shows, as values for its scripts: a pure function of what the API server says.

Every text may have been written by a tenant. It is shortened and made printable here, and the scripts put it into the
document as text.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tf_operator import quantity
from tf_operator.cli import output
from tf_operator.cli.ui import board, changes, feed
from tf_operator.client import Job, JobPod, ReplicaUsage, display, pods, usage
from tf_operator.client.explanation import checks, ends
from tf_operator.client.explanation.situation import Situation
from tf_operator.client.manifests import kube_yaml
from tf_operator.client.run import tensorflow_lines
from tf_operator.client.usage import GpuUsage
from tf_operator.dialects import registry
from tf_operator.job import naming
from tf_operator.job.record import FirstFailure, JobPhase
from tf_operator.meta import Body, mapping_of, metadata_of, objects_of
from tf_operator.planning.pods import termination_message
from tf_operator.text import escaped

MOST_REPLICAS: Final = 1000
_MOST_PLANNED: Final = 10_000
"""Of a type, as our CRDs allow it; those of others let a tenant ask for two billion."""
_MOST_LINES: Final = 20
_MOST_METRIC: Final = 64
_MOST_PATH: Final = 256
_MOST_INDEX: Final = 8
Shown = Mapping[str, object]


def overview(situation: Situation, *, note: str = "", is_deleted: bool = False, naming: str = "") -> Shown:
    """The job, why it is in its state, its first failure, its TensorBoard.

    ``naming``: options that name the cluster in a command.
    """
    job, explanation = situation.job, checks.explain(situation)
    return {
        "uid": job.uid,
        "possible": [] if is_deleted else changes.possible(job),
        "types": [(str(spec.type), spec.count) for spec in job.spec.replicas],
        "state": "Deleted" if is_deleted else board.state(job),
        "explanation": "was deleted" if is_deleted else feed.printable(explanation.state),
        "reasons": [] if is_deleted else _lines(explanation.reasons),
        "waits": [] if is_deleted else _lines(explanation.waits),
        "steps": [] if is_deleted else _lines(explanation.steps),
        "created": board.moment(job.created),
        "started": board.moment(job.started),
        "finished": board.moment(job.finished),
        "ran": display.lasted(job.started, job.finished),
        "ready": job.ready,
        "restarts": job.restarts,
        "progress": _progress(job),
        "failure": _failure(situation),
        "commands": _commands(job, naming),
        "tensorboard": _tensorboard(job),
        "chosen": main_replica(job),
        "note": note,
    }


def replicas(situation: Situation) -> Shown:
    """Each replica that is wanted, with its pod, and each pod besides; of a large job those that do not run first."""
    by_name = {pod.replica: pod for pod in situation.pods}
    specs = situation.job.spec.in_force().replicas
    planned = [f"{spec.type.label}-{index}" for spec in specs for index in range(min(spec.count, _MOST_PLANNED))]
    names = list(dict.fromkeys((*planned, *by_name)))
    count = max(len(names), sum(spec.count for spec in specs))
    if len(names) > MOST_REPLICAS:
        names.sort(key=lambda name: name in by_name and by_name[name].is_running)
    completed, restarts = _completed(situation.job), pods.restarts(situation.job, situation.pods)
    absent = "has no pod" if situation.are_pods_known else "may not be read"
    rows = [
        _replica(
            name,
            by_name.get(name),
            restarts=restarts.get(name, 0),
            absent="has succeeded" if name in completed else absent,
        )
        for name in names[:MOST_REPLICAS]
    ]
    running = sum(pod.is_running for pod in situation.pods)
    if not situation.are_pods_known:
        running = sum(counts.active for counts in situation.job.replicas.values())
    return {"rows": rows, "count": count, "running": running}


def usages(readings: Sequence[ReplicaUsage], job_pods: Sequence[JobPod], note: str = "") -> Shown:
    """What replicas use, as ``tfjob top`` says it, and each of their GPUs; ``note``: why nobody knows."""
    limits = {pod.replica: _memory_limit(pod) for pod in job_pods}
    rows = dict[str, Shown]()
    for used in readings:
        cpu, memory, gpu, gpu_memory = usage.texts(used)
        limit = limits.get(used.replica)
        share = min(100, round(used.memory * 100 / limit)) if limit else None
        row = {"cpu": cpu, "memory": memory, "share": share, "gpu": gpu, "gpuMemory": gpu_memory}
        rows[used.replica] = row | {"gpus": [_gpu(each) for each in used.gpus]}
    return {"rows": rows, "note": note}


def _gpu(used: GpuUsage) -> Shown:
    """Shares are those of its time and of its memory."""
    time, memory = usage.gpu_texts(used.used, used.memory)
    return {
        "index": feed.printable(used.index, _MOST_INDEX),
        "gpu": time,
        "gpuMemory": memory,
        "gpuShare": None if used.used is None else min(100, round(used.used * 100)),
        "gpuMemoryShare": min(100, round(used.memory * 100 / used.total_memory)) if used.total_memory else None,
    }


def _memory_limit(pod: JobPod) -> float | None:
    """That of all its containers; ``None`` if one has none."""
    containers = objects_of(mapping_of(pod.body.get("spec")).get("containers"))
    limits = [
        quantity.parse(mapping_of(mapping_of(it.get("resources")).get("limits")).get("memory")) for it in containers
    ]
    amounts = [float(limit) for limit in limits if limit is not None]
    return sum(amounts) if amounts and len(amounts) == len(limits) else None


def manifest(body: Body) -> str:
    """The object as YAML, without who has written which field; characters that cannot be seen are escaped."""
    metadata = {name: value for name, value in metadata_of(body).items() if name != "managedFields"}
    text = kube_yaml.write({**body, "metadata": metadata})
    return escaped(text, keeps="\n")


def main_replica(job: Job) -> str:
    """The replica whose log says most: the one that failed first, or the one that stands for the job."""
    first = job.first_failure
    if first and (name := _replica_of(job, first)):
        return name
    kind, index = job.spec.main_replica
    return f"{kind.label}-{index}"


def _lines(texts: Sequence[str]) -> list[str]:
    return [feed.printable(text) for text in texts]


def _replica(name: str, pod: JobPod | None, *, restarts: int, absent: str) -> Shown:
    if pod is None:
        return {"name": name, "state": absent, "tone": "idle", "restarts": restarts}
    return {
        "name": name,
        "pod": pod.name,
        "state": feed.printable(output.state_of(pod)),
        "tone": _tone(pod),
        "restarts": restarts,
        "node": feed.printable(pod.node),
        "created": board.moment(pod.created),
    }


def _tone(pod: JobPod) -> str:
    if pod.phase == "Failed" or (pod.main and pod.main.exit_code):
        return "bad"
    if pod.is_running or pod.phase == "Succeeded":
        return "good"
    return "idle" if pod.is_starting or pod.is_terminating else "warn"


def _completed(job: Job) -> set[str]:
    return {
        f"{spec.type.label}-{index}"
        for spec in job.spec.replicas
        for index in range(min(spec.count, MOST_REPLICAS))
        if index in job.spec.record.of(spec.type).completed
    }


def _progress(job: Job) -> Shown | None:
    """How far the program is, and all that it has reported the last time."""
    report, shown = job.spec.record.progress, board.progress_of(job)
    if report is None or shown is None:
        return None
    saved, metrics = report.checkpoint, list[tuple[str, str]]()
    for name, value in report.metrics:
        metrics.append((feed.printable(name, _MOST_METRIC), feed.printable(value, _MOST_METRIC)))
    return {
        **shown,
        "time": board.moment(report.time),
        "metrics": metrics,
        "saved": board.moment(saved.time) if saved else None,
        "path": feed.printable(saved.path, _MOST_PATH) if saved else "",
        "resumed": report.resumed_from,
    }


def _failure(situation: Situation) -> Shown | None:
    """How the first replica failed, the exception, and the last lines: what it left, or else the end of its log."""
    first = situation.job.first_failure
    if first is None:
        return None
    ended = "" if first.exit_code is None else f"ended with {ends.ending(first.exit_code, first.reason)}"
    lines = [line for line in first.message.splitlines() if line.strip() and not tensorflow_lines.is_own(line)]
    lines = lines if len(lines) > 1 else list(situation.log)
    return {
        "pod": feed.printable(first.pod),
        "replica": _replica_of(situation.job, first),
        "ended": feed.printable(ended or first.reason or "failed"),
        "message": feed.printable(termination_message.summary(first.message or "\n".join(lines))),
        "lines": _lines(lines[-_MOST_LINES:]),
        "time": board.moment(first.time),
    }


def _replica_of(job: Job, first: FirstFailure) -> str:
    place = naming.replica_of(job.name, first.pod, job.spec.profile.names)
    specs = job.spec.in_force().replicas
    is_planned = place is not None and any(spec.type is place[0] and place[1] < spec.count for spec in specs)
    return f"{place[0].label}-{place[1]}" if place and is_planned else ""


def _commands(job: Job, naming: str) -> list[tuple[str, str]]:
    """What to type in a terminal, and what for."""
    options = f" -n {job.namespace}{naming}"
    kind = job.spec.profile.api_version.partition("/")[0]
    if kind != registry.DEFAULT.resource.group:
        options += f" --kind {job.kind.lower()}.{kind}"
    verbs = [("Follow the logs", "logs", " -f"), ("Explain", "explain", ""), ("Collect all for a ticket", "debug", "")]
    verbs += [("Run it again", "retry", "")] if job.phase is JobPhase.FAILED else []
    return [(purpose, f"tfjob {verb} {job.name}{more}{options}") for purpose, verb, more in verbs]


def _tensorboard(job: Job) -> Shown | None:
    """How to reach the TensorBoard that the operator runs for this job, if it asks for one."""
    spec = job.spec
    name = spec.tensorboard.name if spec.tensorboard else job.name if spec.tensorboard_spec is not None else ""
    if not name:
        return None
    problems = _lines(spec.tensorboard.problems) if spec.tensorboard else []
    return {"command": f"kubectl -n {job.namespace} port-forward service/{name} 6006:80", "problems": problems}
