"""The instruments that nobody has replaced do nothing, and can all be called."""

from tf_operator.controller.instruments import JobInstruments, ReconcileInstruments, ReconcileResult


def test_measures_that_nobody_wants_cost_nothing():
    jobs, passes = JobInstruments(), ReconcileInstruments()

    assert {
        jobs.created("ns"),
        jobs.succeeded("ns"),
        jobs.failed("ns", "TFJobFailed"),
        jobs.restarted("ns", replica_type="Worker", reason="ExitCode"),
        jobs.deleted("ns"),
        jobs.backoff_exceeded("ns"),
        jobs.deadline_exceeded("ns"),
        jobs.time_to_running("ns", 1.0),
        jobs.duration("ns", 1.0, outcome="failed"),
        passes.began(),
        passes.ended(ReconcileResult.SUCCESS, 0.1),
        passes.panicked(),
    } == {None}
