"""Resizes and attempts of jobs that want their pods kept: the containers start again in place.

``resize_sidecar`` has what their pods need for it. A resize is recorded, with its time, and then written to the
annotations of all pods. They are compared with the job in every reconcile, so an operator that is killed in between
goes on where it was. Whoever changes them by hand restarts pods that are theirs to change, and they are written again.
Pods that were made without them are replaced, as are all pods where operator or cluster cannot do it. The same goes for
an attempt of a job that starts again as a whole; ``attempts`` knows which pods have not begun it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from typing import Any

from msgspec import structs

from tf_operator.job import constants
from tf_operator.job.record import ElasticRecord, JobRecord, ReplicaType
from tf_operator.job.training_job import TrainingJob
from tf_operator.planning import resizing, whole_job
from tf_operator.planning.actions import Patch
from tf_operator.planning.bodies import cluster_spec, resize_sidecar
from tf_operator.planning.bodies.children import PODS
from tf_operator.planning.pods import attempts
from tf_operator.planning.pods.attempts import NextStep
from tf_operator.planning.replicas import Replica
from tf_operator.planning.resizing import SizeChange
from tf_operator.planning.snapshot import Pod, Snapshot


def is_wanted(snapshot: Snapshot) -> bool:
    """Whether a resize keeps the pods."""
    return snapshot.settings.restarts_in_place and resize_sidecar.is_for_resizes(snapshot.job)


def with_resize_time(snapshot: Snapshot, resizes: Iterable[SizeChange], record: ElasticRecord) -> ElasticRecord:
    """The record with the time of the resize, before any pod is changed."""
    if not is_wanted(snapshot) or not any(change.replaces_pods for change in resizes):
        return record
    return structs.replace(record, resized_time=snapshot.now)


def actions(snapshot: Snapshot, replicas: Sequence[Replica], after: JobRecord) -> Iterator[Patch]:
    """Tell each pod that stays in which cluster it trains now, and which attempt this is, as they are recorded."""
    if not resize_sidecar.is_offered(snapshot.job, snapshot.settings):
        return
    job, domain = structs.replace(snapshot.job, record=after), snapshot.settings.cluster_domain
    cluster = cache(partial(cluster_spec.full_cluster, job, domain))
    steps = _attempt_steps(snapshot, replicas, after)
    for replica in replicas:
        pod = replica.pod
        if pod is None or not pod.is_there or replica.is_completed or replica.is_given_up:
            continue
        step, is_resized = steps.get(pod.uid, NextStep.NOTHING), is_wanted(snapshot) and is_outdated(job, pod)
        if is_resized or step in {NextStep.REQUEST, NextStep.REPEAT}:
            change = "change of TF_CONFIG" if is_resized else "restart in place"
            body = _Change(resize_sidecar.signal(job), step, pod, snapshot.now, job, domain, cluster)
            # What it was told before, and whether it has done that, must not have changed meanwhile.
            version = "" if step is NextStep.NOTHING else pod.version
            yield Patch(PODS, pod.name, pod.uid, f"the {change} of pod {pod.name}", body, version=version)


def _attempt_steps(snapshot: Snapshot, replicas: Sequence[Replica], after: JobRecord) -> Mapping[str, NextStep]:
    """What each pod is asked for, by its UID; nothing, as long as a pod of the run before is on its way."""
    is_too_early = whole_job.has_old_pods(replicas) or any(replica.is_given_up for replica in replicas)
    if is_too_early or not snapshot.job.run_policy.restarts_in_place:
        return {}
    restarts = {(entry.type, entry.index): entry for entry in after.restart_records}
    pods = ((replica.pod, restarts.get((replica.spec.type, replica.index))) for replica in replicas)
    return {
        pod.uid: attempts.next_step(after, pod, restart, now=snapshot.now)
        for pod, restart in pods
        if pod and resize_sidecar.takes_signals(pod, snapshot.settings)
    }


@dataclass(frozen=True, slots=True)
class _Change:
    """Makes what is written to a pod when it is sent: the TF_CONFIGs of a thousand workers are 45 MB."""

    signal: str
    step: NextStep
    pod: Pod
    now: datetime
    job: TrainingJob = field(compare=False, repr=False)
    domain: str
    cluster: Callable[[], str] = field(compare=False, repr=False)

    def __call__(self, now: datetime | None = None) -> dict[str, Any]:
        job, pod = self.job, self.pod
        cluster = "" if job.has_dynamic_workers else self.cluster()
        config = cluster_spec.tf_config(job, pod.type, pod.index, domain=self.domain, cluster=cluster)
        # Until the last of a thousand pods is told, the plan may be older than the patience with each of them.
        request = attempts.annotations(self.step, pod, now or self.now) if self.step is not NextStep.NOTHING else {}
        return {"metadata": {"annotations": {**resize_sidecar.annotations(job, config), **request}}}


def is_outdated(job: TrainingJob, pod: Pod) -> bool:
    """Whether a pod trains in a cluster of other sizes, so that it has to start again."""
    if not resize_sidecar.takes_sizes(pod):
        return False
    sizes = resize_sidecar.entries(pod.cluster_size)
    return any(_replaces(job, kind, sizes.get(kind, ""), count) for kind, count in resizing.sizes(job).items())


def _replaces(job: TrainingJob, kind: ReplicaType, text: str, count: int) -> bool:
    if text == str(count):
        return False
    old_count = (
        int(text) if text.isascii() and text.isdigit() and len(text) < len(str(constants.MOST_REPLICAS)) + 1 else 0
    )
    return resizing.replaces_pods(job, kind, is_growth=count > old_count)


def resized(snapshot: Snapshot, replicas: Iterable[Replica], *, is_new: bool) -> Iterator[Replica]:
    """The replicas of a job that is resized in place.

    ``is_new``: the resize is not recorded yet, so that pods which cannot take it are given up. So are those whose
    program ended with an error because the others went to another cluster, before its own turn came, and those whose
    sidecar has taken it alone.
    """
    for replica in replicas:
        pod = replica.pod
        if pod and has_lost_its_cluster(pod, snapshot):
            yield structs.replace(replica, loss=None).resized()
        else:
            cannot = pod and ((is_new and not resize_sidecar.takes_sizes(pod)) or _is_left_behind(snapshot.job, pod))
            yield replica.resized() if cannot else replica


def _is_left_behind(job: TrainingJob, pod: Pod) -> bool:
    """Whether its kubelet has started only the sidecar again for the last resize."""
    return pod.is_deaf and pod.restarts_together > 0 and has_yet_to_join(job, pod) and not is_outdated(job, pod)


def has_yet_to_join(job: TrainingJob, pod: Pod) -> bool:
    """Whether its program was started before the last resize, which it has not been started again for."""
    resized_time, main = job.record.elastic.resized_time, pod.main
    if not (resize_sidecar.takes_sizes(pod) and resized_time and main and main.started_at):
        return False
    return main.started_at < resized_time


def has_lost_its_cluster(pod: Pod, snapshot: Snapshot) -> bool:
    """Whether its program was started before the last resize, and ended with an error after it."""
    resized_time, main = snapshot.job.record.elastic.resized_time, pod.main
    if not (pod.cluster_size and resized_time and main and main.exit_code and main.started_at and main.finished_at):
        return False
    return main.started_at <= resized_time <= main.finished_at
