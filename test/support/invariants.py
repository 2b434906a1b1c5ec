"""What has to hold at every moment of every job's life, whatever was done to it.

Each function takes the lives of one job from the history of the store, and yields what contradicts it, in words.
``check`` holds all of them against a recording of some namespaces, from their creation to a quiet end. Nothing of the
operator is used here: the program under test is not to judge itself. What the requests say (that nothing of others is
touched, that nothing is deleted twice) is held against the audit log.
"""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from support.audit import Requests
from support.history import History, Revision
from support.pods.pod_lives import CHILD_KINDS, PodLife, lives_of
from support.resources import JOB_KINDS, TFJOBS, Json

_INDEX = re.compile(r"0|[1-9][0-9]{0,5}")
_OURS = {"Created", "Running", "Restarting", "Suspended", "Queued", "Succeeded", "Failed"}
_ENDS = ("Succeeded", "Failed")
_OTHER_OWNERS = ("tfjobs.mlkube.io", "tensorboards.tensorstack.dev")
_US = "kubeflow.org/training-operator"
_AFTER: Mapping[str, set[str]] = {
    "Created": {"Running", "Restarting", "Suspended", "Queued", "Succeeded", "Failed"},
    "Running": {"Restarting", "Suspended", "Queued", "Succeeded", "Failed"},
    "Restarting": {"Running", "Suspended", "Queued", "Succeeded", "Failed"},
    "Suspended": {"Created", "Queued", "Failed", "Succeeded"},
    "Queued": {"Created", "Suspended", "Failed"},
    "Succeeded": set(),
    "Failed": set(),
}
"""Which state may follow which; a state is the last condition that is ours, and it is never False."""


@dataclass(frozen=True, slots=True)
class JobLife:
    """One job, from its creation on: every version of it, and the lives of its pods."""

    versions: tuple[Revision, ...]
    children: tuple[Revision, ...]
    pods: tuple[PodLife, ...]

    @property
    def name(self) -> str:
        return self.versions[0].place.name

    @property
    def last(self) -> Json:
        return self.versions[-1].last_body

    @property
    def is_gone(self) -> bool:
        return self.versions[-1].body is None

    def bodies(self) -> Iterator[Json]:
        return (version.body for version in self.versions if version.body is not None)

    def statuses(self) -> Iterator[Json]:
        return (body.get("status", {}) for body in self.bodies())

    def version_before(self, revision: int) -> Json:
        return [version.last_body for version in self.versions if version.revision <= revision][-1]

    def policy_of(self, kind: str) -> str:
        specs = self.versions[0].last_body["spec"]["tfReplicaSpecs"]
        policies = [spec.get("restartPolicy", "Never") for key, spec in specs.items() if key.lower() == kind]
        return str(policies[0])


Rule = Callable[[JobLife], Iterator[str]]


def check(history: History, requests: Requests, *, namespaces: Collection[str], waived: Collection[str] = ()) -> None:
    """Hold a recording against all invariants; AssertionError with everything that contradicts one."""
    complaints: list[str] = []
    for namespace in namespaces:
        for life in job_lives(history, namespace):
            for name, rule in RULES.items():
                if name not in waived:
                    complaints += [f"{name}: {namespace}/{life.name}: {text}" for text in rule(life)]
        complaints += requests_in_order(history, requests, namespace, waived)
        lacking = [entry for entry in requests.by(namespace=namespace) if entry.decision == "forbid"]
        complaints += [f"rights: {namespace}: {entry.verb} {entry.resource} is not granted" for entry in lacking]
    assert not complaints, "\n".join(complaints[:20])


def requests_in_order(
    history: History, requests: Requests, namespace: str, waived: Collection[str] = ()
) -> Iterator[str]:
    """What contradicts that requests touch own objects only, and delete each one once."""
    rules = {"only own objects": _touches_nothing_of_others, "one delete": _deletes_once}
    for name, rule in rules.items():
        if name not in waived:
            yield from (f"{name}: {namespace}: {text}" for text in rule(history, requests, namespace))


def job_lives(history: History, namespace: str) -> Iterator[JobLife]:
    versions: dict[str, list[Revision]] = defaultdict(list)
    for entry in history.of(TFJOBS.qualified, namespace):
        versions[entry.uid].append(entry)
    for uid, entries in versions.items():
        children = history.owned_by(uid)
        yield JobLife(tuple(entries), children, tuple(lives_of(history, children)))


