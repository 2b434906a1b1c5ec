"""What has to be so, as sentences of docs/behaviour.md: written from that page, and knowing nothing of planning.

The world reports what happens to pods as facts, and the oracle holds everything that the operator writes, and every
state in which it rests, against them. A fact that *happened* may have been missed, by an operator that was down when
the pod went; so it allows an end, or a count. A fact that is *settled* was in what the operator had decided on when it
stored a status; so it demands one. Between the two the operator is free.

A sentence is an ``if`` and a ``yield``: what the last ``and`` joins is what must not be, and all before it is when. By
this ``test_coverage.py`` counts whether a sentence was ever about anything.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

Json = Mapping[str, Any]
Replica = tuple[str, int]

ENDS = ("Succeeded", "Failed")
IN_PLACE = frozenset({"OnFailure", "Always"})
RETRYABLE_FROM = 128
LOOKS_AGAIN = 30
"""After how many seconds the operator looks again at a pod that it cannot watch."""
ANY_ATTEMPT = 0
"""Of a pod that was sent in one run of its job and came in another one, perhaps."""
ORDER = {
    "": {"Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed"},
    "Created": {"Running", "Restarting", "Suspended", "Succeeded", "Failed"},
    "Running": {"Restarting", "Suspended", "Succeeded", "Failed"},
    "Restarting": {"Running", "Suspended", "Succeeded", "Failed"},
    "Suspended": {"Created", "Succeeded", "Failed"},
    "Succeeded": set(),
    "Failed": set(),
}
"""Which state may follow which; a state is the last condition."""


class Look(NamedTuple):
    """A pod as ``kubectl get`` shows it, and in what order it came to that."""

    kind: str
    ordinal: int
    birth: int
    """The how manieth pod of its replica it is."""
    phase: str
    code: int | None = None
    """With which its program has ended for good in this pod."""
    restarts: int = 0
    """Of its program, in place."""
    has_run: bool = False
    shows_run: bool = False
    """Whether its status still says so: that of an evicted pod does not."""
    is_terminating: bool = False
    is_gone: bool = False
    is_disrupted: bool = False
    """Evicted, preempted or drained, or rejected by its node."""
    ended_first: bool = False
    """Its program had ended before anybody deleted or disrupted the pod."""
    is_from_before: bool = False
    """It was made before the job was last resumed."""
    attempt: int = 1
    """The run of its job in which it was made."""
    node: str = ""
    is_refused: bool = False
    is_unschedulable: bool = False
    has_waited: bool = False
    """The scheduler has said for five minutes that no node takes it."""
    memory: str = ""
    """To what the memory of its type had grown when it was made."""
    is_too_small: bool = False
    """Its program was killed for its memory: in the end, or before its last restart in place."""
    is_unwatched: bool = False
    """It lacks the label by which pods are watched, so nobody has to know how it is."""
    is_host: bool = False
    """Whether its name is one in the Service of the job."""

    @property
    def replica(self) -> Replica:
        return self.kind, self.ordinal


@dataclass(frozen=True, slots=True)
class Replicas:
    """Of one type: as the spec says."""

    count: int
    policy: str


@dataclass(frozen=True, slots=True)
class Job:
    """What of the spec decides how a job has to end. ``replicas`` by type."""

    replicas: Mapping[str, Replicas]
    is_suspended: bool = False
    limit: int | None = None
    avoid_after: int | None = None
    clean: str = "None"
    all_workers: bool = False
    is_dynamic: bool = False
    is_whole: bool = False
    """Whether all replicas start again when one is replaced."""
    sizes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """How much memory pods of a type may have, where it grows after OOM kills."""
    final_codes: frozenset[int] | None = None
    """Where other codes than those below 128 are final under ExitCode."""
    is_invalid: bool = False
    """Whether an edit breaks a rule: what it changes is ignored, once the job runs."""
    decides: Replica | None = None
    """The only replica whose end is the job's, where there is such a one."""
    counts: frozenset[str] = frozenset({"restarts", "disruptions", "replicas"})
    """What its status counts for people."""
    deadline: int | None = None
    """``activeDeadlineSeconds``"""
    expires_after: int | None = None
    """``ttlSecondsAfterFinished``"""
    has_one_service: bool = False
    """``serviceMode: Job``"""

    @property
    def has_counts(self) -> bool:
        """Whether its status is that of v1, or stored as such."""
        return "replicas" in self.counts

    def policy(self, kind: str) -> str:
        return self.replicas[kind].policy if kind in self.replicas else "Never"

    def all_replicas(self) -> Iterator[Replica]:
        for kind, entry in self.replicas.items():
            yield from ((kind, index) for index in range(entry.count))

    def is_dynamic_worker(self, kind: str) -> bool:
        return self.is_dynamic and kind == "Worker"

    def size_of(self, kind: str, memory: str) -> int:
        return self.sizes[kind].index(memory) if memory else 0

    def was_outgrown(self, look: Look) -> bool:
        """Whether the pod was killed with less memory than there is for its type."""
        return look.is_too_small and self.size_of(look.kind, look.memory) + 1 < len(self.sizes.get(look.kind, ()))

    def is_final(self, code: int) -> bool:
        return code < RETRYABLE_FROM if self.final_codes is None else code in self.final_codes


