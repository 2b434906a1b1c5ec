"""Reads golden cases: each mapping of ``test/golden/<topic>.input.yaml`` to an observation.

A case writes down what it is about. The job is one of a served API as it would be stored, and goes through its dialect,
or through that of a made-up API of ``profiles``. Where a case leaves something out, it is the TFJob ``team/mnist`` of
kubeflow.org/v1, which was started at 08:00 if it has a status; a replica has the template below, a condition may be
``Running 08:00:10`` or ``Running=False 08:00:10``, it is 08:10 on the first of March, pods were created at 08:00, and
each has its Service. ``null`` leaves a field out for good. Children are spelt in short forms, one mapping each, whose
fields are those of ``planning.snapshot``; one that nothing reads is refused, because it would look as if it mattered.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, get_type_hints

import yaml

from golden import profiles
from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.served import ServedAPI
from tf_operator.job import naming, restart_rules
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import RestartPolicy, TrainingJob
from tf_operator.meta import parse_time
from tf_operator.planning.bodies.accelerators import Accelerator, HostVolume
from tf_operator.planning.child_kinds import kinds
from tf_operator.planning.child_kinds.kind import ChildKind, digest
from tf_operator.planning.kueue import state, workload
from tf_operator.planning.kueue.state import Flavor, KueueState, Priority, Workload
from tf_operator.planning.snapshot import (
    Cause,
    ChildObject,
    ChildState,
    Hold,
    Host,
    MainContainer,
    Pod,
    PodGroup,
    RejectedWrite,
    Service,
    Settings,
    Snapshot,
)

FOLDER: Final = Path("test/golden")
INPUT: Final = ".input.yaml"
PLAN: Final = ".plan.yaml"
HEADER: Final = "# Written by hack/generate golden. A change here is a change of behaviour: say why it is right.\n"

_NOW: Final = datetime(2026, 3, 1, 8, 10, tzinfo=UTC)
_BEGINNING: Final = datetime(2026, 3, 1, 8, tzinfo=UTC)
_DAY: Final = "2026-03-01T"
_TYPES: Final = {kind.label: kind for kind in ReplicaType}
_METADATA: Final = {"name": "mnist", "namespace": "team", "uid": "job-uid", "resourceVersion": "1", "generation": 1}
_TEMPLATE: Final = {"spec": {"containers": [{"name": "tensorflow", "image": "training:test"}]}}
_SELECTOR: Final = ",".join(
    (
        "training.kubeflow.org/job-name=mnist",
        "training.kubeflow.org/operator-name=tfjob-controller",
        "training.kubeflow.org/replica-type=",
    )
)
_MESSAGES: Final = {
    "Created": "TFJob mnist is created.",
    "Running": "TFJob team/mnist is running.",
    "Succeeded": "TFJob team/mnist successfully completed.",
}
_FIELDS: Final = {
    *("title", "job", "now", "pods", "services", "podGroup", "extras", "rejected", "settings", "bodies"),
    *("hold", "kueue"),
}

Yaml = dict[str, Any]


class Malformed(ValueError):
    """A case that says something nobody reads."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case: what it shows, and what is observed."""

    name: str
    title: str
    snapshot: Snapshot
    api: ServedAPI = v1.API
    bodies: tuple[str, ...] = ()
    """The replicas of which the plan file shows the bodies."""


def topics(root: Path) -> list[str]:
    return sorted(path.name.removesuffix(INPUT) for path in (root / FOLDER).glob(f"*{INPUT}"))


def read(root: Path, topic: str) -> dict[str, Case]:
    entries = yaml.load((root / FOLDER / f"{topic}{INPUT}").read_text(encoding="utf-8"), yaml.CSafeLoader)
    return {name: _case(name, fields) for name, fields in entries.items()}


def _case(name: str, fields: Yaml) -> Case:
    refuse_others(fields, _FIELDS | (profiles.FIELDS if "profile" in fields else set()), name)
    fields = fields | {"job": full_job(fields["job"])}
    api = profiles.api_of(fields)
    job = api.read_object(fields["job"])
    now = _time(fields.get("now"), _NOW)
    pods = tuple(_pod(entry, job) for entry in fields.get("pods", ()))
    names = (naming.service_name(job, pod.type, pod.index) for pod in pods)
    of_pods = dict.fromkeys(job.key.name for _ in pods) if job.has_one_service else dict.fromkeys(names)
    snapshot = Snapshot(
        job,
        now,
        pods=pods,
        services=tuple(_service(entry, job.uid) for entry in fields.get("services", of_pods)),
        pod_group=_group(fields.get("podGroup"), job.key.name),
        rejected=_refusal(fields.get("rejected"), now),
        extras=_extras(fields.get("extras", {}), job, now),
        settings=_settings(fields.get("settings", {})),
        kueue=_kueue(fields["kueue"], job) if "kueue" in fields else None,
        hold=Hold(*fields["hold"]) if "hold" in fields else None,
    )
    return Case(name, fields["title"], snapshot, api, tuple(fields.get("bodies", ())))