def one_live_pod_for_each_replica(life: JobLife) -> Iterator[str]:
    """At every revision."""
    for pod, other in _pairs(life.pods):
        if pod.replica == other.replica and pod.lives_at(other.born):
            yield f"{pod.name} and {other.name} lived at revision {other.born}"


def pods_are_of_the_spec(life: JobLife) -> Iterator[str]:
    """Every pod is of a replica that the job wanted when it was made, or a moment before."""
    for pod in life.pods:
        bodies = list(_recent(life, pod.born))
        specs = [body["spec"]["tfReplicaSpecs"] for body in bodies]
        kind, index = pod.replica
        counts = [
            spec.get("replicas", 1) for replicas in specs for key, spec in replicas.items() if key.lower() == kind
        ]
        if kind == "worker":  # the job queue may have decided on another number, and recorded it
            counts += [body.get("status", {}).get("elastic", {}).get("workers", 0) for body in bodies]
        if pod.name != f"{life.name}-{kind}-{index}":
            yield f"{pod.name} is the pod of {kind} {index}"
        if not _INDEX.fullmatch(index) or int(index) >= max(counts, default=0):
            yield f"{pod.name} was made while there were to be {counts} of {kind}"


def nothing_that_succeeded_runs_again(life: JobLife) -> Iterator[str]:
    """Unless it is restarted always; what ended well only because it was stopped by us has not succeeded.

    Nor has what ended well only after the loss for which the job starts again as a whole, or is not counted in a status
    when its job is suspended: the operator may have decided before it heard of that end. Of a job that is deleted, what
    was still created goes with it.
    """
    deleted_at = life.versions[-1].revision if life.is_gone else math.inf
    suspended = [entry.revision for entry in life.versions if _is_true(entry.last_body, "Suspended")]
    attempts = list(_beginnings_of_attempts(life))
    is_dynamic = any(body["spec"].get("enableDynamicWorker") for body in life.bodies())
    for pod, later in _pairs(life.pods):
        if later.born > deleted_at or (is_dynamic and pod.kind == "worker" and pod.was_told_to_stop(pod.born)):
            continue
        if any(pod.born < revision < later.born and pod.was_told_to_stop(revision) for revision in suspended):
            continue
        if any(pod.born < revision < later.born and not pod.succeeded_before(revision) for revision in attempts):
            continue
        if _is_suspended_unheard(life, pod):
            continue
        if pod.replica == later.replica and pod.succeeded_before(later.born) and life.policy_of(pod.kind) != "Always":
            yield f"{later.name} had succeeded, and was made again at revision {later.born}"


def ends_are_final(life: JobLife) -> Iterator[str]:
    """One end, that is never left; nothing is made after it."""
    ended_at = None
    for version in life.versions:
        ends = [kind for kind in _ENDS if _is_true(version.last_body, kind)]
        if len(ends) > 1:
            yield f"it had both ends at revision {version.revision}"
        if ended_at is not None and not ends:
            yield f"it came back to life at revision {version.revision}"
        if ends and ended_at is None:
            ended_at = version.revision
    for entry in life.children if ended_at is not None else ():
        is_ours = entry.place.plural in CHILD_KINDS
        if is_ours and entry.change == "create" and entry.revision > (ended_at or 0):
            yield f"{entry.place} was made after the end"
    if len({status["completionTime"] for status in life.statuses() if "completionTime" in status}) > 1:
        yield "its completion time changed"


def restarts_are_counted_once(life: JobLife) -> Iterator[str]:
    """The count never falls, and is that of the pods that failed and were replaced, and of restarts in place."""
    for field in ("restarts", "disruptions"):
        counts = [status.get(field, 0) for status in life.statuses()]
        if any(later < earlier for earlier, later in pairwise(counts)):
            yield f"status.{field} fell: {counts}"
    if life.is_gone or any("Suspended" in _states(body) for body in life.bodies()):
        return  # what was taken away on purpose is no restart
    replaced = sum(pod.failed_before(later.born) for pod, later in pairwise_by_replica(life.pods))
    ended_at = next((entry.revision for entry in life.versions if _has_ended(entry.last_body)), math.inf)
    in_place = sum(pod.restarts_before(ended_at) for pod in life.pods)
    least, most = replaced + in_place, replaced + in_place
    if ended_at < math.inf:
        # The end may come between a count and the successor, and before the last restarts in place are seen.
        least, most = replaced, sum(pod.failed_before(ended_at) for pod in life.pods) + in_place
    if _restarts_as_a_whole(life.last):
        # Those that fail in one run are one restart; or none, where one was disrupted first.
        least = 0 if life.last.get("status", {}).get("disruptions") else min(replaced, 1)
    reported = life.last.get("status", {}).get("restarts", 0)
    if not least <= reported <= most:
        yield f"{reported} restarts are reported: {replaced} pods were replaced, {in_place} restarted in place"