class Fact(NamedTuple):
    """Something that has happened to a pod, and counts."""

    outcome: str
    """``ok``, ``failed``, ``final``, ``lost``, ``again``, ``outgrown``; and ``ran``, ``blamed``, ``stuck``."""
    kind: str
    ordinal: int
    birth: int
    number: int = 0
    """Of a restart in place; of an OOM kill, which size of memory was too small."""
    node: str = ""


_LOSSES: Final = frozenset({"failed", "final", "lost", "outgrown"})
Facts = frozenset[Fact]
NONE: Facts = frozenset()


def facts(job: Job, look: Look) -> Iterator[Fact]:
    """What a pod shows."""
    ends = list(_ends(job, look))
    yield from ends
    place = look.kind, look.ordinal, look.birth
    if look.has_waited:
        yield Fact("stuck", *place)
    outcomes = {fact.outcome for fact in ends}
    is_killed = "failed" in outcomes and (look.code or 0) >= RETRYABLE_FROM
    if job.avoid_after and (is_killed or ("lost" in outcomes and look.is_refused and not look.is_gone)):
        yield Fact("blamed", *place, node=look.node)


def _ends(job: Job, look: Look) -> Iterator[Fact]:
    """The table of "Failures and disruptions", and the sentences below it."""
    place, policy = (look.kind, look.ordinal, look.birth), job.policy(look.kind)
    if look.shows_run and policy == "Never":
        yield Fact("ran", *place)
    was_outgrown, is_there = job.was_outgrown(look), not (look.is_disrupted or look.is_terminating or look.is_gone)
    if was_outgrown and (is_there or look.ended_first or (look.code is None and look.phase != "Failed")):
        yield Fact("outgrown", *place, job.size_of(look.kind, look.memory))
        if is_there or look.ended_first:
            return
    elif policy in IN_PLACE and not was_outgrown:
        # Under OnFailure and Always, "the kubelet restarts it in place".
        restarts = 0 if look.is_disrupted and look.phase == "Failed" else look.restarts
        yield from (Fact("again", *place, number) for number in range(1, restarts + 1))
    is_stopped = look.is_disrupted or (job.is_dynamic_worker(look.kind) and (look.is_terminating or look.is_gone))
    if look.code == 0 and (look.ended_first or not is_stopped):
        # "A program that exits with 0 has completed if it exited before the pod's condition DisruptionTarget was set."
        # "A pod that is deleted without an eviction and ends in phase Succeeded has succeeded"
        # With enableDynamicWorker "a deleted worker that exits with 0 has not completed".
        yield Fact("ok", *place)
        return
    has_failed = look.code is not None and look.code != 0 and (look.phase == "Failed" or policy not in IN_PLACE)
    if has_failed and (look.ended_first or not (look.is_disrupted or look.is_terminating or look.is_gone)):
        assert look.code is not None
        is_final = policy == "Never" or (policy == "ExitCode" and job.is_final(look.code))
        yield Fact("final" if is_final else "failed", *place)
        return
    if look.shows_run if look.is_gone else look.is_disrupted and look.phase == "Failed":
        # "A pod that disappears before its program has run is created again and does not count."
        yield Fact("lost", *place)


def possible(job: Job, look: Look) -> Iterator[Fact]:
    """What may be made of it by somebody who has not seen all: a pod that is gone counts as lost then."""
    yield from facts(job, look)
    if job.policy(look.kind) in IN_PLACE and not job.was_outgrown(look):
        place = look.kind, look.ordinal, look.birth
        yield from (Fact("again", *place, number) for number in range(1, look.restarts + 1))
    if look.has_run and job.policy(look.kind) == "Never":
        yield Fact("ran", look.kind, look.ordinal, look.birth)
    if (look.is_gone and look.has_run) or (look.is_disrupted and look.phase == "Failed"):
        yield Fact("lost", look.kind, look.ordinal, look.birth)
    if look.is_gone or look.is_terminating:
        last_look = look._replace(code=None, is_too_small=False, is_gone=True, is_terminating=False, ended_first=False)
        yield from facts(job, last_look)
        yield from facts(job, look._replace(ended_first=True))