def full_job(entry: Yaml) -> Yaml:
    """The object of a case, with what the case leaves out. That of another API is written out."""
    metadata = _without_nulls(_METADATA | entry.get("metadata", {}))
    job: Yaml = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", **entry, "metadata": metadata}
    if "apiVersion" in entry:
        return job
    spec = job.get("spec")
    if isinstance(spec, dict) and isinstance(replicas := spec.get("tfReplicaSpecs"), dict):
        full = {name: _with_default(replica, "template", _TEMPLATE) for name, replica in replicas.items()}
        job["spec"] = spec | {"tfReplicaSpecs": full}
    if isinstance(status := job.get("status"), dict):
        job["status"] = _full_status(status)
    return job


def _full_status(status: Yaml) -> Yaml:
    full = with_full_conditions(_without_nulls({"startTime": f"{_DAY}08:00:00Z", "observedGeneration": 1} | status))
    if isinstance(statuses := status.get("replicaStatuses"), dict):
        full["replicaStatuses"] = {
            name: _with_default(entry, "selector", f"{_SELECTOR}{name.lower()}") for name, entry in statuses.items()
        }
    return full


def with_full_conditions(status: Yaml) -> Yaml:
    """The status with each condition written out."""
    if not isinstance(conditions := status.get("conditions"), list):
        return status
    return status | {"conditions": [_condition(entry) if isinstance(entry, str) else entry for entry in conditions]}


def with_short_conditions(status: Yaml) -> Yaml:
    """The status with those conditions in their short form that have one."""
    if not isinstance(conditions := status.get("conditions"), list):
        return status
    return status | {"conditions": [_short_condition(entry) for entry in conditions]}


def _condition(text: str) -> Yaml:
    name, _, clock = text.partition(" ")
    kind, _, status = name.partition("=")
    time = f"{_DAY}{clock}Z"
    return {
        "type": kind,
        "status": status or "True",
        "reason": f"TFJob{kind}",
        "message": _MESSAGES.get(kind, ""),
        "lastUpdateTime": time,
        "lastTransitionTime": time,
    }


def _short_condition(entry: Yaml) -> str | Yaml:
    status = "" if entry.get("status") == "True" else f"={entry.get('status')}"
    text = f"{entry.get('type')}{status} {str(entry.get('lastUpdateTime', '')).removeprefix(_DAY).removesuffix('Z')}"
    return text if _condition(text) == entry else entry


def _with_default(entry: object, field: str, value: object) -> object:
    """The mapping with the field; null is a field that is not there, and what is not a mapping stays as it is."""
    if not isinstance(entry, dict):
        return entry
    return {name: content for name, content in ({field: value} | entry).items() if name != field or content is not None}


def _without_nulls(entry: Yaml) -> Yaml:
    return {name: value for name, value in entry.items() if value is not None}


def _pod(entry: Yaml, job: TrainingJob) -> Pod:
    label, _, index = entry["replica"].rpartition("-")
    service = naming.service_name(job, _TYPES[label], int(index))
    of_others = {"replica", "node", "unhealthyDevice", "avoids", "created"}
    parts = {"main", "lastTermination", "restartPolicy", "restartRules", "disrupted"}
    values = _values(Pod, entry, "pods", apart=of_others | parts)
    return Pod(
        **{"name": naming.pod_name(job, service, None), "uid": f"uid-of-{entry['replica']}"} | values,
        type=_TYPES[label],
        index=int(index),
        is_disrupted=entry.get("disrupted", False) or "disruptedAt" in entry,
        restart_policy=RestartPolicy(entry["restartPolicy"]) if "restartPolicy" in entry else None,
        main=_main(entry.get("main"), is_running=entry["phase"] == "Running" and "main" not in entry),
        last_termination=_main(entry.get("lastTermination"), is_running=False),
        restart_rules=restart_rules.read(entry["restartRules"]) if "restartRules" in entry else None,
        created_at=_time(entry.get("created"), _BEGINNING),
        host=Host(entry.get("node", ""), entry.get("unhealthyDevice", False), entry.get("avoids", "")),
        version="8",
    )


def _main(entry: Yaml | None, *, is_running: bool) -> MainContainer | None:
    """The deciding container; of a pod that runs, it runs since the beginning. ``main: null``: it waits."""
    if entry is None:
        return MainContainer(started_at=_BEGINNING) if is_running else None
    refuse_others(entry, {"exitCode", "reason", "message", "started", "finished"}, "main")
    return MainContainer(
        exit_code=entry.get("exitCode"),
        reason=entry.get("reason", ""),
        message=entry.get("message", ""),
        started_at=_time(entry.get("started"), _BEGINNING),
        finished_at=_time(entry.get("finished")),
    )


def _service(entry: str | Yaml, uid: str) -> Service:
    """A Service of ours, by its name; or a mapping, for one of 1.9 or a terminating one."""
    if isinstance(entry, str):
        return Service(entry, f"uid-of-service-{entry}", job_uid_label=uid)
    refuse_others(entry, {"name", "terminating", "label"}, "services")
    uid_label = entry.get("label", uid)
    return Service(entry["name"], f"uid-of-service-{entry['name']}", entry.get("terminating", False), uid_label)