def status_of_others_stays(life: JobLife) -> Iterator[str]:
    """A condition that is not ours is never lost."""
    for earlier, later in pairwise(life.statuses()):
        types = {entry["type"] for entry in later.get("conditions", ())}
        for entry in earlier.get("conditions", ()):
            if entry["type"] not in _OURS and entry["type"] not in types:
                yield f"the condition {entry['type']} of somebody else is lost"


def conditions_follow_the_automaton(life: JobLife) -> Iterator[str]:
    """And their times never go back."""
    for earlier, later in pairwise([{}, *life.bodies()]):
        old, after = _state(earlier), _state(later)
        if old and after and old != after and after not in _AFTER.get(old, set()):
            yield f"it went from {old} to {after}: {_states(later)}"
        times = {entry["type"]: entry.get("lastUpdateTime", "") for entry in _conditions(earlier)}
        for entry in _conditions(later):
            if entry.get("lastUpdateTime", "") < times.get(entry["type"], ""):
                yield f"the time of {entry['type']} went back"


def pods_agree_on_the_cluster(life: JobLife) -> Iterator[str]:
    """Those that live at the same time, of the same spec and of the size that the queue gave the job."""
    if any(body["spec"].get("enableDynamicWorker") for body in life.bodies()):
        return  # there, each worker knows itself only
    for pod, other in _pairs(life.pods):
        same = _shape(life.version_before(pod.born)) == _shape(life.version_before(other.born))
        if same and pod.lives_at(other.born) and _cluster(pod) != _cluster(other):
            yield f"{pod.name} and {other.name} know different clusters"


def nothing_outlives_the_job(life: JobLife) -> Iterator[str]:
    """Unless its children were to be orphaned; and we hold nothing back by a finalizer."""
    finalizers = {name for body in life.bodies() for name in body["metadata"].get("finalizers", ())}
    for pod in life.pods:
        finalizers |= pod.finalizers
    if ours := [name for name in finalizers if "kubeflow.org" in name or name.startswith("tf-operator")]:
        yield f"there were finalizers of ours: {ours}"
    if life.is_gone and "orphan" not in finalizers:
        # PodGroups apart: their CRDs are the tests', and of a new kind the garbage collector learns within 30 s only.
        left = {entry.place: entry for entry in life.children if entry.place.plural in {"pods", "services"}}
        for entry in left.values():
            if entry.body is not None:
                yield f"{entry.place} outlives it"


def counts_are_those_of_the_pods(life: JobLife) -> Iterator[str]:
    """At the end, of a job that goes on."""
    status = life.last.get("status", {})
    if life.is_gone or _has_ended(life.last) or _is_true(life.last, "Suspended") or not status:
        return
    if life.last["spec"].get("runPolicy", {}).get("managedBy", _US) != _US:
        return
    running = Counter(pod.kind for pod in life.pods if pod.runs_at_last)
    reported = {kind.lower(): counts.get("active", 0) for kind, counts in status.get("replicaStatuses", {}).items()}
    for kind in reported.keys() | running.keys():
        if reported.get(kind, 0) != running[kind]:
            yield f"{reported.get(kind, 0)} {kind} are reported as active, and {running[kind]} are"


RULES: Mapping[str, Rule] = {
    "one live pod": one_live_pod_for_each_replica,
    "pods of the spec": pods_are_of_the_spec,
    "success is final": nothing_that_succeeded_runs_again,
    "ends are final": ends_are_final,
    "restarts": restarts_are_counted_once,
    "status of others": status_of_others_stays,
    "conditions": conditions_follow_the_automaton,
    "one cluster": pods_agree_on_the_cluster,
    "nothing outlives the job": nothing_outlives_the_job,
    "counts": counts_are_those_of_the_pods,
}


def _touches_nothing_of_others(history: History, requests: Requests, namespace: str) -> Iterator[str]:
    """Whatever is written is a job's, or a TensorBoard's, by its owner reference."""
    owned: dict[tuple[str, str], set[str]] = defaultdict(set)
    jobs = {entry.uid for kind in (*JOB_KINDS, *_OTHER_OWNERS) for entry in history.of(kind, namespace)}
    for entry in history.revisions:
        if entry.place.namespace == namespace and entry.owner_uids & jobs:
            owned[entry.place.plural, entry.place.name].add(entry.uid)
    for request in requests.by(namespace=namespace).writes():
        plural = request.resource.partition(".")[0]
        is_change = request.verb in {"delete", "patch", "update"} and request.code == 200
        if is_change and plural in CHILD_KINDS and not owned[plural, request.name]:
            yield f"{request.verb} of {plural} {request.name}, which is no job's"


