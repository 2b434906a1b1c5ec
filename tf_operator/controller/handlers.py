"""From a change in a cache to the key of the job that has to be reconciled: plain functions, which cannot wait.

A child leads to its job by its namespace and the UID in its owner reference. A child of nobody we know is left alone:
it may be the child of a job that is gone, which the garbage collector looks after.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from tf_operator.controller.debounce import SHORTEST, Debounce
from tf_operator.controller.job_notes import JobNotes
from tf_operator.dialects.served import PROGRESS_WAITS
from tf_operator.machinery.cache.consistency import PendingWrites
from tf_operator.machinery.cache.store import Store
from tf_operator.machinery.queue.workqueue import RateLimitedQueue
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import ObjectKey
from tf_operator.planning.pods import pod_state
from tf_operator.planning.snapshot import Pod
from tf_operator.projections.children import Child
from tf_operator.projections.jobs import StoredJob
from tf_operator.projections.pods import CachedPod

C = TypeVar("C", bound=Child)


@dataclass(frozen=True, slots=True)
class OnJob:
    """Every change of a job has it reconciled; also its end, when all that was kept for it is forgotten."""

    queue: RateLimitedQueue[ObjectKey]
    debounce: Debounce
    notes: JobNotes
    pending_writes: PendingWrites

    def on_add(self, item: StoredJob) -> None:
        self.queue.add(item.metadata.key)

    def on_update(self, old: StoredJob, new: StoredJob) -> None:  # noqa: ARG002 (the informer names both)
        self.notes.departed_pods.note_changed(new.metadata.uid)
        self.queue.add_debounced(new.metadata.key, self.debounce.wait(new.metadata.uid))

    def on_delete(self, last: StoredJob, *, final_state_known: bool) -> None:  # noqa: ARG002
        """Forget it, also while standing by; the key may be another job's by now, of which nothing is known yet."""
        self.notes.forget(last.metadata.uid)
        self.debounce.forget(last.metadata.uid)
        self.pending_writes.forget(last.metadata.key)
        self.queue.forget(last.metadata.key)
        self.queue.add(last.metadata.key)


@dataclass(frozen=True, slots=True)
class OnChild(Generic[C]):
    """A change of a Service or PodGroup has its job reconciled in a moment; its end also a job that needs its name."""

    queue: RateLimitedQueue[ObjectKey]
    debounce: Debounce
    jobs: Store[StoredJob]
    notes: JobNotes
    resource: Resource

    def on_add(self, item: C) -> None:
        """Nearly always one that this process has just made: no more than progress."""
        self.on_progress(item)

    def on_update(self, old: C, new: C) -> None:
        """Reconcile its job; also the one that has just lost it."""
        self.on_change(new)
        if old.owner != new.owner:
            self.on_change(old)

    def on_delete(self, last: C, *, final_state_known: bool) -> None:  # noqa: ARG002
        """Reconcile its job, and the one that could not be given a child because of this one."""
        self.on_change(last)
        uid = self.notes.rejections.note_freed(str(self.resource), last.metadata.key)
        if waiting := self.jobs.by_uid(uid):
            self.queue.add_debounced(waiting.metadata.key, SHORTEST)

    def on_change(self, item: Child) -> None:
        if job := self.job_of(item):
            self.queue.add_debounced(job.metadata.key, self.debounce.wait(job.metadata.uid))

    def on_progress(self, item: Child) -> None:
        """Of what no more than a status can follow from: it is reconciled when that would be written anyhow."""
        if job := self.job_of(item):
            key, uid = job.metadata.key, job.metadata.uid
            # What follows from a reconcile that goes on is collected from its end.
            if not self.queue.is_in_work(key):
                self.notes.status_batches.note_progress(uid)
            self.queue.add_after_work(key, max(PROGRESS_WAITS, self.debounce.wait(uid)))

    def job_of(self, item: Child) -> StoredJob | None:
        """The job that controls it, which can only be in the same namespace."""
        job = self.jobs.by_uid(item.owner) if item.owner else None
        return job if job and job.metadata.namespace == item.metadata.namespace else None


@dataclass(frozen=True, slots=True)
class OnPod:
    """A change of a pod has its job reconciled, if it is one that planning could see; its last state is kept."""

    children: OnChild[CachedPod]

    def on_add(self, item: CachedPod) -> None:
        if item.pod is not None and self.children.job_of(item):
            self.children.notes.departed_pods.note_created(item.owner, item.pod)
            self.children.notes.rejections.note_freed(str(self.children.resource), item.metadata.key)
        if item.pod is None or pod_state.is_well(item.pod):
            self.children.on_progress(item)
        else:
            self.children.on_change(item)

    def on_update(self, old: CachedPod, new: CachedPod) -> None:
        """Reconcile its job, unless nothing that matters has changed; in no hurry where the pod has begun to run."""
        old_pod, new_pod = old.pod, new.pod
        if old_pod and new_pod and new_pod.is_terminating and not old_pod.is_terminating and self.children.job_of(new):
            self.children.notes.departed_pods.note_terminating(new.owner, old_pod)
        has_begun = old_pod and new_pod and old_pod.phase != new_pod.phase == "Running" and pod_state.is_well(new_pod)
        if has_begun and old.owner == new.owner:
            self.children.on_progress(new)
        elif old.owner != new.owner or not _says_the_same(old_pod, new_pod):
            self.children.on_update(old, new)

    def on_delete(self, last: CachedPod, *, final_state_known: bool) -> None:
        """Reconcile its job, which has to know how the pod ended."""
        if last.pod is not None and self.children.job_of(last):
            self.children.notes.departed_pods.note_deleted(last.owner, last.pod)
        self.children.on_delete(last, final_state_known=final_state_known)


def _says_the_same(old: Pod | None, new: Pod | None) -> bool:
    return old.says_the_same(new) if old and new else old is new
