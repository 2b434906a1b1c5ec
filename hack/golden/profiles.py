"""Made-up APIs for golden cases: the manifest of kubeflow.org/v1 under another profile.

A case names one of them, and says beside the manifest what kubeflow.org/v1 has no field for. The status in the job is
its record alone, as ``dialects.record`` writes it, with the message and the note that users would read.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from msgspec import structs

from tf_operator.dialects import record as codec
from tf_operator.dialects import registry
from tf_operator.dialects.json_values import present
from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.served import ServedAPI
from tf_operator.job import defaults
from tf_operator.job.profile import AfterEnd, ExitCodes, FailureScope, Labels, NameStyle, Profile, RestartBy, Words
from tf_operator.job.record import ReplicaType
from tf_operator.job.report import JobReport, ReplicaLine
from tf_operator.job.training_job import CleanPodPolicy, DecidingReplica, Override, ReplicaSpec, TrainingJob
from tf_operator.meta import Body

_LABELS: Final = Labels("made-up", "job", "type", "index", "role")
BY_TEMPLATE: Final = Profile(
    api_version="made.up/v1",
    kind="Job",
    container="tensorflow",
    port_name="mesh-port",
    port=2222,
    exit_codes=ExitCodes(frozenset(range(129, 256)) - {139}, is_oom_final=True),
    words=Words("spec.tfReplicaSpecs"),
    labels=replace(_LABELS, extra=(("made.up", ""), ("id", "{runtime_id}"), ("place", "{job}.{type}.{index}"))),
    names=NameStyle.GENERATED,
    failure_scope=FailureScope.DECIDING,
    restart_by=RestartBy.TEMPLATE,
    after_end=AfterEnd.CLEAN_UP,
    has_cluster_always=True,
    service_port_name="mesh",
    has_operator_config=True,
    server_image="server:default",
)
BY_NEW_POD: Final = replace(
    BY_TEMPLATE,
    exit_codes=ExitCodes((130, 137, 138, 143)),
    labels=_LABELS,
    names=NameStyle.STABLE,
    restart_by=RestartBy.NEW_POD,
    after_end=AfterEnd.REPLICAS,
    has_cluster_always=False,
    service_port_name="",
    has_operator_config=False,
)
BY_NAME: Final = {"by-template": BY_TEMPLATE, "by-new-pod": BY_NEW_POD}
API: Final = {"apiVersion": BY_TEMPLATE.api_version, "kind": BY_TEMPLATE.kind}
FIELDS: Final = frozenset({"profile", "deciding", "cleanPods", "replicas"})
_TYPES: Final = {kind.label: kind for kind in ReplicaType}


def api_of(more: Mapping[str, Any], job: Body) -> ServedAPI:
    """The API that reads the job of a case with these fields beside it."""
    if "profile" not in more:
        return registry.api_of(job) or v1.API
    profile = BY_NAME[more["profile"]]

    def read(metadata: Body, spec: object, status: object) -> TrainingJob:
        job = structs.replace(v1.read(metadata, spec, None), profile=profile, record=codec.read(status))
        stored_status = status if isinstance(status, Mapping) else {}
        return defaults.with_defaults(_with_fields(structs.replace(job, stored_status=stored_status), spec, more))

    return replace(v1.API, profiles=(profile,), read=read, write_status=_write_status)


def _with_fields(job: TrainingJob, body: Any, more: Mapping[str, Any]) -> TrainingJob:  # noqa: ANN401 (a spec)
    clean_pods = CleanPodPolicy(more.get("cleanPods", job.run_policy.clean_pods))
    label, _, index = more.get("deciding", "").rpartition("-")
    specs = more.get("replicas", {})
    return structs.replace(
        job,
        runtime_id="76no" if job.profile.names is NameStyle.GENERATED else "",
        deciding=DecidingReplica(_TYPES[label], int(index), "spec.deciding") if label else None,
        run_policy=structs.replace(job.run_policy, clean_pods=clean_pods),
        replicas=tuple(_with_extras(spec, body, specs.get(spec.type.label, {})) for spec in job.replicas),
    )


def _with_extras(spec: ReplicaSpec, body: Any, more: Mapping[str, Any]) -> ReplicaSpec:  # noqa: ANN401 (a spec)
    override = more.get("override")
    return structs.replace(
        spec,
        template=body["tfReplicaSpecs"][spec.type]["template"],  # without the port that kubeflow.org/v1 adds
        port=more.get("port"),
        override=Override(**{name: _frozen(value) for name, value in override.items()}) if override else None,
        is_default_server=more.get("defaultServer", False),
    )


def _frozen(value: Any) -> Any:  # noqa: ANN401 (a field of an override)
    return tuple(value) if isinstance(value, list) else value


def _write_status(report: JobReport, stored_status: Body) -> dict[str, Any]:
    sentence = report.message or report.note.strip()
    if report.job.record.is_finished:
        sentence = str(stored_status.get("says", ""))
    lines = report.lines() if report.job.profile.after_end is AfterEnd.REPLICAS else ()
    by_name = {f"{line.type.label}-{line.index}": _words(line) for line in lines}
    return codec.write(report.record) | present(says=sentence, lines=by_name)


def _words(line: ReplicaLine) -> str:
    flags = {"completed": line.is_completed, "has failed": line.has_failed, "is to run": line.is_to_run}
    return ", ".join([line.phase or "no pod", *(word for word, is_so in flags.items() if is_so)])
