"""Whole lives of jobs, from the first pass to the last: what people do, what the kubelet does, and what is seen then.

Golden cases specify single plans; these lives are about the order of events. A row has what happens, the conditions
that are seen afterwards (in their order, the last one is the current state; ``!`` is False) and the pods
(``worker-0#2`` is the second pod of worker 0). Every life is lived once undisturbed, and once for each of its writes
with the operator killed right after it: nobody can tell the difference.
"""

from dataclasses import dataclass

import pytest

from support.builders import TFJobBuilder, tfjob
from support.pod_events import (
    everything_runs,
    fails,
    is_deleted,
    is_deleted_unseen,
    is_drained,
    is_evicted,
    resume,
    runs,
    scale_workers,
    stops_politely,
    succeeds,
    suspend,
    the_gang_is_admitted,
    time_passes,
)
from support.simulator import simulator
from tf_operator.planning.snapshot import DEFAULT_SETTINGS, Settings

VOLCANO = Settings(gang_scheduler="volcano")
GONE = "gone"
"""Of a job that has been deleted."""


@dataclass(frozen=True)
class Life:
    """A job and its table."""

    title: str
    job: TFJobBuilder
    rows: tuple
    restarts: int = 0
    disruptions: int = 0
    reason: str = ""
    settings: Settings = DEFAULT_SETTINGS

    def lived(self, *, crash_after=None):
        """The simulator at the end. What each row expects is compared only in an undisturbed life."""
        seen = simulator(self.job, self.settings)
        seen.crash_after = crash_after
        seen.settle()
        for moves, conditions, pods in self.rows:
            for move in moves:
                move(seen)
                seen.settle()
            if crash_after is None:
                assert (seen.conditions, seen.shown_pods) == (conditions, pods)
        return seen


def both(policy):
    """A job of a chief and a worker."""
    return tfjob("job").chief(restart=policy).workers(1, restart=policy)


