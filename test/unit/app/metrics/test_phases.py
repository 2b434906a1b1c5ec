"""Which jobs are in which phase, and how long the oldest has waited: kept as jobs change, never looked up."""

from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry

from support.fake_clock import FakeClock
from tf_operator.app.metrics.jobs import JobFamilies, JobMetrics
from tf_operator.app.metrics.phases import OTHER, PHASES, WAITING_PHASES
from tf_operator.dialects.served import JobSummary
from tf_operator.projections.jobs import JobMeta, StoredJob


class Cluster:
    """Jobs that come and go, and what is shown of them."""

    def __init__(self):
        self.clock = FakeClock()
        self.registry = CollectorRegistry()
        self.metrics = JobMetrics(JobFamilies(self.registry), self.clock)
        self.jobs = {}

    def job(self, name, phase, *, age=None, namespace="ns", is_hung=False):
        """A job is in this phase from now on, and has waited so long."""
        since = None if age is None else self.clock.now() - timedelta(seconds=age)
        summary = JobSummary(phase, since, is_hung=is_hung)
        now, former = StoredJob(JobMeta(name, namespace, name, "1"), summary=summary), self.jobs.get(name)
        self.jobs[name] = now
        if former:
            self.metrics.phases.on_update(former, now)
        else:
            self.metrics.phases.on_add(now)

    def gone(self, name):
        self.metrics.phases.on_delete(self.jobs.pop(name), final_state_known=True)

    def values(self, metric, namespace="ns"):
        """The values of a metric that are not 0, by phase."""
        labels = {"job_namespace": namespace, "framework": "tensorflow"}
        values = {
            phase: self.registry.get_sample_value(metric, {**labels, "phase": phase}) for phase in (*PHASES, OTHER)
        }
        return {phase: value for phase, value in values.items() if value}

    @property
    def counts(self):
        return self.values("tf_operator_jobs")

    def hung(self, namespace="ns"):
        labels = {"job_namespace": namespace, "framework": "tensorflow"}
        return self.registry.get_sample_value("tf_operator_jobs_hung", labels)

    @property
    def ages(self):
        return self.values("tf_operator_oldest_pending_job_age_seconds")


@pytest.fixture
def cluster():
    return Cluster()


def test_jobs_are_counted_by_namespace_and_phase_as_they_change(cluster):
    cluster.job("a", "")
    cluster.job("b", "Running")
    cluster.job("c", "Running")
    assert cluster.counts == {"New": 1, "Running": 2}

    cluster.job("a", "Created")
    cluster.job("b", "Succeeded")
    cluster.gone("c")
    cluster.job("d", "Failed", namespace="other")
    cluster.metrics.phases.on_add(cluster.jobs["b"])  # again
    assert cluster.counts == {"Created": 1, "Succeeded": 1}
    assert cluster.values("tf_operator_jobs", "other") == {"Failed": 1}


def test_jobs_that_hang_are_counted_by_namespace_until_they_go_on_or_are_gone(cluster):
    for name in "abc":
        cluster.job(name, "Running")
    assert cluster.hung() == 0

    for name in "abc":
        cluster.job(name, "Running", is_hung=True)
    cluster.job("d", "Running", namespace="other", is_hung=True)
    assert (cluster.hung(), cluster.hung("other")) == (3, 1)

    cluster.job("a", "Running")
    cluster.gone("b")
    assert (cluster.hung(), cluster.counts) == (1, {"Running": 2})


def test_conditions_of_others_make_one_series_however_many_there_are(cluster):
    for number in range(5):
        cluster.job(f"job-{number}", f"Invented-{number}")

    assert cluster.counts == {OTHER: 5}


@pytest.mark.parametrize("phase", WAITING_PHASES)
def test_the_age_is_that_of_the_job_that_has_waited_longest(cluster, phase):
    stored_phase = "" if phase == "New" else phase
    for name, age in (("a", 5), ("b", 70), ("c", 6)):
        cluster.job(name, stored_phase, age=age)
    assert cluster.ages == {phase: 70}

    cluster.job("b", "Running")
    assert cluster.ages == {phase: 6}
    cluster.gone("c")
    assert cluster.ages == {phase: 5}
    cluster.gone("a")
    assert cluster.ages == {}


async def test_the_age_grows_from_the_start_on(cluster):
    cluster.job("a", "Created", age=-3)
    assert cluster.ages == {}

    await cluster.clock.advance(10)
    assert cluster.ages == {"Created": 7}


def test_jobs_that_change_for_ever_leave_nothing_behind(cluster):
    cluster.job("old", "Created", age=10_000)
    for number in range(1000):
        cluster.job("new", "Created", age=number)
    (earliest,) = [heap for phase, heap in cluster.metrics._series["ns"]._pending.items() if phase == "Created"]

    assert len(earliest._heap) < 50
    assert cluster.ages == {"Created": 10_000}
