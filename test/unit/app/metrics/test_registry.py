"""The registry: zero series from the start, samples on demand, one series for each counter."""

import pytest
from prometheus_client import generate_latest

from pages.all_metrics import Idle, full_registry
from support.fake_clock import FakeClock
from tf_operator.app.metrics.registry import Metrics
from tf_operator.dialects import registry
from tf_operator.machinery.queue.workqueue import WorkQueue
from tf_operator.projections.jobs import JobMeta, StoredJob


async def test_numbers_of_the_moment_are_read_when_they_are_asked_for():
    clock, metrics = FakeClock(), Metrics()
    queue = WorkQueue(clock)
    metrics.sample_queue("tfjob-controller", queue)
    metrics.sample_informers(Idle({"pods": 3.0, "tfjobs.kubeflow.org": 61.0}, objects=402))
    queue.add("a")
    await queue.get()
    await clock.advance(5)

    metrics.sample()

    value, labels = metrics.registry.get_sample_value, {"name": "tfjob-controller", "controller": "tfjob-controller"}
    assert value("workqueue_unfinished_work_seconds", labels) == 5
    assert value("workqueue_longest_running_processor_seconds", labels) == 5
    assert value("tf_operator_watch_idle_seconds", {"informer": "tfjobs.kubeflow.org"}) == 61
    assert value("tf_operator_informer_objects", {"informer": "pods"}) == 402


def test_the_exposition_says_who_speaks_and_makes_no_second_series_of_a_counter():
    metrics = Metrics()
    metrics.client("https://10.0.0.1:443").replied("get", "200", 0.1)
    page = generate_latest(metrics.registry).decode()

    assert "tf_operator_build_info{python=" in page
    assert "process_cpu_seconds_total" in page
    assert "_created" not in page.replace("jobs_created_total", "")


@pytest.mark.parametrize("namespaces", [(), ("a", "b")], ids=["cluster", "two namespaces"])
def test_jobs_are_counted_from_zero_in_every_namespace_that_is_known(namespaces):
    value = Metrics(namespaces=namespaces).registry.get_sample_value

    for name in ("created", "successful", "failed", "restarted", "deleted"):
        for namespace in namespaces or ("",):
            labels = {"job_namespace": namespace, "framework": "tensorflow"}
            assert value(f"training_operator_jobs_{name}_total", labels) == 0


@pytest.mark.parametrize("api", registry.SERVED, ids=lambda api: api.framework)
def test_failures_are_counted_from_zero_for_every_reason(api):
    metrics = Metrics(controllers={api.controller: api.framework})
    metrics.controllers[api.controller].jobs.phases.on_add(StoredJob(JobMeta("u", "new", "j", "1")))

    for reason in api.failure_reasons.values():
        labels = {"job_namespace": "new", "framework": api.framework, "reason": reason}
        assert metrics.registry.get_sample_value("tf_operator_jobs_failed_by_reason_total", labels) == 0


def test_without_an_election_no_series_says_that_nobody_leads():
    assert "leader_election" not in generate_latest(Metrics().registry).decode()
    assert "leader_election_master_status" in generate_latest(Metrics(lease="tf-operator").registry).decode()


def test_jobs_are_counted_under_the_framework_of_their_api():
    metrics = Metrics(controllers={"a": "tensorflow", "b": "pytorch", "c": "pytorch"})
    for controller in metrics.controllers.values():
        controller.jobs.created("")

    counts = {
        framework: metrics.registry.get_sample_value(
            "training_operator_jobs_created_total", {"job_namespace": "", "framework": framework}
        )
        for framework in ("tensorflow", "pytorch")
    }
    assert counts == {"tensorflow": 1, "pytorch": 2}


def test_the_metrics_that_the_reference_reads_have_a_sample_of_every_family_with_labels():
    families = {family.name for family in full_registry().collect() if not family.samples}

    assert families == set()