def _unmissable(job: Job, looks: Iterable[Look], *, is_idle: bool) -> Iterator[Fact]:
    """What each pod shows. "A terminating pod has not failed": only when it is gone it is lost.

    ``is_idle``: the job is suspended, or has been until now.
    """
    replicas = set(job.all_replicas())
    for look in looks:
        if look.replica not in replicas or (look.is_terminating and not look.is_gone):
            continue
        # "A program that is stopped by the suspension and exits with 0 runs again." "A disruption does not count."
        is_from_before = is_idle or job.is_suspended or look.is_from_before
        # Of a dynamic worker that is gone nobody knows whether there were too many.
        is_doubtful = is_from_before or job.is_dynamic_worker(look.kind)
        dropped = {"lost", "ok"} if is_doubtful and look.is_gone else {"lost"} if is_from_before else set()
        # The first loss was stored with the suspension: the others are its consequences.
        dropped |= _LOSSES if job.is_whole and (is_idle or look.is_from_before) else set()
        yield from (fact for fact in facts(job, look) if fact.outcome not in dropped)


def unmissable(job: Job, looks: Sequence[Look], *, is_idle: bool) -> Iterator[Fact]:
    """What nobody can miss who sees these pods."""
    all_facts = list(_unmissable(job, looks, is_idle=is_idle))
    ends = [fact for fact in all_facts if fact.outcome in _LOSSES]
    if not job.is_whole:
        yield from all_facts
        return
    yield from (fact for fact in all_facts if fact not in ends)
    may_be_lost = {fact[1:4] for look in looks for fact in possible(job, look) if fact.outcome in _LOSSES}
    is_one_missing = not set(job.all_replicas()) <= {look.replica for look in looks}
    if is_one_missing or may_be_lost - {fact[1:4] for fact in ends}:
        return  # "The first loss counts": that may have been another one
    # Here nobody knows which one that was. "Among losses in the same second, a final failure is taken for a
    # consequence": programs that end by themselves all do so in one second here.
    if {fact.outcome for fact in ends} == {"failed", "final"}:
        ends = list(of(frozenset(ends), "failed"))
    if len({fact.outcome for fact in ends}) == 1:
        yield min(ends)


def after_edit(old: Job, new: Job, settled: Facts) -> Facts:
    """What is still so: a replica that has succeeded runs again "after scaling down and up"."""
    removals = set(old.all_replicas()) - set(new.all_replicas())
    return frozenset(fact for fact in settled if (fact.kind, fact.ordinal) not in removals)


def of(known_facts: Facts, *kinds: str) -> Iterator[Fact]:
    return (fact for fact in known_facts if fact.outcome in kinds)


def completed(job: Job, known_facts: Facts) -> set[Replica]:
    """Replicas that have succeeded: they do not run again, "except under Always"."""
    done = {(fact.kind, fact.ordinal) for fact in of(known_facts, "ok") if job.policy(fact.kind) != "Always"}
    return done & set(job.all_replicas())


def has_succeeded(job: Job, known_facts: Facts) -> bool:
    """The table of "End of a job"."""
    done = {(fact.kind, fact.ordinal) for fact in of(known_facts, "ok")}
    for leader in ("Chief", "Master"):
        if leader in job.replicas and job.replicas[leader].count:
            return (leader, 0) in done
    workers = job.replicas.get("Worker")
    if workers and workers.count:
        deciding = range(workers.count) if job.all_workers else range(1)
        return all(("Worker", index) in done for index in deciding)
    return all(replica in done for replica in job.all_replicas()) and not job.is_dynamic


def _lost(known_facts: Facts) -> set[Fact]:
    """Pods that were lost, and had not failed before."""
    failed = {fact[1:4] for fact in of(known_facts, "failed", "final", "outgrown")}
    return {fact for fact in of(known_facts, "lost") if fact[1:4] not in failed}


