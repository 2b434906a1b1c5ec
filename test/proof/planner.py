"""The operator of a world: the real dialects, the real plan and the real order of the executor, as small values.

A plan depends on what it reads and on nothing else, so it is made once for everything that it reads.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from proof import oracle
from proof.bounds import Bound
from proof.pods import DELETED, JOB, NAMESPACE, OURS, SUCCEEDED, UID, PodState, look, value
from proof.policies.service_oracle import OF_JOB
from support.jobs.builders import merge
from support.resources import Json
from tf_operator.controller.writing.steps import Act, DeleteJob, StoreStatus, steps
from tf_operator.job import naming
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import TrainingJob
from tf_operator.meta import parse_time, rfc3339
from tf_operator.planning.actions import Action, Create, Delete, DeleteCollection, Plan
from tf_operator.planning.bodies.children import PODS, SERVICES
from tf_operator.planning.plan import make_plan
from tf_operator.planning.snapshot import RejectedWrite, Service, Snapshot

NOW = datetime(2026, 3, 1, 8, tzinfo=UTC)
_GAP = timedelta(hours=2)
_LONGEST = timedelta(days=2)
STORE, MAKE_SERVICE, MAKE_POD, DELETE_POD, DELETE_SERVICES, DELETE_JOB = (
    "stores the status", "creates the Service of", "creates the pod", "deletes the pod", "deletes Services",
    "deletes the job",
)  # fmt: skip

Step = tuple[Any, ...]
"""The name of what is done, and to what."""


class Seen(NamedTuple):
    """All that a plan reads, as it stands in a state."""

    spec: tuple[Any, ...]
    status: int
    pods: tuple[Any, ...]
    services: tuple[oracle.Replica, ...]
    departed: tuple[Any, ...] = ()
    rejected: tuple[Any, ...] = ()
    """How often in a row a create was refused, and whether it is due again."""


class Entry(NamedTuple):
    """A plan."""

    steps: tuple[Step, ...]
    wait: float | None
    """Until the operator wants to reconcile again."""
    facts: oracle.Facts
    """What was seen of pods when it was made."""
    resumes: bool = False
    """Whether it notes a resume: pods that were there before are of another run."""
    departed: tuple[Any, ...] = ()
    """The pods that were known to be gone, of whatever run."""
    pods: tuple[PodState, ...] = ()
    services: tuple[oracle.Replica, ...] = ()
    creates: bool = False
    acts_until: int = 0
    """The number of its last action, and one: after it, what was refused before is over, or is tried again."""

    @property
    def writes_pods(self) -> bool:
        return any(step[0] in {MAKE_POD, DELETE_POD} for step in self.steps)


class Planner:
    """Makes the plans of one bound, and keeps every status and every plan that it has met."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self._reads_pods = bool(bound.nodes) or bound.may_have_one_service
        self.statuses: list[Json] = []
        self.told: list[Json] = []
        """The same statuses in the words of the oracle."""
        self.plans: list[Entry] = []
        self._status_numbers: dict[str, int] = {}
        self._plan_numbers: dict[Any, int] = {}
        self._jobs: dict[Any, TrainingJob] = {}
        self._specs: dict[Any, oracle.Job] = {}
        self.status_number(bound.start_status())

    def status_number(self, status: Json) -> int:
        """One number for equal statuses; moments are brought into an order that does not grow."""
        settled = self._settled(status)
        text = json.dumps(settled, sort_keys=True)
        number = self._status_numbers.get(text)
        if number is None:
            number = self._status_numbers[text] = len(self.statuses)
            self.statuses.append(settled)
            self.told.append(self.bound.wording.status(settled))
        return number

    def waited(self, number: int, seconds: float) -> int:
        """The number of the same status when so much time has passed."""
        return self.status_number(_moved(self.statuses[number], lambda moment: moment - timedelta(seconds=seconds)))

    def _settled(self, status: Json) -> Json:
        status = without_usage(status)
        if self.bound.is_timed:
            return dict(_moved(status, lambda moment: max(moment, NOW - _LONGEST)))
        moments: set[datetime] = set()

        def note(moment: datetime) -> datetime:
            moments.add(moment)
            return moment

        _moved(status, note)
        newest_first = sorted(moments, reverse=True)
        ranks = {moment: NOW - _GAP * (rank + 1) for rank, moment in enumerate(newest_first)}
        return dict(_moved(status, ranks.__getitem__))

    def spec(self, spec: tuple[Any, ...]) -> oracle.Job:
        """The job that the oracle knows."""
        job = self._specs.get(spec)
        if job is None:
            job = self._specs[spec] = self.bound.as_asked(spec)
        return job

    def plan(self, view: Seen, present: tuple[Any, ...]) -> int:
        """The number of the plan; ``present`` are the pods that a look by name would find."""
        number = self._plan_numbers.get(view)
        if number is None:
            key: Any = view
            snapshot = self._snapshot(view)
            looked_for: tuple[PodState, ...] = ()
            plan = make_plan(snapshot)
            if plan.looks_for:
                # Such a plan depends on what is there, too.
                key = (view, present)
                if (number := self._plan_numbers.get(key)) is not None:
                    return number
                while plan.looks_for:
                    looked_for = tuple(pod for pod in map(PodState._make, present) if pod.name in plan.looks_for)
                    names = snapshot.looked_for.union(plan.looks_for)
                    values = (value(pod, self.bound.api) for pod in looked_for)
                    snapshot = snapshot.changed(pods=(*snapshot.pods, *values), looked_for=names)
                    plan = make_plan(snapshot)
            number = self._plan_numbers[key] = self._number(view, plan, looked_for)
        return number

    def _number(self, view: Seen, plan: Plan, looked_for: tuple[PodState, ...]) -> int:
        job = self._job(view.spec, view.status)
        patch = self.bound.api.status_patch(plan.report)
        flat: list[Step] = []
        resumes, acts_until = False, 0
        for step in steps(plan):
            match step:
                case DeleteJob():
                    flat.append((DELETE_JOB,))
                case StoreStatus():
                    if patch or view.departed:
                        merged = merge(self.statuses[view.status], patch)
                        after = self.status_number(merged)
                        resumes = _resumes(self.told[view.status], self.told[after])
                        flat.append((STORE, after, step.is_progress))
                case Act():
                    actions = [action for _, stage_actions in step.stages for action in stage_actions]
                    flat += [write for action in actions for write in self._writes(action, job)]
                    acts_until = len(flat)
                case _:
                    raise AssertionError(f"this world has no {step}")
        pods = (*map(PodState._make, view.pods), *looked_for)
        entry = Entry(
            tuple(flat),
            plan.requeue_after.total_seconds() if plan.requeue_after is not None else None,
            self._facts(view, pods, resumes=resumes),
            resumes=resumes,
            departed=view.departed,
            pods=pods,
            services=view.services,
            creates=any(isinstance(action, Create) for action in plan.actions),
            acts_until=acts_until,
        )
        self.plans.append(entry)
        return len(self.plans) - 1

    def _writes(self, action: Action, job: TrainingJob) -> list[Step]:
        """The requests that an action is."""
        match action:
            case Create():
                return [self._create(child, job) for child in action.in_order()]
            case Delete() if action.resource == PODS:
                return [(DELETE_POD, action.uid)]
            case Delete() if action.resource == SERVICES:
                return [(DELETE_SERVICES, (_place(action.name, job),))]
            case DeleteCollection() if action.resource == SERVICES:
                return [(DELETE_SERVICES, tuple(sorted(_place(service.name, job) for service in action.objects)))]
        raise AssertionError(f"this world has no {action}")

    def _create(self, child: Create, job: TrainingJob) -> Step:
        """Of a pod, too, the nodes on which it must not be, its memory, and whether it is a host in a Service."""
        if child.resource != PODS:
            return (MAKE_SERVICE, *_place(child.name, job), child.name)
        spec = child.body()["spec"] if self._reads_pods else {}
        place = _place(child.name, job)
        return (MAKE_POD, *place, child.name, _avoided(spec), _memory(child.name, job), "subdomain" in spec)

    def _facts(self, view: Seen, pods: tuple[PodState, ...], *, resumes: bool) -> oracle.Facts:
        """What nobody can miss. What it has deleted itself, it has a reason for; nothing that becomes of it counts."""
        uids = {pod.uid for pod in pods}
        looks = [look(pod) for pod in pods if pod.leaving != OURS]
        gone = (pod for pod in map(PodState._make, view.departed) if pod.uid not in uids and pod.leaving != OURS)
        looks += [look(pod, is_gone=True) for pod in gone if not _is_doubtful(pod)]
        attempt = oracle.attempt_of(self.told[view.status])
        looks = [pod_look for pod_look in looks if pod_look.attempt in {attempt, oracle.ANY_ATTEMPT}]
        is_idle = resumes or oracle.state_of(self.told[view.status]) == "Suspended"
        return frozenset(oracle.unmissable(self.spec(view.spec), looks, is_idle=is_idle))

    def _job(self, spec: tuple[Any, ...], status: int) -> TrainingJob:
        job = self._jobs.get((spec, status))
        if job is None:
            metadata = {"name": JOB, "namespace": NAMESPACE, "uid": UID, "resourceVersion": "1", "generation": 1}
            body = merge(self.bound.body(spec), {"metadata": metadata})
            body["metadata"]["generation"] = self.bound.generation(spec)
            body["status"] = self.statuses[status]
            job = self._jobs[spec, status] = self.bound.api.read_object(body)
        return job

    def _snapshot(self, view: Seen) -> Snapshot:
        api, job = self.bound.api, self._job(view.spec, view.status)
        pods = [value(PodState._make(pod), api) for pod in view.pods]
        uids = {pod.uid for pod in pods}
        departed = [value(PodState._make(pod), api).changed(is_gone=True) for pod in view.departed]
        rejected = None
        if view.rejected:
            attempts, is_due = view.rejected
            at = NOW - timedelta(days=1) if is_due else NOW
            rejected = RejectedWrite("a pod", "exceeded quota", at, code=403, attempts=attempts)
        return Snapshot(
            job,
            NOW,
            pods=(*pods, *(pod for pod in departed if pod.uid not in uids)),
            services=tuple(Service(name, name) for name in (_service_name(job, *at) for at in view.services)),
            rejected=rejected,
            settings=self.bound.settings,
        )


