"""Counters that begin before there is something to count: an increase is seen only from a value on."""

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from support.embedded.controller_harness import Harness
from support.jobs import builders
from tf_operator.app.metrics.jobs import JobFamilies, JobMetrics

SAMPLES = ("tf_operator_replica_restarts_total", "tf_operator_memory_growths_total")


@pytest.fixture
def harness():
    job = (
        builders.tfjob("j")
        .workers(1, restart="OnFailure")
        .parameter_servers(1, restart="OnFailure")
        .oom_policy("Worker", "2Gi", limit="1Gi")
    )
    return Harness(job)


def measured(harness):
    """A registry that the harness reports to from now on: another process of the operator."""
    registry = CollectorRegistry()
    metrics = JobMetrics(JobFamilies(registry), harness.clock)
    harness.executor = replace(harness.executor, reporter=replace(harness.executor.reporter, instruments=metrics))
    harness.reconciler = replace(harness.reconciler, executor=harness.executor)
    return registry


def values(registry):
    """What is counted by the types of the job."""
    return {
        (sample.labels["replica_type"], sample.labels.get("reason", "memory")): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name in SAMPLES
    }


async def test_a_job_has_counters_of_what_its_replicas_may_do_from_its_first_reconcile_on(harness):
    registry = measured(harness)
    await harness.reconcile()

    reasons = ("failed", "disrupted", "in-place")
    types = ("Worker", "PS")
    assert values(registry) == {("Worker", "memory"): 0} | {(kind, reason): 0 for kind in types for reason in reasons}


async def test_another_operator_has_them_too_before_the_next_restart(harness):
    await harness.settle()
    registry = measured(harness)
    await harness.reconcile()
    assert values(registry)["PS", "failed"] == 0

    harness.set_pod("j-ps-0", phase="Failed")
    harness.sync()
    await harness.settle()
    assert {key for key, value in values(registry).items() if value} == {("PS", "failed")}


async def test_a_job_that_has_ended_needs_none(harness):
    await harness.settle()
    harness.set_pod("j-worker-0", phase="Succeeded")
    harness.sync()
    await harness.settle()
    registry = measured(harness)
    await harness.reconcile()

    assert values(registry) == {}
