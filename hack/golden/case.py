"""Reads golden cases: each mapping of ``test/golden/<topic>.input.yaml`` to an observation.

A case writes down what it is about. The job is one of a served API as it would be stored, and goes through its dialect,
or through that of a made-up API of ``profiles``. Where a case leaves something out, it is the TFJob ``team/mnist`` of
kubeflow.org/v1, which was started at 08:00 if it has a status; a replica has the template below, it is 08:10 on the
first of March, pods were created at 08:00, and each has its Service. ``null`` leaves a field out for good. In a status,
a condition may be ``Failed=False 08:00:10 REASON: message``, from the time on only what is not usual, and a selector
``...replica-type=worker``. Children are spelt in short forms, one mapping each, whose fields are those of
``planning.snapshot``; one that nothing reads is refused, because it would look as if it mattered.
"""

import re
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
from tf_operator.planning import snapshot
from tf_operator.planning.bodies.accelerators import Accelerator, HostVolume
from tf_operator.planning.child_kinds import kinds
from tf_operator.planning.child_kinds.kind import ChildKind, digest
from tf_operator.planning.kueue import state, workload
from tf_operator.planning.kueue.state import Flavor, KueueState, Priority, Workload

FOLDER: Final = Path("test/golden")
INPUT: Final = ".input.yaml"
PLAN: Final = ".plan.yaml"
HEADER: Final = "# Written by hack/generate golden. A change here is a change of behaviour: say why it is right.\n"

_NOW: Final = datetime(2026, 3, 1, 8, 10, tzinfo=UTC)
_BEGINNING: Final = datetime(2026, 3, 1, 8, tzinfo=UTC)
_DAY: Final = "2026-03-01T"
_TYPES: Final = {kind.label: kind for kind in ReplicaType}
_API: Final = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob"}
_METADATA: Final = {"name": "mnist", "namespace": "team", "uid": "job-uid", "resourceVersion": "1", "generation": 1}
_TEMPLATE: Final = {"spec": {"containers": [{"name": "tensorflow", "image": "training:test"}]}}
_GROUP: Final = "training.kubeflow.org/"
_SELECTOR: Final = f"{_GROUP}job-name=mnist,{_GROUP}operator-name=tfjob-controller,{_GROUP}replica-type="
_MESSAGES: Final = {
    "Created": "TFJob mnist is created.",
    "Running": "TFJob team/mnist is running.",
    "Succeeded": "TFJob team/mnist successfully completed.",
    "Suspended": "TFJob mnist is suspended.",
}
_CONDITION: Final = re.compile(r"([^=\s]+)(?:=(\w+))? (\S*?)(?: (\w+))?(?:: (.*))?", re.DOTALL)
_CLOCK: Final = re.compile(r"^\d\d:\d\d:\d\d$")
_TIME: Final = re.compile(rf"^{_DAY}(\d\d:\d\d:\d\d)Z$")
_OWN: Final = "...replica-type="
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
    snapshot: snapshot.Snapshot
    api: ServedAPI = v1.API
    bodies: tuple[str, ...] = ()
    """The replicas of which the plan file shows the bodies."""


def topics(root: Path, folder: Path = FOLDER) -> list[str]:
    return sorted(path.name.removesuffix(INPUT) for path in (root / folder).glob(f"*{INPUT}"))


def read(root: Path, topic: str) -> dict[str, Case]:
    entries = yaml.load((root / FOLDER / f"{topic}{INPUT}").read_text(encoding="utf-8"), yaml.CSafeLoader)
    return {name: _case(name, fields) for name, fields in entries.items()}


def _case(name: str, fields: Yaml) -> Case:
    refuse_others(fields, _FIELDS | (profiles.FIELDS if "profile" in fields else set()), name)
    body = full_job(fields)
    api = profiles.api_of(fields, body)
    job = api.read_object(body)
    now = _time(fields.get("now"), _NOW)
    pods = tuple(_pod(entry, job) for entry in fields.get("pods", ()))
    names = (naming.service_name(job, pod.type, pod.index) for pod in pods)
    of_pods = dict.fromkeys(job.key.name for _ in pods) if job.has_one_service else dict.fromkeys(names)
    observed = snapshot.Snapshot(
        job,
        now,
        pods=pods,
        services=tuple(_service(entry, job.uid) for entry in fields.get("services", of_pods)),
        pod_group=_group(fields.get("podGroup"), job.key.name),
        rejected=_refusal(fields.get("rejected"), now),
        extras=_extras(fields.get("extras", {}), job, now),
        settings=_settings(fields.get("settings", {})),
        kueue=_kueue(fields["kueue"], job) if "kueue" in fields else None,
        hold=snapshot.Hold(*fields["hold"]) if "hold" in fields else None,
    )
    return Case(name, fields["title"], observed, api, tuple(fields.get("bodies", ())))