def _deletes_once(history: History, requests: Requests, namespace: str) -> Iterator[str]:
    """As far as requests show it: every object gets one DELETE at most."""
    deletes = Counter(
        (request.resource, request.name)
        for request in requests.by(namespace=namespace)
        if request.verb == "delete" and request.code == 200 and request.resource != TFJOBS.qualified
    )
    for (resource, name), times in deletes.items():
        lives = {entry.uid for entry in history.of(resource, namespace, name)}
        if times > len(lives):
            yield f"{resource} {name} was deleted {times} times in {len(lives)} lives"


def pairwise_by_replica(pods: Iterable[PodLife]) -> Iterator[tuple[PodLife, PodLife]]:
    replicas: dict[tuple[str, str], list[PodLife]] = defaultdict(list)
    for pod in pods:
        replicas[pod.replica].append(pod)
    for lives in replicas.values():
        yield from pairwise(lives)


def _pairs(pods: tuple[PodLife, ...]) -> Iterator[tuple[PodLife, PodLife]]:
    return ((pod, later) for index, pod in enumerate(pods) for later in pods[index + 1 :])


def _recent(life: JobLife, revision: int) -> list[Json]:
    """The job as it was at a revision, and with the spec that it had before."""
    bodies = [version.last_body for version in life.versions if version.revision <= revision]
    generations: dict[int, Json] = {body["metadata"].get("generation", 0): body for body in bodies}
    return [generations[number] for number in sorted(generations)[-2:]]


def _shape(body: Json) -> object:
    """What decides which replicas there are."""
    return body["spec"]["tfReplicaSpecs"], body.get("status", {}).get("elastic", {}).get("workers")


def _is_suspended_unheard(life: JobLife, pod: PodLife) -> bool:
    """Whether its job was to be suspended before the pod went, and no status until then counts its success.

    Jobs and pods come by two watches: who has heard of the edit need not have heard of what pods did before it.
    """
    if pod.success is None:
        return False
    first, last = pod.success.revision, pod.versions[-1].revision
    successes = sum(other.success is not None and other.success.revision <= first for other in life.pods)
    bodies = [life.version_before(first), *(job.last_body for job in life.versions if first < job.revision < last)]
    is_counted = any(_succeeded(body) >= successes for body in bodies)
    return not is_counted and any(body["spec"].get("runPolicy", {}).get("suspend") for body in bodies)


def _succeeded(body: Json) -> int:
    """How many replicas have, by the status."""
    counts = body.get("status", {}).get("replicaStatuses", {}).values()
    return sum(entry.get("succeeded", 0) for entry in counts)


def _beginnings_of_attempts(life: JobLife) -> Iterator[int]:
    """The revisions in which a job that starts again as a whole had lost a pod for that, or had recorded that it does.

    Pods come by one watch, in order: who has heard of the loss has heard of all that was before.
    """
    number, since = 1, 0
    for version in life.versions:
        attempt = version.last_body.get("status", {}).get("attempt", 1)
        if attempt > number:
            losses = (pod.lost_at for pod in life.pods if pod.born > since)
            yield min((loss for loss in losses if loss and loss < version.revision), default=version.revision)
            since = version.revision
        number = attempt


def _restarts_as_a_whole(body: Json) -> bool:
    return bool(body["spec"].get("runPolicy", {}).get("restarts", {}).get("scope") == "Job")


def _cluster(pod: PodLife) -> object:
    config = next((value for value in pod.configs), None)
    return json.loads(config).get("cluster") if config else None


def _conditions(body: Json) -> list[Json]:
    conditions: list[Json] = body.get("status", {}).get("conditions", [])
    return conditions


def _states(body: Json) -> list[str]:
    return [("" if entry["status"] == "True" else "!") + entry["type"] for entry in _conditions(body)]


def _state(body: Json) -> str:
    return next((state for state in reversed(_states(body)) if state.removeprefix("!") in _OURS), "")


def _has_ended(body: Json) -> bool:
    return any(_is_true(body, kind) for kind in _ENDS)


def _is_true(body: Json, kind: str) -> bool:
    return kind in _states(body)