LIVES = [
    Life(
        "a job with a chief runs, the chief succeeds, and what else ran counts as succeeded",
        tfjob("job").chief().workers(2).parameter_servers(1).clean_pods("Running"),
        (
            ((), "Created", "chief-0#1:Pending ps-0#1:Pending worker-0#1:Pending worker-1#1:Pending"),
            ((runs("ps-0"),), "Created", "chief-0#1:Pending ps-0#1:Running worker-0#1:Pending worker-1#1:Pending"),
            (
                (everything_runs,),
                "Created Running",
                "chief-0#1:Running ps-0#1:Running worker-0#1:Running worker-1#1:Running",
            ),
            (
                (succeeds("worker-1"),),
                "Created Running",
                "chief-0#1:Running ps-0#1:Running worker-0#1:Running worker-1#1:Succeeded",
            ),
            ((succeeds("chief-0"),), "Created !Running Succeeded", "chief-0#1:Succeeded worker-1#1:Succeeded"),
            ((time_passes(86400),), "Created !Running Succeeded", "chief-0#1:Succeeded worker-1#1:Succeeded"),
        ),
    ),
    Life(
        "backoffLimit 2 with exit code 137: exactly two replacements, then the job has failed",
        tfjob("job").workers(1, restart="ExitCode").backoff_limit(2),
        (
            ((everything_runs,), "Created Running", "worker-0#1:Running"),
            ((fails("worker-0", 137),), "Created Restarting", ""),
            ((time_passes(2),), "Created Restarting", "worker-0#2:Pending"),
            ((everything_runs,), "Created Running", "worker-0#2:Running"),
            ((fails("worker-0", 137), time_passes(5), everything_runs), "Created Running", "worker-0#3:Running"),
            ((fails("worker-0", 137),), "Created !Running Failed", "worker-0#3:Failed"),
            ((time_passes(86400),), "Created !Running Failed", "worker-0#3:Failed"),
        ),
        restarts=2,
        reason="TFJobBackoffLimitExceeded",
    ),
    Life(
        "a drained node, an evicted pod and a deleted running pod do not fail an OnFailure job without any restart",
        both("OnFailure").backoff_limit(0),
        (
            ((everything_runs,), "Created Running", "chief-0#1:Running worker-0#1:Running"),
            ((stops_politely, is_drained("worker-0")), "Created Restarting", "chief-0#1:Running"),
            ((time_passes(2), everything_runs), "Created Running", "chief-0#1:Running worker-0#2:Running"),
            ((is_evicted("worker-0"),), "Created Restarting", "chief-0#1:Running"),
            ((time_passes(5), everything_runs), "Created Running", "chief-0#1:Running worker-0#3:Running"),
            ((is_deleted_unseen("worker-0"),), "Created Restarting", "chief-0#1:Running"),
            ((time_passes(10), everything_runs), "Created Running", "chief-0#1:Running worker-0#4:Running"),
            ((succeeds("chief-0"),), "Created !Running Succeeded", "chief-0#1:Succeeded worker-0#4:Running"),
        ),
        disruptions=3,
    ),
    Life(
        "suspended and resumed: no pods, a new start, and the restarts stay",
        both("OnFailure").deadline(100),
        (
            ((everything_runs, fails("worker-0"), time_passes(2), everything_runs), "Created Running",
             "chief-0#1:Running worker-0#2:Running"),
            ((suspend,), "Created !Running Suspended", ""),
            ((time_passes(1000),), "Created !Running Suspended", ""),
            ((resume,), "!Running !Suspended Created", "chief-0#2:Pending worker-0#3:Pending"),
            ((everything_runs, time_passes(90)), "Created !Suspended Running", "chief-0#2:Running worker-0#3:Running"),
            ((succeeds("chief-0"),), "Created !Suspended !Running Succeeded", "chief-0#2:Succeeded worker-0#3:Running"),
        ),
        restarts=1,
    ),
    Life(
        "dynamic workers come and go, and one that fails is made again only when somebody deletes its pod",
        tfjob("job").chief().workers(3).dynamic_workers(),
        (
            ((everything_runs, scale_workers(2)), "Created Running",
             "chief-0#1:Running worker-0#1:Running worker-1#1:Running"),
            ((scale_workers(4), everything_runs), "Created Running",
             "chief-0#1:Running worker-0#1:Running worker-1#1:Running worker-2#2:Running worker-3#1:Running"),
            ((fails("worker-3"), time_passes(600)), "Created Running",
             "chief-0#1:Running worker-0#1:Running worker-1#1:Running worker-2#2:Running worker-3#1:Failed"),
            ((is_deleted("worker-3"), time_passes(2), is_drained("worker-2"), time_passes(2), everything_runs),
             "Created Running",
             "chief-0#1:Running worker-0#1:Running worker-1#1:Running worker-2#3:Running worker-3#2:Running"),
            ((succeeds("chief-0"),), "Created !Running Succeeded",
             "chief-0#1:Succeeded worker-0#1:Running worker-1#1:Running worker-2#3:Running worker-3#2:Running"),
        ),
        disruptions=2,
    ),
    Life(
        "a gang's pods are made when the gang is admitted, and only then does the job's time begin",
        tfjob("job").workers(2).deadline(60).clean_pods("All"),
        (
            ((time_passes(3600),), "Created", ""),
            ((the_gang_is_admitted, everything_runs), "Created Running", "worker-0#1:Running worker-1#1:Running"),
            ((time_passes(59),), "Created Running", "worker-0#1:Running worker-1#1:Running"),
            ((time_passes(1),), "Created !Running Failed", ""),
        ),
        reason="TFJobDeadlineExceeded",
        settings=VOLCANO,
    ),
]  # fmt: skip


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.title)
def test_a_job_lives_as_its_table_says(life):
    seen = life.lived()

    last = seen.status["conditions"][-1]
    assert (seen.record.restarts, seen.record.disruptions) == (life.restarts, life.disruptions)
    assert life.reason in {"", last["reason"]}, last
    assert last["type"] != "Failed" or life.reason


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.title)
def test_a_crash_after_any_write_changes_nothing_in_the_end(life):
    undisturbed = life.lived()

    for write in range(1, undisturbed.writes + 1):
        assert life.lived(crash_after=write).summary == undisturbed.summary, f"killed after write {write}"
