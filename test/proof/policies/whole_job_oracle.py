"""What has to be so of jobs whose replicas start again together: docs/behaviour.md, "Restarts of the whole job"."""

from collections.abc import Iterator

from proof import oracle


def on_status(write: oracle.Stored) -> Iterator[str]:
    """Sentences about every status that is stored."""
    yield from _each_attempt_has_one_cause(write)
    yield from _a_final_failure_is_no_consequence(write)


def _each_attempt_has_one_cause(write: oracle.Stored) -> Iterator[str]:
    """The table of restarts.scope: one restart or one disruption each. While the job is idle, none begins."""
    more = oracle.attempt_of(write.new) - oracle.attempt_of(write.old)
    counted = sum(write.new.get(field, 0) - write.old.get(field, 0) for field in ("restarts", "disruptions"))
    if not write.job.is_whole and more:
        yield "a job that does not restart as a whole has attempts"
    if more not in {0, 1}:
        yield f"the attempt goes from {oracle.attempt_of(write.old)} to {oracle.attempt_of(write.new)}"
    is_idle = oracle.state_of(write.new) in {"Suspended", *oracle.ENDS}
    if write.job.is_whole and counted != more and not (is_idle and counted <= 1):
        yield f"{counted} losses are counted, and {more} attempts begun"


def _a_final_failure_is_no_consequence(write: oracle.Stored) -> Iterator[str]:
    new, facts = oracle.end_of(write.new), write.shown_facts - write.settled
    if not write.job.is_whole or oracle.end_of(write.old) or new != "Failed" or any(oracle.of(write.settled, "final")):
        return
    if any(oracle.of(facts, "failed")) and any(entry["reason"] == "TFJobFailed" for entry in write.new["conditions"]):
        yield "among losses in the same second, a final failure is taken for a consequence"
