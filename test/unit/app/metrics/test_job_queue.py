"""The job queue: what goes wrong in it is counted from zero."""

from tf_operator.app.metrics.job_queue import JobQueueMetrics


def test_panics_jobs_that_are_left_out_and_a_stall_are_shown(registry):
    metrics = JobQueueMetrics(registry)

    def values():
        return [
            registry.get_sample_value(f"tf_operator_job_queue_{n}")
            for n in ("panics_total", "skipped_jobs", "stalled_seconds")
        ]

    assert values() == [0, 0, 0]
    metrics.panicked()
    metrics.set_aside(2)
    metrics.read_stall_by(lambda: 61.0)
    assert values() == [1, 2, 61]