def causes(job: Job, known_facts: Facts, *, surely: bool = False) -> Iterator[str]:
    """The reasons of ``Failed`` that these facts give; or, ``surely``, give in whatever order they have come about."""
    replicas = set(job.all_replicas())
    final = {(fact.kind, fact.ordinal) for fact in of(known_facts, "final")} & replicas
    workers = {replica for replica in replicas if replica[0] == "Worker"}
    if job.is_dynamic:
        # "the job continues without a worker that fails for good, as long as one is left".
        done = {(fact.kind, fact.ordinal) for fact in of(known_facts, "ok")}
        final -= set() if workers - done <= final else workers
    if final & ({job.decides} if job.decides else final):
        yield "TFJobFailed"
    # Under Never "the job fails if the replica had run; otherwise, or for a dynamic worker, a new pod".
    ran = {fact[1:] for fact in of(known_facts, "ran") if not job.is_dynamic_worker(fact.kind)}
    lost = _lost(known_facts) if surely else set(of(known_facts, "lost"))
    if any(fact[1:] in ran and (fact.kind, fact.ordinal) in replicas for fact in lost):
        yield "TFJobReplicaLost"
    if job.limit is None:
        return
    counted, in_place = set(of(known_facts, "failed", "again")), set(of(known_facts, "again"))
    # "With limit 2, the third failure is final; with 0, the first. If a restart in place is what reaches the limit, it
    # fails the job, as in a batch Job": only where all are such, it surely was.
    has_reached = in_place and len(in_place if surely else counted) >= job.limit
    if len(counted) > job.limit or has_reached:
        yield "TFJobBackoffLimitExceeded"


# --- What is stored


def end_of(status: Json) -> str:
    """Succeeded, Failed, or nothing."""
    return next((entry["type"] for entry in _conditions(status) if entry["type"] in ENDS and _is_true(entry)), "")


def attempt_of(status: Json) -> int:
    """Which run of the whole job it is about."""
    return int(status.get("attempt", 1))


def state_of(status: Json) -> str:
    """The last condition of ours: where the job stands."""
    ours = [entry["type"] for entry in _conditions(status) if entry["type"] in ORDER]
    return ours[-1] if ours else ""


def _conditions(status: Json) -> list[Json]:
    conditions: list[Json] = status.get("conditions", [])
    return conditions


def _is_true(entry: Json) -> bool:
    return bool(entry["status"] == "True")


@dataclass(frozen=True, slots=True)
class Stored:
    """A status that the operator stores, and what it knew: ``shown_facts`` are the facts in what it had decided on."""

    job: Job
    old: Json
    new: Json
    happened: Facts
    settled: Facts
    shown_facts: Facts
    now: datetime


def on_status(write: Stored) -> Iterator[str]:
    """Sentences about every write of a status."""
    yield from _ends_are_final(write)
    yield from _an_end_has_a_cause(write)
    yield from _conditions_follow_one_another(write)
    yield from _counts_are_of_what_happened(write)
    if write.job.has_counts:
        yield from _counts_of_types_are_kept(write)
        yield from _the_first_failure_is_kept(write)
    yield from _a_resume_restarts_the_clock(write)
    yield from _others_keep_their_conditions(write)


def _ends_are_final(write: Stored) -> Iterator[str]:
    old, new = end_of(write.old), end_of(write.new)
    if new and sum(entry["type"] in ENDS and _is_true(entry) for entry in _conditions(write.new)) > 1:
        yield "a job has both ends"
    if old and new != old:
        yield f"a job that has {old} comes back to life"
    if old and write.old.get("completionTime") != write.new.get("completionTime"):
        yield "the completion time of a job that has ended changes"
    if bool(new) != ("completionTime" in write.new):
        yield "a job has a completion time if and only if it has ended"


def _an_end_has_a_cause(write: Stored) -> Iterator[str]:
    after = end_of(write.new)
    if end_of(write.old) or not after:
        return
    if after == "Succeeded":
        if not has_succeeded(write.job, write.happened):
            yield "a job succeeds whose deciding replicas have not"
        return
    reason = next(entry["reason"] for entry in _conditions(write.new) if entry["type"] == "Failed")
    if reason == "TFJobInvalidSpec" and write.job.is_invalid and "startTime" not in write.old:
        return
    if reason == "TFJobDeadlineExceeded":
        yield from _is_past_its_deadline(write)
    elif reason not in causes(write.job, write.happened):
        yield f"a job fails with {reason}, and nothing of that kind has happened"
    if has_succeeded(write.job, write.shown_facts | write.settled):
        yield "success wins over a failure that is seen at the same time"


def _is_past_its_deadline(write: Stored) -> Iterator[str]:
    left = _seconds_left(write.new, "startTime", write.job.deadline, write.now)
    if left is None or left > 0:
        yield "a job fails by its deadline, which is yet to come"


def _seconds_left(status: Json, field: str, seconds: int | None, now: datetime) -> float | None:
    """Until what counts from a moment of the status; ``None`` if nothing does."""
    if seconds is None or field not in status:
        return None
    return (datetime.fromisoformat(status[field]) + timedelta(seconds=seconds) - now).total_seconds()