def _is_doubtful(pod: PodState) -> bool:
    """Whether it failed before it was deleted, which who has only seen it being deleted does not know."""
    return pod.leaving == DELETED and pod.ended_first and pod.how != SUCCEEDED


def _avoided(spec: Json) -> tuple[str, ...]:
    """The nodes that are excluded by each term of a pod's affinity."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity: Json = spec.get("affinity", {}).get("nodeAffinity", {}).get(required, {})
    terms = [
        {value for entry in term["matchFields"] if entry["operator"] == "NotIn" for value in entry["values"]}
        for term in affinity.get("nodeSelectorTerms", ())
    ]
    return tuple(sorted(set.intersection(*terms))) if terms else ()


def _memory(name: str, job: TrainingJob) -> str:
    """To what the memory of the type has grown, if it has."""
    return job.record.of(ReplicaType(_place(name, job)[0])).memory


def without_usage(value: Json) -> Json:
    """A status without what was used and lost: that grows for ever, and decides nothing."""
    return {
        name: without_usage(entry) if isinstance(entry, dict) else entry
        for name, entry in value.items()
        if name not in {"runSeconds", "lostSeconds", "usage"}
    }


def _place(name: str, job: TrainingJob) -> oracle.Replica:
    if name == JOB:
        return OF_JOB
    place = naming.replica_of(JOB, name, job.profile.names)
    assert place, name
    return str(place[0]), place[1]


def _service_name(job: TrainingJob, kind: str, index: int) -> str:
    return JOB if (kind, index) == OF_JOB else naming.service_name(job, ReplicaType(kind), index)


def _moved(status: Any, change: Any, *, key: str = "") -> Any:  # noqa: ANN401
    """The status with other moments, apart from those of conditions by which nothing is decided."""
    if isinstance(status, Mapping):
        if "lastTransitionTime" in status and not _is_left(status):
            return {name: rfc3339(NOW) if name.endswith("Time") else entry for name, entry in status.items()}
        return {name: _moved(entry, change, key=name) for name, entry in status.items()}
    if isinstance(status, list):
        return [_moved(entry, change, key=key) for entry in status]
    if isinstance(status, str) and key.lower().endswith("time"):
        moment = parse_time(status)
        return rfc3339(change(moment)) if moment else status
    return status


def _is_left(condition: Mapping[str, Any]) -> bool:
    """Whether the condition says when the job was resumed, or left a queue."""
    return condition["type"] in {"Suspended", "Queued"} and condition["status"] == "False"


def _resumes(old: Json, new: Json) -> bool:
    if oracle.state_of(old) == "Suspended" and oracle.state_of(new) not in {"Suspended", *oracle.ENDS}:
        return True
    return any(map(_is_left, new.get("conditions", ()))) and not any(map(_is_left, old.get("conditions", ())))
