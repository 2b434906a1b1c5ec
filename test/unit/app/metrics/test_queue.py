"""A queue and its reconciles, by the names and labels of controller-runtime."""

from tf_operator.app.metrics.queue import QueueFamilies, QueueMetrics, ReconcileFamilies, ReconcileMetrics
from tf_operator.controller.metrics_hooks import ReconcileResult

QUEUE = {"name": "jobs", "controller": "jobs"}


def test_a_queue_is_counted_from_zero_under_the_names_of_client_go(registry):
    queue = QueueMetrics(QueueFamilies(registry), controller="jobs")
    value = registry.get_sample_value
    names = ("depth", "adds_total", "retries_total", "queue_duration_seconds_count", "work_duration_seconds_count")
    assert [value(f"workqueue_{name}", QUEUE) for name in names] == [0] * 5

    queue.depth(7)
    queue.added()
    queue.retried()
    queue.waited(0.5)
    queue.worked(2.0)

    assert [value(f"workqueue_{name}", QUEUE) for name in names] == [7, 1, 1, 1, 1]
    assert value("workqueue_work_duration_seconds_sum", QUEUE) == 2


def test_a_reconcile_is_counted_by_result_with_a_series_for_each_from_the_start(registry):
    reconciles = ReconcileMetrics(ReconcileFamilies(registry), controller="jobs", workers=16)

    def total(result):
        return registry.get_sample_value(
            "controller_runtime_reconcile_total", {"controller": "jobs", "result": result.value}
        )

    assert [total(result) for result in ReconcileResult] == [0] * len(ReconcileResult)
    reconciles.began()
    reconciles.ended(ReconcileResult.REQUEUE_AFTER, 0.2)

    assert total(ReconcileResult.REQUEUE_AFTER) == 1
    assert registry.get_sample_value("controller_runtime_reconcile_errors_total", {"controller": "jobs"}) == 0
    assert registry.get_sample_value("controller_runtime_reconcile_time_seconds_sum", {"controller": "jobs"}) == 0.2
    assert registry.get_sample_value("controller_runtime_max_concurrent_reconciles", {"controller": "jobs"}) == 16


def test_a_bug_is_a_panic_and_an_error_and_frees_its_worker(registry):
    reconciles = ReconcileMetrics(ReconcileFamilies(registry), controller="jobs", workers=1)

    def value(name):
        return registry.get_sample_value(f"controller_runtime_{name}", {"controller": "jobs"})

    reconciles.began()
    assert value("active_workers") == 1
    reconciles.panicked()
    reconciles.ended(ReconcileResult.ERROR, 0.1)

    assert value("reconcile_panics_total") == value("reconcile_errors_total") == 1
    assert value("active_workers") == 0