def on_expiry(job: Job, status: Json, now: datetime) -> Iterator[str]:
    """Sentences about a job that the operator deletes."""
    left = _seconds_left(status, "completionTime", job.expires_after, now)
    if left is None or left > 0 or not end_of(status):
        yield "a job is deleted before its time"


def _conditions_follow_one_another(write: Stored) -> Iterator[str]:
    old, new, entries = state_of(write.old), state_of(write.new), _conditions(write.new)
    ours = [entry for entry in entries if entry["type"] in ORDER]
    if not ours or not _is_true(ours[-1]):
        yield "the last condition is the current state, and always True"
    if old != new and new not in ORDER[old]:
        yield f"a job goes from {old or 'nothing'} to {new}"
    if len({entry["type"] for entry in entries}) != len(entries):
        yield "a condition is there twice"
    true = {entry["type"] for entry in ours if _is_true(entry)}
    if len(true - {"Created"} - ({"Suspended"} if true & {*ENDS} else set())) > 1:
        yield f"several states are True: {sorted(true)}"


def _counts_are_of_what_happened(write: Stored) -> Iterator[str]:
    for name, kinds in (("restarts", ("failed", "again", "outgrown")), ("disruptions", ("lost",))):
        if name not in write.job.counts:
            continue
        count, most = write.new.get(name, 0), len(set(of(write.happened, *kinds)))
        if count < write.old.get(name, 0):
            yield f"status.{name} falls"
        if count > most:
            yield f"status.{name} is {count}, and no more than {most} have happened"
    if not end_of(write.new):
        types = write.new.get("replicaStatuses", {}).values() if write.job.sizes else ()
        restarts = write.new.get("restarts", 0) - sum(entry.get("oomRestarts", 0) for entry in types)
        # Success wins over the failure that is one too many, also where it waits until the job is resumed.
        waits = state_of(write.new) == "Suspended" and has_succeeded(write.job, write.happened)
        if write.job.limit is not None and not waits and restarts > write.job.limit:
            yield f"a job goes on with {restarts} restarts and a limit of {write.job.limit}"
        least = len(set(of(write.settled | write.shown_facts, "failed", "again")))
        if "restarts" in write.job.counts and restarts < least:
            yield f"status.restarts is {restarts}, and {least} failures were seen"


def _counts_of_types_are_kept(write: Stored) -> Iterator[str]:
    """The counts of each type: "restarts, which never decrease", and "counts survive the clean-up"."""
    old, new = _by_type(write.old), _by_type(write.new)
    if sum(entry["restarts"] for entry in new.values()) != write.new.get("restarts", 0):
        yield "status.restarts are those of all types together"
    if any(entry["restarts"] > new[kind]["restarts"] for kind, entry in old.items()):
        yield "restarts of a type decrease"
    if end_of(write.old) and (old, write.old.get("ready")) != (new, write.new.get("ready")):
        yield "counts survive the clean-up"
    if write.job.is_suspended and write.new.get("disruptions", 0) > write.old.get("disruptions", 0):
        yield "a disruption does not count in a suspended job"


def _by_type(status: Json) -> dict[str, dict[str, int]]:
    fields = ("active", "pending", "succeeded", "failed", "restarts")
    entries = status.get("replicaStatuses", {}).items()
    return {kind: {field: entry.get(field, 0) for field in fields} for kind, entry in entries}


def _the_first_failure_is_kept(write: Stored) -> Iterator[str]:
    """``status.firstFailure`` keeps the first failure."""
    old, new = ({**status.get("firstFailure", {}), "time": ""} for status in (write.old, write.new))
    if "firstFailure" in write.old and old != new:
        yield "status.firstFailure stays that of the first failure"
    has_failed = write.new.get("restarts", 0) or any(causes(write.job, write.happened))
    if end_of(write.new) == "Failed" and has_failed and "pod" not in new:
        yield "a job has failed, and status.firstFailure does not say which replica was the first"
    if write.new.get("restarts", 0) and "pod" not in new:
        yield "a failure is counted that is not in status.firstFailure"
    # Under Never "the job fails if the replica had run", so a loss may be the failure.
    failures = of(write.happened, "failed", "final", "again", "outgrown", "ran")
    if "pod" in new and not any(f"-{fact.kind.lower()}-" in new["pod"] for fact in failures):
        yield "status.firstFailure is about a replica that has not failed"


def _a_resume_restarts_the_clock(write: Stored) -> Iterator[str]:
    """Deadlines count from ``startTime``, and "resuming the job sets a new startTime"."""
    is_resumed = state_of(write.old) == "Suspended" and state_of(write.new) not in {"Suspended", *ENDS}
    left = _seconds_left(write.new, "startTime", write.job.deadline, write.now)
    if is_resumed and write.job.deadline is not None and left != write.job.deadline:
        yield "resuming a job sets a new startTime"