def full_job(fields: Yaml) -> Yaml:
    """The object of a case, with what the case leaves out. That of an API which it names is written out."""
    entry = fields["job"]
    metadata = _without_nulls(_METADATA | entry.get("metadata", {}))
    job: Yaml = (profiles.API if "profile" in fields else _API) | entry | {"metadata": metadata}
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
    full: Yaml = full_texts(_without_nulls({"startTime": "08:00:00", "observedGeneration": 1} | status))
    if isinstance(statuses := full.get("replicaStatuses"), dict):
        full["replicaStatuses"] = {
            name: _with_default(entry, "selector", f"{_SELECTOR}{name.lower()}") for name, entry in statuses.items()
        }
    return full


def full_texts(value: Any, name: str = "") -> Any:  # noqa: ANN401 (any part of a status)
    """A status with its conditions, times and selectors written out."""
    if isinstance(value, dict):
        return {key: full_texts(entry, key) for key, entry in value.items()}
    if isinstance(value, list):
        return [full_texts(entry, name) for entry in value]
    if name == "conditions" and (parts := _CONDITION.fullmatch(value)):
        return _condition(*parts.groups())
    return _CLOCK.sub(rf"{_DAY}\g<0>Z", value).replace(_OWN, _SELECTOR) if isinstance(value, str) else value


def short_texts(value: Any, name: str = "") -> Any:  # noqa: ANN401 (any part of a status)
    """A status with those in their short form that have one."""
    if isinstance(value, dict):
        short = {key: short_texts(entry, key) for key, entry in value.items()}
        return _short_condition(short) if name == "conditions" else short
    if isinstance(value, list):
        return [short_texts(entry, name) for entry in value]
    return _TIME.sub(r"\1", value).replace(_SELECTOR, _OWN) if isinstance(value, str) else value


def _condition(kind: str, status: str | None, clock: str, reason: str | None, message: str | None) -> Yaml:
    time = f"{_DAY}{clock}Z"
    return {
        "type": kind,
        "status": status or "True",
        "reason": reason or f"TFJob{kind}",
        "message": _MESSAGES.get(kind, "") if message is None else message,
        "lastUpdateTime": time,
        "lastTransitionTime": time,
    }


def _short_condition(entry: Yaml) -> str | Yaml:
    status = "" if entry.get("status") == "True" else f"={entry.get('status')}"
    text, message = f"{entry.get('type')}{status} {entry.get('lastUpdateTime')}", f": {entry.get('message')}"
    texts = (text, f"{text}{message}", f"{text} {entry.get('reason')}{message}")
    return next((text for text in texts if full_texts(text, "conditions") == full_texts(entry)), entry)


def _with_default(entry: object, field: str, value: object) -> object:
    """The mapping with the field; null is a field that is not there, and what is not a mapping stays as it is."""
    if not isinstance(entry, dict):
        return entry
    return {name: content for name, content in ({field: value} | entry).items() if name != field or content is not None}


def _without_nulls(entry: Yaml) -> Yaml:
    return {name: value for name, value in entry.items() if value is not None}


def _pod(entry: Yaml, job: TrainingJob) -> snapshot.Pod:
    label, _, index = entry["replica"].rpartition("-")
    service = naming.service_name(job, _TYPES[label], int(index))
    apart = {"replica", "node", "unhealthyDevice", "avoids", "created", "main", "lastTermination", "restartPolicy"}
    values = _values(snapshot.Pod, entry, "pods", apart=apart | {"restartRules", "disrupted"})
    return snapshot.Pod(
        **{"name": naming.pod_name(job, service, None), "uid": f"uid-of-{entry['replica']}"} | values,
        type=_TYPES[label],
        index=int(index),
        is_disrupted=entry.get("disrupted", False) or "disruptedAt" in entry,
        restart_policy=RestartPolicy(entry["restartPolicy"]) if "restartPolicy" in entry else None,
        main=_main(entry.get("main"), is_running=entry["phase"] == "Running" and "main" not in entry),
        last_termination=_main(entry.get("lastTermination"), is_running=False),
        restart_rules=restart_rules.read(entry["restartRules"]) if "restartRules" in entry else None,
        created_at=_time(entry.get("created"), _BEGINNING),
        host=snapshot.Host(entry.get("node", ""), entry.get("unhealthyDevice", False), entry.get("avoids", "")),
        version="8",
    )


def _main(entry: Yaml | None, *, is_running: bool) -> snapshot.MainContainer | None:
    """The deciding container; of a pod that runs, it runs since the beginning. ``main: null``: it waits."""
    if entry is None:
        return snapshot.MainContainer(started_at=_BEGINNING) if is_running else None
    refuse_others(entry, {"exitCode", "reason", "message", "started", "finished"}, "main")
    return snapshot.MainContainer(
        exit_code=entry.get("exitCode"),
        reason=entry.get("reason", ""),
        message=entry.get("message", ""),
        started_at=_time(entry.get("started"), _BEGINNING),
        finished_at=_time(entry.get("finished")),
    )


