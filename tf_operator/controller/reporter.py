"""Reports what has been done: events on the job, counts and the log. Only after the status that says so is stored."""

from dataclasses import dataclass
from typing import Protocol, assert_never

from tf_operator.controller import job_log
from tf_operator.controller.metrics_hooks import JobInstruments
from tf_operator.dialects.served import ServedAPI
from tf_operator.job.record import FailureCause
from tf_operator.job.training_job import TrainingJob
from tf_operator.machinery.events.event_object import Reference, Severity, reference_to
from tf_operator.machinery.transport.requests import Resource
from tf_operator.planning import memory_growth, restarts
from tf_operator.planning.actions import Count, Event, Plan, Transition


class Recorder(Protocol):
    """What is needed of ``EventRecorder``."""

    def event(self, regarding: Reference, severity: Severity, *, reason: str, message: str) -> None:
        """Record an event."""


_MOST_AT_ONCE = 1000
"""Restarts in one step: a kubelet that reports a billion must not block the process."""


@dataclass(frozen=True, slots=True)
class PlanReporter:
    """Turns the events and counts of a plan into Events and metrics."""

    jobs: Resource
    recorder: Recorder
    instruments: JobInstruments
    api: ServedAPI
    spec_of: job_log.SpecOf | None = None
    """``None`` where the ends of jobs are not logged with all that they are known by."""

    def take_up(self, job: TrainingJob) -> None:
        """Let counts begin before there is something to count: an increase is seen only from a value on."""
        self.instruments.taken_up(
            job.key.namespace, restarts=restarts.possible(job), growths=memory_growth.possible(job)
        )

    def report(self, job: TrainingJob, plan: Plan) -> None:
        for event in plan.events:
            self.event(job, event)
        for count in plan.counts:
            self._count(job.key.namespace, count)
        job_log.write(self.api, plan.report, self.spec_of)

    def event(self, job: TrainingJob, event: Event) -> None:
        regarding = reference_to(self.jobs, job.key, job.uid)
        severity: Severity = "Warning" if event.is_warning else "Normal"
        reason = self.api.event_reason(event.kind, event.cause)
        self.recorder.event(regarding, severity, reason=reason, message=event.message)

    def _count(self, namespace: str, count: Count) -> None:
        measures = self.instruments
        match count.transition:
            case Transition.CREATED:
                measures.created(namespace)
            case Transition.RUNNING | Transition.USED | Transition.LOST:
                self._report_time(namespace, count)
            case Transition.RESUMED_BEHIND_CHECKPOINT:
                measures.resumed_behind(namespace)
            case Transition.RESTARTED | Transition.NODE_AVOIDED | Transition.MEMORY_GROWN:
                self._report_another_try(namespace, count)
            case Transition.SUCCEEDED:
                measures.succeeded(namespace)
                measures.duration(namespace, count.seconds or 0.0, outcome="succeeded")
            case Transition.FAILED:
                self._report_failure(namespace, count)
            case Transition.DELETED:
                measures.deleted(namespace)
            case _:
                assert_never(count.transition)

    def _report_time(self, namespace: str, count: Count) -> None:
        seconds = count.seconds or 0.0
        if count.transition is Transition.USED:
            self.instruments.used(namespace, count.reason, seconds)
        elif count.transition is Transition.LOST:
            self.instruments.lost(namespace, count.reason, seconds)
        else:
            self.instruments.time_to_running(namespace, seconds)

    def _report_another_try(self, namespace: str, count: Count) -> None:
        """That replicas are started again, or where and with what the next ones are."""
        if count.transition is Transition.NODE_AVOIDED:
            self.instruments.node_avoided(namespace, nodes=count.by)
        elif count.transition is Transition.MEMORY_GROWN:
            self.instruments.memory_grown(namespace, replica_type=count.kind)
        else:
            for _ in range(min(count.by, _MOST_AT_ONCE)):
                self.instruments.restarted(namespace, replica_type=count.kind, reason=count.reason)

    def _report_failure(self, namespace: str, count: Count) -> None:
        cause = count.cause or FailureCause.PERMANENT_FAILURE
        self.instruments.failed(namespace, self.api.failure_reasons[cause])
        self.instruments.duration(namespace, count.seconds or 0.0, outcome="failed")
        if cause is FailureCause.BACKOFF_LIMIT_EXCEEDED:
            self.instruments.backoff_exceeded(namespace)
        if cause in {FailureCause.DEADLINE_EXCEEDED, FailureCause.STARTUP_DEADLINE_EXCEEDED}:
            self.instruments.deadline_exceeded(namespace)
