"""Jobs: the Go operator's five counters, ours beside them, and namespaces that come and go."""

import pytest

from tf_operator.app.metrics.jobs import KEPT_FOR, OUTCOMES, JobFamilies, JobMetrics
from tf_operator.app.metrics.phases import PHASES
from tf_operator.projections.jobs import JobMeta, StoredJob

NS = {"job_namespace": "ns", "framework": "tensorflow"}


@pytest.fixture
def jobs(registry, clock):
    return JobMetrics(JobFamilies(registry), clock, namespaces=["ns"])


def stored(uid, namespace):
    return StoredJob(JobMeta(uid, namespace, uid, "1"))


def jobs_in(registry, namespace, phase):
    return registry.get_sample_value("tf_operator_jobs", {**NS, "job_namespace": namespace, "phase": phase})


def test_each_transition_of_a_job_is_one_count(registry, jobs):
    counters = {
        "training_operator_jobs_created_total": lambda: jobs.created("ns"),
        "training_operator_jobs_successful_total": lambda: jobs.succeeded("ns"),
        "training_operator_jobs_failed_total": lambda: jobs.failed("ns", "TFJobFailed"),
        "training_operator_jobs_restarted_total": lambda: jobs.restarted("ns", replica_type="PS", reason="Disrupted"),
        "training_operator_jobs_deleted_total": lambda: jobs.deleted("ns"),
        "tf_operator_jobs_backoff_exceeded_total": lambda: jobs.backoff_exceeded("ns"),
        "tf_operator_jobs_deadline_exceeded_total": lambda: jobs.deadline_exceeded("ns"),
    }
    for name, count in counters.items():
        assert registry.get_sample_value(name, NS) == 0
        count()
        assert registry.get_sample_value(name, NS) == 1

    jobs.memory_grown("ns", replica_type="Worker")
    assert registry.get_sample_value("tf_operator_memory_growths_total", {"replica_type": "Worker", **NS}) == 1
    reason = {"reason": "TFJobFailed", **NS}
    assert registry.get_sample_value("tf_operator_jobs_failed_by_reason_total", reason) == 1
    restart = {"replica_type": "PS", "reason": "Disrupted", **NS}
    assert registry.get_sample_value("tf_operator_replica_restarts_total", restart) == 1


def test_times_of_jobs_have_buckets_from_a_second_to_a_month(registry, jobs):
    jobs.time_to_running("ns", 12)
    jobs.duration("ns", 100_000, outcome="failed")

    value = registry.get_sample_value
    assert value("tf_operator_job_time_to_running_seconds_bucket", {"le": "10.0", **NS}) == 0
    assert value("tf_operator_job_time_to_running_seconds_bucket", {"le": "20.0", **NS}) == 1
    failed = {"outcome": "failed", "le": "172800.0", **NS}
    assert value("tf_operator_job_duration_seconds_bucket", failed) == 1
    for outcome in OUTCOMES:
        assert value("tf_operator_job_duration_seconds_count", {"outcome": outcome, **NS}) is not None


@pytest.fixture
def jobs_anywhere(registry, clock):
    """Metrics of an operator that serves all namespaces."""
    return JobMetrics(JobFamilies(registry), clock)


def series(registry, namespace):
    """All series of a namespace, by name and further labels."""
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.labels["job_namespace"] == namespace
    }


def count(registry, kind, namespace):
    return registry.get_sample_value(f"training_operator_jobs_{kind}_total", {**NS, "job_namespace": namespace})


def test_a_namespace_has_every_series_from_its_first_job_on_so_that_its_first_failure_shows(registry, jobs_anywhere):
    assert count(registry, "failed", "new") is None

    jobs_anywhere.phases.on_add(stored("1", "new"))
    assert count(registry, "failed", "new") == 0
    assert {jobs_in(registry, "new", phase) for phase in PHASES} == {0, 1}

    jobs_anywhere.failed("new", "TFJobFailed")
    assert count(registry, "failed", "new") == 1


def test_restarts_and_growths_begin_with_0_for_the_types_of_the_jobs_there_are(registry, jobs_anywhere):
    for _ in range(2):
        jobs_anywhere.taken_up("new", restarts=[("PS", "failed"), ("Worker", "failed")], growths=["Worker"])
    jobs_anywhere.restarted("new", replica_type="PS", reason="failed")
    jobs_anywhere.taken_up("new", restarts=[("PS", "failed")], growths=[])

    restarts = {
        key[1:]: value
        for key, value in series(registry, "new").items()
        if key[0] == "tf_operator_replica_restarts_total"
    }
    assert restarts == {("PS", "failed", "new", "tensorflow"): 1, ("Worker", "failed", "new", "tensorflow"): 0}
    growths = {
        key[1:]: value for key, value in series(registry, "new").items() if key[0] == "tf_operator_memory_growths_total"
    }
    assert growths == {("Worker", "new", "tensorflow"): 0}


async def test_the_series_of_a_namespace_go_some_time_after_its_last_job(registry, clock, jobs_anywhere):
    jobs_anywhere.phases.on_add(stored("1", "gone"))
    jobs_anywhere.taken_up("gone", restarts=[("Worker", "failed")], growths=["Worker"])
    jobs_anywhere.failed("gone", "TFJobFailed")
    jobs_anywhere.restarted("gone", replica_type="PS", reason="Disrupted")
    old_series = series(registry, "gone")
    jobs_anywhere.phases.on_delete(stored("1", "gone"), final_state_known=True)

    await clock.advance(KEPT_FOR - 1)
    jobs_anywhere.sample()
    assert series(registry, "gone").keys() == old_series.keys()

    await clock.advance(1)
    jobs_anywhere.sample()
    assert series(registry, "gone") == {}
    assert series(registry, "")

    jobs_anywhere.phases.on_add(stored("2", "gone"))
    assert count(registry, "failed", "gone") == 0, "as after a restart"


async def test_a_job_in_time_keeps_the_series_of_its_namespace(registry, clock, jobs_anywhere):
    jobs_anywhere.phases.on_add(stored("1", "busy"))
    jobs_anywhere.created("busy")
    jobs_anywhere.phases.on_delete(stored("1", "busy"), final_state_known=True)
    await clock.advance(KEPT_FOR - 1)
    jobs_anywhere.phases.on_add(stored("2", "busy"))
    await clock.advance(KEPT_FOR)
    jobs_anywhere.sample()

    assert count(registry, "created", "busy") == 1


async def test_namespaces_that_are_served_by_choice_keep_their_series(registry, jobs, clock):
    jobs.phases.on_add(stored("1", "ns"))
    jobs.phases.on_delete(stored("1", "ns"), final_state_known=True)
    await clock.advance(KEPT_FOR)
    jobs.sample()

    assert jobs_in(registry, "ns", "Created") == 0


async def test_namespaces_without_jobs_go_a_few_at_a_time(registry, clock, jobs_anywhere):
    for number in range(120):
        jobs_anywhere.deleted(f"ns-{number}")
    await clock.advance(KEPT_FOR)

    counts = []
    for _ in range(3):
        jobs_anywhere.sample()
        namespaces = {sample.labels["job_namespace"] for family in registry.collect() for sample in family.samples}
        counts.append(sum(name.startswith("ns-") for name in namespaces))
    assert counts == [70, 20, 0]