def _others_keep_their_conditions(write: Stored) -> Iterator[str]:
    types = {entry["type"] for entry in _conditions(write.old) if entry["type"] not in ORDER}
    if types and not types <= {entry["type"] for entry in _conditions(write.new)}:
        yield "conditions of other writers are lost"


# --- What is created and deleted


@dataclass(frozen=True, slots=True)
class Children:
    """What there is when the operator creates or deletes something."""

    job: Job
    """As it was decided on."""
    status: Json
    settled: Facts
    pods: tuple[Look, ...]
    services: frozenset[Replica]
    waits: frozenset[Replica] = frozenset()
    """Replicas whose failure was stored at this moment."""


def on_create(now: Children, replica: Replica) -> Iterator[str]:
    """Sentences about every pod that is created."""
    kind, index = replica
    if end_of(now.status):
        yield "a pod is created after the end of its job"
    if now.job.is_suspended:
        yield "a pod of a suspended job is created"
    if replica not in set(now.job.all_replicas()):
        yield f"the pod of {kind} {index} is created, which is no replica of the job"
    if replica in completed(now.job, now.settled):
        yield "a replica that has succeeded runs again"
    if now.job.is_invalid and not ("startTime" in now.status or now.pods or now.services):
        yield "of an invalid job nothing is created"
    yield from _is_its_turn(now, replica)


def _is_its_turn(now: Children, replica: Replica) -> Iterator[str]:
    """What there has to be before a pod, and what no longer."""
    if any(pod.replica == replica and pod.phase not in ENDS for pod in now.pods):
        yield "a replica has two live pods"
    if any(pod.replica == replica and pod.is_terminating for pod in now.pods):
        yield "the replacement of a terminating pod waits until it is gone"
    if replica in now.waits:
        yield "replacements of a replica wait 1 s, 2 s, 4 s"
    if any(pod.is_from_before and pod.phase not in ENDS for pod in now.pods):
        yield "a resumed job creates pods once the old ones are gone"
    if now.status and any(0 < pod.attempt < attempt_of(now.status) and pod.code != 0 for pod in now.pods):
        yield "no pod is created before the last of an earlier attempt is gone"


def on_delete(now: Children, pod: Look) -> Iterator[str]:
    """Sentences about every pod that the operator deletes."""
    end, has_ended = end_of(now.status), pod.phase in ENDS
    if end:
        if now.job.clean == "None":
            yield "cleanPodPolicy None: pods stay"
        elif now.job.clean == "Running" and has_ended:
            yield "cleanPodPolicy Running: pods whose containers have ended stay"
        return
    if pod.attempt < attempt_of(now.status):
        yield from _on_given_up(now, pod)
        return
    yield from _on_replaced(now, pod)


def _on_given_up(now: Children, pod: Look) -> Iterator[str]:
    is_idle = now.job.is_suspended or state_of(now.status) == "Suspended" or pod.is_from_before
    if not is_idle and pod.replica in completed(now.job, now.settled):
        yield "a replica that has succeeded is deleted with the others"


def _on_replaced(now: Children, pod: Look) -> Iterator[str]:
    facts_by_kind = {fact.outcome: fact for fact in facts(now.job, pod)}
    if failed := facts_by_kind.get("failed") or facts_by_kind.get("outgrown"):
        settled = set(of(now.settled, "failed", "again", "outgrown"))
        # Of a whole job only the first counts; it has no attempt of its own where the job is suspended.
        counted = len(settled if now.job.is_whole and settled else settled | {failed})
        if "restarts" in now.job.counts and now.status.get("restarts", 0) < counted:
            yield "a failure is stored in the status before its pod is deleted"
    is_surplus = pod.replica not in set(now.job.all_replicas())
    is_replaced = (
        not facts_by_kind.keys().isdisjoint({"failed", "outgrown"})
        or "lost" in facts_by_kind
        or ("ok" in facts_by_kind and now.job.policy(pod.kind) == "Always")
    )
    is_suspended = now.job.is_suspended or state_of(now.status) == "Suspended"
    if not (is_suspended or pod.is_from_before or is_surplus or is_replaced):
        yield "a pod is deleted for no reason"


# --- Where nothing is left to do


