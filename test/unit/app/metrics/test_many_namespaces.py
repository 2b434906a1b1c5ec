"""Who may create namespaces cannot fill the memory with their series."""

from collections import Counter

import pytest
from prometheus_client import CollectorRegistry

from tf_operator.app.metrics import jobs
from tf_operator.projections.jobs import JobMeta, StoredJob


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(jobs, "MOST_NAMESPACES", 2)
    return CollectorRegistry()


def stored(namespace):
    return StoredJob(JobMeta("job", namespace, f"uid-in-{namespace}", "1"))


def new_jobs(registry):
    """How many jobs in the phase New each series counts."""
    samples = [
        sample for family in registry.collect() if family.name == "tf_operator_jobs" for sample in family.samples
    ]
    counts = Counter()
    for one in samples:
        if one.labels["phase"] == "New":
            counts[one.labels["job_namespace"]] += one.value
    return dict(counts)


async def test_beyond_so_many_namespaces_jobs_count_without_their_namespace_until_they_are_gone(registry, clock):
    metrics = jobs.JobMetrics(jobs.JobFamilies(registry), clock)
    for namespace in "abcd":
        metrics.phases.on_add(stored(namespace))
    metrics.created("d")
    metrics.taken_up("d", restarts=[("PS", "failed")], growths=[])
    assert new_jobs(registry) == {"": 2, "a": 1, "b": 1}
    labels = {"job_namespace": "", "framework": "tensorflow"}
    assert registry.get_sample_value("training_operator_jobs_created_total", labels) == 1
    restarts = {"replica_type": "PS", "reason": "failed", **labels}
    assert registry.get_sample_value("tf_operator_replica_restarts_total", restarts) == 0

    for namespace in "abc":
        metrics.phases.on_delete(stored(namespace), final_state_known=True)
    await clock.advance(jobs.KEPT_FOR)
    metrics.sample()
    assert new_jobs(registry) == {"": 1}, "a job counts in one place for as long as it exists"

    metrics.phases.on_delete(stored("d"), final_state_known=True)
    metrics.phases.on_add(stored("d"))
    assert new_jobs(registry) == {"": 0, "d": 1}


async def test_all_kinds_of_jobs_share_the_room(registry, clock):
    families = jobs.JobFamilies(registry)
    first, second = (jobs.JobMetrics(families, clock, framework=framework) for framework in ("tensorflow", "t9k"))
    for namespace, metrics in zip("abc", (first, second, second), strict=True):
        metrics.phases.on_add(stored(namespace))
    assert new_jobs(registry) == {"": 1, "a": 1, "b": 1}

    first.phases.on_delete(stored("a"), final_state_known=True)
    await clock.advance(jobs.KEPT_FOR)
    first.sample()
    second.phases.on_add(stored("d"))
    assert new_jobs(registry) == {"": 1, "b": 1, "d": 1}
