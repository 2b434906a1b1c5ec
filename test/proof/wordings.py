"""What the served APIs say, in the words that the oracle knows, which are those of kubeflow.org/v1.

Written from the pages of each API, as the oracle is, and without what the operator has of its own to read them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proof import oracle
from support.resources import Json

Spec = tuple[int, int, int, int]
"""Whether the job is suspended, its number of workers and its limit (-1 where it has none), and its generation."""

EVERYWHERE = -2
"""In place of a limit: the job has none, and avoids no node."""
ONE_SERVICE = -3
"""In place of a limit: the job has none, and one Service for all its replicas."""
REPLACED = "replaced"
"""Every pod that fails gets a successor, and its kubelet restarts nothing."""


@dataclass(frozen=True, slots=True)
class Wording:
    """How the jobs of an API are to be understood."""

    job: Callable[[Json], oracle.Job]
    """What a spec asks for."""
    status: Callable[[Json], Json]
    edit: Callable[[Spec], Json]
    """What people change of a spec, as a patch."""


def _v1_job(spec: Json) -> oracle.Job:
    policy = spec.get("runPolicy", {})
    is_whole = policy.get("restarts", {}).get("scope") == "Job"
    return oracle.Job(
        {
            kind: oracle.Replicas(entry.get("replicas", 1), _v1_policy(entry, is_whole=is_whole))
            for kind, entry in spec["tfReplicaSpecs"].items()
        },
        is_whole=is_whole,
        sizes={kind: _SIZES for kind, entry in spec["tfReplicaSpecs"].items() if "oomPolicy" in entry},
        is_suspended=policy.get("suspend", False),
        limit=policy.get("backoffLimit"),
        avoid_after=(policy.get("avoidNodes") or {}).get("afterFailures"),
        clean=policy.get("cleanPodPolicy", "None"),
        all_workers=spec.get("successPolicy") == "AllWorkers",
        is_dynamic=spec.get("enableDynamicWorker", False),
        deadline=policy.get("activeDeadlineSeconds"),
        expires_after=policy.get("ttlSecondsAfterFinished"),
        has_one_service=spec.get("serviceMode") == "Job",
    )


_SIZES = ("1Gi", "2Gi")
"""The memory of types that grow: of 100 % from 1Gi, and at most to 2Gi."""


def _v1_policy(entry: Json, *, is_whole: bool) -> str:
    """With scope Job "the kubelet restarts nothing"."""
    policy: str = entry.get("restartPolicy", "Never")
    return REPLACED if is_whole and policy in oracle.IN_PLACE else policy


def _v1_edit(spec: Spec) -> Json:
    policy: dict[str, Any] = {"suspend": bool(spec[0])} | ({"backoffLimit": spec[2]} if spec[2] >= 0 else {})
    policy |= {"avoidNodes": None} if spec[2] == EVERYWHERE else {}
    replicas = {"tfReplicaSpecs": {"Worker": {"replicas": spec[1]}}} if spec[1] >= 0 else {}
    mode = {"serviceMode": "Job"} if spec[2] == ONE_SERVICE else {}
    return {"runPolicy": policy, **replicas, **mode}


# --- batch.tensorstack.dev: "How its jobs run"

_T9K_TYPES = {"chief": "Chief", "worker": "Worker", "ps": "PS"}
_T9K_STATES = {"Pending": "Created", "Resuming": "Created", "Paused": "Suspended"}


def _t9k_job(spec: Json) -> oracle.Job:
    """A restart is always a new pod; the chief alone decides; 130, 137, 138 and 143 restart."""
    replicas = {
        _T9K_TYPES[entry["type"]]: oracle.Replicas(
            entry.get("replicas", 1), entry["restartPolicy"] if entry["restartPolicy"] == "ExitCode" else REPLACED
        )
        for entry in spec["replicaSpecs"]
    }
    return oracle.Job(
        replicas,
        is_suspended=spec.get("runMode", {}).get("pause", {}).get("enabled", False),
        clean={"Unfinished": "Running"}.get(policy := spec["runPolicy"]["cleanUpPolicy"], policy),
        final_codes=frozenset(range(1, 256)) - {130, 137, 138, 143},
        decides=("Chief", 0),
        counts=frozenset({"restarts"}),
    )


def _t9k_status(status: Json) -> Json:
    ends = [entry for entry in status.get("conditions", ()) if entry["type"] in {"Failed", "Completed"}]
    end = next((entry for entry in ends if entry["status"] == "True"), None)
    phase = str(status.get("phase", ""))
    told = _told(_T9K_STATES.get(phase, phase), "TFJobFailed" if end else "")
    return told | {"restarts": status.get("backoffCount", 0)}


def _t9k_edit(spec: Spec) -> Json:
    return {"runMode": {"pause": {"enabled": bool(spec[0])}}}


# --- mlkube.io and kubeflow.org/v1alpha1: "How a job runs and ends"

_LIST_FINAL = frozenset({*range(1, 129), 139})
_LIST_STATES = {"Creating": "Created", "Running": "Running"}


def _list_job(spec: Json) -> oracle.Job:
    """The master decides; workers and parameter servers run again whenever they fail."""
    items = {entry["tfReplicaType"].capitalize(): entry.get("replicas", 1) for entry in spec["replicaSpecs"]}
    return oracle.Job(
        {kind: oracle.Replicas(count, "ExitCode" if kind == "Master" else REPLACED) for kind, count in items.items()},
        clean=spec["cleanupPodPolicy"],
        final_codes=_LIST_FINAL,
        decides=("Master", 0),
        counts=frozenset(),
    )


def _list_status(status: Json) -> Json:
    phase, state = str(status.get("phase", "")), str(status.get("state", ""))
    return _told(_LIST_STATES.get(phase, state), "TFJobFailed")


def _v1alpha1_job(spec: Json) -> oracle.Job:
    """Stored as v1, by the rules of v1alpha1."""
    return oracle.Job(
        {
            kind: oracle.Replicas(entry.get("replicas", 1), "ExitCode" if kind == "Master" else REPLACED)
            for kind, entry in spec["tfReplicaSpecs"].items()
        },
        is_suspended=spec.get("runPolicy", {}).get("suspend", False),
        clean=spec.get("runPolicy", {}).get("cleanPodPolicy", "Running"),
        final_codes=_LIST_FINAL,
        decides=("Master", 0),
    )


def _v1alpha1_status(status: Json) -> Json:
    """Its clean-up is noted, too, and moments have no more than an order here."""
    return status | ({"completionTime": ""} if "completionTime" in status else {})


def _told(state: str, reason: str) -> Json:
    """A status of v1 that says no more than this."""
    if not state:
        return {}
    entry = {"type": state, "status": "True", "reason": reason}
    return {"conditions": [entry]} | ({"completionTime": ""} if state in oracle.ENDS else {})


def _as_it_is(status: Json) -> Json:
    return status


V1 = Wording(_v1_job, _as_it_is, _v1_edit)
V1ALPHA1 = Wording(_v1alpha1_job, _v1alpha1_status, lambda spec: {"runPolicy": {"suspend": bool(spec[0])}})
T9K = Wording(_t9k_job, _t9k_status, _t9k_edit)
LISTS = Wording(_list_job, _list_status, lambda _: {})