@dataclass(frozen=True, slots=True)
class Rest:
    """A job to which nothing happens, and of which the operator has nothing left to do."""

    job: Job
    status: Json
    happened: Facts
    settled: Facts
    pods: tuple[Look, ...]
    services: frozenset[Replica]
    now: datetime
    wait: float | None
    """How many seconds the operator waits for a moment, such as the end of a backoff, if it waits for any."""
    is_rejected: bool = False
    generation: int = 1


def on_rest(now: Rest) -> Iterator[str]:
    """Sentences about every state in which the operator rests."""
    yield from _wakes_in_time(now)
    if end_of(now.status):
        yield from _is_cleaned_up(now)
        return
    yield from _has_not_ended(now)
    done = completed(now.job, now.happened)
    unwatched = [pod for pod in now.pods if pod.is_unwatched and pod.replica not in done]
    if unwatched and (now.wait is None or now.wait > LOOKS_AGAIN):
        yield "a pod that cannot be watched is checked every 30 s"
    if now.status.get("observedGeneration", now.generation) != now.generation:
        yield "the status is about an older spec"
    if now.job.is_suspended:
        yield from _is_idle(now)
        return
    if now.job.has_counts and "startTime" not in now.status:
        yield "a job that is not suspended has a startTime"
    yield from _every_replica_has_a_pod(now)
    yield from _counts_are_those_of_the_pods(now)
    yield from _the_state_is_that_of_the_pods(now)


def _wakes_in_time(now: Rest) -> Iterator[str]:
    """The table of what expires."""
    has_ended = end_of(now.status)
    if has_ended:
        moment = "the time to live", _seconds_left(now.status, "completionTime", now.job.expires_after, now.now)
    else:
        moment = "the deadline", _seconds_left(now.status, "startTime", now.job.deadline, now.now)
    name, left = moment
    if left is None or (now.job.is_suspended and not has_ended):
        return
    if left <= 0:
        yield f"{name} of a job is over, and nothing follows"
    elif now.wait is None or now.wait > left:
        yield f"nobody wakes up when {name} of a job is over"


def _has_not_ended(now: Rest) -> Iterator[str]:
    if now.job.is_suspended:
        # "It ends when it is resumed"; of a program that exits with 0 then, only the operator may know whether it was
        # stopped.
        if has_succeeded(now.job, now.happened):
            return
    elif has_succeeded(now.job, now.settled):
        yield "a job whose deciding replicas have succeeded does not end"
        return
    # Of dynamic workers "a failed one whose pod is deleted is replaced", and has not failed for good any more.
    places = {(pod.kind, pod.ordinal, pod.birth) for pod in now.pods}
    of_workers = {fact for fact in of(now.settled, "final") if now.job.is_dynamic_worker(fact.kind)}
    settled = now.settled - {fact for fact in of_workers if fact[1:4] not in places}
    if reasons := list(causes(now.job, settled, surely=True)):
        yield f"a job goes on that has failed: {reasons[0]}"


def _is_idle(now: Rest) -> Iterator[str]:
    if now.pods or now.services:
        yield "suspend: true deletes pods and Services"
    if state_of(now.status) != "Suspended":
        yield "a suspended job is not Suspended"


def _is_cleaned_up(now: Rest) -> Iterator[str]:
    live = [pod for pod in now.pods if pod.phase not in ENDS]
    if now.job.clean == "All" and now.pods:
        yield "cleanPodPolicy All: pods are deleted"
    if now.job.clean == "Running" and live:
        yield "cleanPodPolicy Running: running and pending pods are deleted"
    if now.job.clean != "None" and now.services:
        yield f"cleanPodPolicy {now.job.clean}: Services are deleted"


def _every_replica_has_a_pod(now: Rest) -> Iterator[str]:
    replicas, pods = set(now.job.all_replicas()), {pod.replica for pod in now.pods}
    if pods - replicas:
        yield "there are pods of no replica"
    done = completed(now.job, now.happened)
    if any(0 < pod.attempt < attempt_of(now.status) and pod.replica not in done for pod in now.pods):
        yield "a pod of an earlier attempt stays"
    if now.wait is None and not now.is_rejected and replicas - pods - done:
        yield f"{min(replicas - pods - done)} has no pod, and nothing is waited for"
    for pod in now.pods:
        kinds = {fact.outcome for fact in facts(now.job, pod)}
        if not (now.is_rejected and pod.is_unwatched) and kinds & {"failed", "lost", "outgrown"}:
            yield f"the pod of {pod.kind} {pod.ordinal} has failed, and is not replaced"