def _group(entry: Yaml | None, job: str) -> PodGroup | None:
    if entry is None:
        return None
    refuse_others(entry, {"phase", "spec", "terminating"}, "podGroup")
    spec = entry.get("spec")
    return PodGroup(job, "uid-of-the-group", entry.get("phase", ""), spec, entry.get("terminating", False))


def _extras(fields: Yaml, job: TrainingJob, now: datetime) -> dict[ChildKind, ChildState]:
    """By the names of kinds; of a kind that is not here, nothing is known yet."""
    names = {kind: kind.resource.kind for kind in kinds.ALL}
    refuse_others(fields, names.values(), "extras")
    return {
        kind: _extra(fields.get(name), job.key.name, now, uid=f"uid-of-the-{name.lower()}")
        for kind, name in names.items()
    }


def _extra(entry: Yaml | None, job: str, now: datetime, *, uid: str) -> ChildState:
    """``madeFrom``: the spec that it was last given, where that is not what it has."""
    if entry is None:
        return ChildState(is_known=False)
    refuse_others(entry, {"current", "rejected", "unserved", "isOff"}, "extras")
    body, current = entry.get("current"), None
    if body is not None:
        refuse_others(body, {"spec", "madeFrom", "status", "terminating"}, "extras.current")
        spec, status, is_terminating = body.get("spec", {}), body.get("status", {}), body.get("terminating", False)
        current = ChildObject(job, uid, digest(body.get("madeFrom", spec)), is_terminating, spec, status)
    rejected = _refusal(entry.get("rejected"), now)
    return ChildState(current, rejected, entry.get("unserved", ""), entry.get("isOff", False))


def _refusal(entry: Yaml | None, now: datetime) -> RejectedWrite | None:
    if entry is None:
        return None
    refuse_others(entry, {"what", "message", "at", "code", "attempts", "cause", "resource"}, "rejected")
    return RejectedWrite(
        subject=entry["what"],
        message=entry["message"],
        at=_time(entry["at"], now),
        code=entry.get("code", 403),
        attempts=entry.get("attempts", 1),
        cause=Cause(entry.get("cause", "refused")),
        resource=entry.get("resource", ""),
    )


def _kueue(entry: Yaml, job: TrainingJob) -> KueueState:
    """Kueue as it is observed; a class of priority is its name, value, and whether it is one of pods."""
    fields: Yaml = {"version": state.VERSIONS[0], "priority": ["", 0], "flavors": {}} | entry
    flavors = fields["flavors"].items()
    priority = fields["priority"]
    return KueueState(
        **fields
        | {
            "workload": _workload(entry["workload"], job) if "workload" in entry else None,
            "priority": None if priority is None else Priority(*priority),
            "flavors": {name: Flavor(flavor["nodeLabels"], tuple(flavor["tolerations"])) for name, flavor in flavors},
        }
    )


def _workload(entry: Yaml, job: TrainingJob) -> Workload:
    """That of the job; made for what it asks for now, if the case does not say otherwise."""
    defaults: Yaml = {"digest": workload.digest(job), "spec": workload.place(job, KueueState()), "status": {}}
    fields = defaults | entry
    finalizers = tuple(fields.get("finalizers", ()))
    return Workload(workload.name_of(job), "uid-of-the-workload", "9", **fields | {"finalizers": finalizers})


def _settings(entry: Yaml) -> Settings:
    accelerators = tuple(_accelerator(name, accelerator) for name, accelerator in entry.get("accelerators", {}).items())
    return Settings(**_values(Settings, entry, "settings", apart={"accelerators"}), accelerators=accelerators)


def _accelerator(resource: str, entry: Yaml) -> Accelerator:
    refuse_others(entry, {"volumes", "variables", "replacement"}, "settings.accelerators")
    volumes = tuple(HostVolume(name, *paths) for name, paths in entry.get("volumes", {}).items())
    variables = tuple(entry.get("variables", {}).items())
    return Accelerator(resource, volumes, variables, entry.get("replacement", ""))


def _time(text: str | None, default: datetime | None = None) -> Any:  # noqa: ANN401 (None only without a default)
    """A time, or one on the day of the cases: ``08:00:10``."""
    return parse_time(text if text is None or "T" in text else f"{_DAY}{text}Z") or default


def _values(kind: type[Pod | Settings], entry: Yaml, where: str, *, apart: set[str]) -> dict[str, Any]:
    """What a case says of a value, but for the fields *apart*: ``memoryLimit`` is memory_limit, ``gone`` is is_gone."""
    hints = get_type_hints(kind)
    words = {name: name.removeprefix("is_").title().replace("_", "") for name in hints}
    by_word = {f"{word[0].lower()}{word[1:]}": name for name, word in words.items()}
    refuse_others(entry, {*by_word, *apart}, where)
    return {
        name: _time(entry[word]) if "datetime" in str(hints[name]) else entry[word]
        for word, name in by_word.items()
        if word in entry and word not in apart
    }


def refuse_others(entry: Mapping[str, Any], fields: Iterable[str], where: str) -> None:
    if others := sorted(set(entry) - set(fields)):
        raise Malformed(f"{where}: nothing reads {', '.join(others)}")