def _service(entry: str | Yaml, uid: str) -> snapshot.Service:
    """A Service of ours, by its name; or a mapping, for one of 1.9 or a terminating one."""
    if isinstance(entry, str):
        return snapshot.Service(entry, f"uid-of-service-{entry}", job_uid_label=uid)
    refuse_others(entry, {"name", "terminating", "label"}, "services")
    uid_label = entry.get("label", uid)
    return snapshot.Service(
        entry["name"], f"uid-of-service-{entry['name']}", entry.get("terminating", False), uid_label
    )


def _group(entry: Yaml | None, job: str) -> snapshot.PodGroup | None:
    if entry is None:
        return None
    refuse_others(entry, {"phase", "spec", "terminating"}, "podGroup")
    spec = entry.get("spec")
    return snapshot.PodGroup(job, "uid-of-the-group", entry.get("phase", ""), spec, entry.get("terminating", False))


def _extras(fields: Yaml, job: TrainingJob, now: datetime) -> dict[ChildKind, snapshot.ChildState]:
    """By the names of kinds; of a kind that is not here, nothing is known yet."""
    names = {kind: kind.resource.kind for kind in kinds.ALL}
    refuse_others(fields, names.values(), "extras")
    return {
        kind: _extra(fields.get(name), job.key.name, now, uid=f"uid-of-the-{name.lower()}")
        for kind, name in names.items()
    }


def _extra(entry: Yaml | None, job: str, now: datetime, *, uid: str) -> snapshot.ChildState:
    """``madeFrom``: the spec that it was last given, where that is not what it has."""
    if entry is None:
        return snapshot.ChildState(is_known=False)
    refuse_others(entry, {"current", "rejected", "unserved", "isOff"}, "extras")
    body, current = entry.get("current"), None
    if body is not None:
        refuse_others(body, {"spec", "madeFrom", "status", "terminating"}, "extras.current")
        spec, status, is_terminating = body.get("spec", {}), body.get("status", {}), body.get("terminating", False)
        current = snapshot.ChildObject(job, uid, digest(body.get("madeFrom", spec)), is_terminating, spec, status)
    rejection = _refusal(entry.get("rejected"), now)
    return snapshot.ChildState(current, rejection, entry.get("unserved", ""), entry.get("isOff", False))


def _refusal(entry: Yaml | None, now: datetime) -> snapshot.RejectedWrite | None:
    if entry is None:
        return None
    refuse_others(entry, {"what", "message", "at", "code", "attempts", "cause", "resource"}, "rejected")
    return snapshot.RejectedWrite(
        subject=entry["what"],
        message=entry["message"],
        at=_time(entry["at"], now),
        code=entry.get("code", 403),
        attempts=entry.get("attempts", 1),
        cause=snapshot.Cause(entry.get("cause", "refused")),
        resource=entry.get("resource", ""),
    )


def _kueue(entry: Yaml, job: TrainingJob) -> KueueState:
    """Kueue as it is observed; a class of priority is its name, value, and whether it is one of pods."""
    fields: Yaml = {"version": state.VERSIONS[0], "priority": ["", 0], "flavors": {}} | entry
    flavors, priority = fields["flavors"].items(), fields["priority"]
    fields["workload"] = _workload(entry["workload"], job) if "workload" in entry else None
    fields["priority"] = None if priority is None else Priority(*priority)
    fields["flavors"] = {name: Flavor(flavor["nodeLabels"], tuple(flavor["tolerations"])) for name, flavor in flavors}
    return KueueState(**fields)


def _workload(entry: Yaml, job: TrainingJob) -> Workload:
    """That of the job; made for what it asks for now, if the case does not say otherwise."""
    defaults: Yaml = {"digest": workload.digest(job), "spec": workload.place(job, KueueState()), "status": {}}
    fields = defaults | entry
    finalizers = tuple(fields.get("finalizers", ()))
    return Workload(workload.name_of(job), "uid-of-the-workload", "9", **fields | {"finalizers": finalizers})


def _settings(entry: Yaml) -> snapshot.Settings:
    accelerators = tuple(_accelerator(name, accelerator) for name, accelerator in entry.get("accelerators", {}).items())
    return snapshot.Settings(
        **_values(snapshot.Settings, entry, "settings", apart={"accelerators"}), accelerators=accelerators
    )


def _accelerator(resource: str, entry: Yaml) -> Accelerator:
    refuse_others(entry, {"volumes", "variables", "replacement"}, "settings.accelerators")
    volumes = tuple(HostVolume(name, *paths) for name, paths in entry.get("volumes", {}).items())
    variables = tuple(entry.get("variables", {}).items())
    return Accelerator(resource, volumes, variables, entry.get("replacement", ""))


def _time(text: str | None, default: datetime | None = None) -> Any:  # noqa: ANN401 (None only without a default)
    """A time, or one on the day of the cases: ``08:00:10``."""
    return parse_time(text if text is None or "T" in text else f"{_DAY}{text}Z") or default


def _values(
    kind: type[snapshot.Pod | snapshot.Settings], entry: Yaml, where: str, *, apart: set[str]
) -> dict[str, Any]:
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