def _counts_are_those_of_the_pods(now: Rest) -> Iterator[str]:
    least = len(set(of(now.settled, "failed", "again", "outgrown")))
    if "restarts" in now.job.counts and now.status.get("restarts", 0) < least:
        yield f"status.restarts is {now.status.get('restarts', 0)}, and {least} failures were seen"
    replicas = set(now.job.all_replicas())
    least = len({fact for fact in _lost(now.settled) if (fact.kind, fact.ordinal) in replicas})
    if "disruptions" in now.job.counts and now.status.get("disruptions", 0) < least:
        yield f"status.disruptions is {now.status.get('disruptions', 0)}, and {least} were seen"
    done, perhaps = completed(now.job, now.settled), completed(now.job, now.happened)
    for kind, spec in now.job.replicas.items() if now.job.has_counts else ():
        reported: Json = now.status.get("replicaStatuses", {}).get(kind, {})
        pods = [pod for pod in now.pods if pod.kind == kind]
        waiting = [pod.is_unwatched or pod.replica in perhaps for pod in pods if pod.phase == "Pending"]
        yield from _within(kind, "pending", reported, _range(waiting))
        if spec.policy != "Always":
            least, most = (sum(replica[0] == kind for replica in members) for members in (done, perhaps))
            yield from _within(kind, "succeeded", reported, range(least, most + 1))
        if spec.policy not in IN_PLACE:
            running = [
                pod.is_unwatched or pod.replica in perhaps
                for pod in pods
                if pod.phase == "Running" and pod.code is None
            ]
            yield from _within(kind, "active", reported, _range(running))
        # "Replicas that have failed for good", and have not ended their job.
        failed = [pod.is_unwatched for pod in pods if any(of(frozenset(facts(now.job, pod)), "final"))]
        yield from _within(kind, "failed", reported, _range(failed))


def _range(are_doubtful: Sequence[bool]) -> range:
    """How many of these there may be, if nobody knows of some whether they count."""
    return range(len(are_doubtful) - sum(are_doubtful), len(are_doubtful) + 1)


def _within(kind: str, field: str, reported: Json, expected: Container[int]) -> Iterator[str]:
    if (count := reported.get(field, 0)) not in expected:
        yield f"{count} {kind} are reported as {field}, which is not so"


def _the_state_is_that_of_the_pods(now: Rest) -> Iterator[str]:
    """The table of conditions, where nothing is left open."""
    state, done = state_of(now.status), completed(now.job, now.happened)
    if not state:
        yield "a job has no state"
    open_ = [replica for replica in now.job.all_replicas() if replica not in completed(now.job, now.settled)]
    run = {pod.replica for pod in now.pods if pod.phase == "Running" and pod.code is None and not pod.is_terminating}
    is_known = not any(pod.is_unwatched for pod in now.pods)
    if is_known and open_ and all(replica in run for replica in open_) and state != "Running":
        yield f"all replicas run, and the job is {state}"
    # Where one replica decides, its API says Running from its first moment on.
    if not (now.job.is_dynamic or now.job.decides or done or run) and state == "Running":
        yield "no replica runs, and the job is Running"
    if not now.job.has_counts or now.job.decides or not is_known:
        return
    if run & set(_deciding(now.job)) and state == "Created":
        yield "the chief runs, or without a chief a worker, and the job is Created"
    if not (run & set(_deciding(now.job)) or done or now.job.is_dynamic) and state == "Running":
        yield "neither the chief runs nor, without a chief, a worker, and the job is Running"
    if _is_replaced(now) and state != "Restarting":
        yield f"a replica is being replaced, and the job is {state}"
    yield from _ready_is_right(now, run)


def _deciding(job: Job) -> list[Replica]:
    """The replicas by which the job is Running: the chief, else the workers, else all."""
    for kinds in ({"Chief", "Master"}, {"Worker"}):
        if replicas := [replica for replica in job.all_replicas() if replica[0] in kinds]:
            return replicas
    return list(job.all_replicas())


def _is_replaced(now: Rest) -> bool:
    """Whether a replica waits for its new pod to run; a job that was suspended begins as Created."""
    if any(entry["type"] == "Suspended" for entry in _conditions(now.status)):
        return False
    lost = {fact[1:4] for fact in of(now.settled, "failed", "lost")}
    return any(pod.phase == "Pending" and (*pod.replica, pod.birth - 1) in lost for pod in now.pods)


def _ready_is_right(now: Rest, run: set[Replica]) -> Iterator[str]:
    """READY: "replicas that run or have succeeded, of all replicas"."""
    replicas = set(now.job.all_replicas())
    least, most = (len((run | completed(now.job, each)) & replicas) for each in (now.settled, now.happened))
    if now.status.get("ready") not in {f"{count}/{len(replicas)}" for count in range(least, most + 1)}:
        yield f"READY is {now.status.get('ready')}, which is not so"
