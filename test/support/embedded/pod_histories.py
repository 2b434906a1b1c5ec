"""Random histories of the pods of one job: moves, and what must hold for a job of every kind.

The operator may be killed after any write. A test says which jobs there are, and what else must hold for them.
"""

from collections.abc import Callable
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from support.embedded.pod_events import (
    Move,
    edited,
    everything_runs,
    exits_by_rule,
    fails,
    is_deleted,
    is_deleted_unseen,
    is_drained,
    is_evicted,
    is_rejected,
    is_stuck,
    main_ends,
    restarts_in_place,
    runs,
    succeeds,
)
from support.embedded.simulator import Simulator
from support.resources import Json
from tf_operator.planning.plan import make_plan

POLICIES = st.sampled_from(["Never", "OnFailure", "Always", "ExitCode"])
REPLICAS = st.sampled_from(["chief-0", "master-0", "ps-0", "worker-0", "worker-1", "worker-2", "evaluator-0"])
BY_RULE = {42: "Restart", 200: "RestartAllContainers"}
"""What rules of containers do after these exit codes, in jobs that have any."""
RULES: Json = {
    "restartPolicyRules": [
        {"action": action, "exitCodes": {"operator": "In", "values": [code]}} for code, action in BY_RULE.items()
    ]
}
EXIT_CODES = st.sampled_from([1, 127, 128, 137, 143, 255])


class PodHistories(RuleBasedStateMachine):
    """One job; a test makes its simulator."""

    simulator: Simulator

    def happens(self, *moves: Move) -> None:
        """Something happens, and the operator reconciles until there is nothing left to do."""
        if self.simulator.is_deleted:
            return
        for move in moves:
            move(self.simulator)
        self.simulator.settle()

    def suspension(self, *, is_suspended: bool) -> Json:
        """The edit by which the job is suspended, or resumed."""
        return {"spec": {"runPolicy": {"suspend": is_suspended}}}

    @rule()
    def all_pods_start(self) -> None:
        self.happens(everything_runs)

    @rule(replica=REPLICAS)
    def a_pod_starts(self, replica: str) -> None:
        self.happens(runs(replica))

    @rule(replica=REPLICAS)
    def a_pod_succeeds(self, replica: str) -> None:
        self.happens(runs(replica), succeeds(replica))

    @rule(replica=REPLICAS, code=EXIT_CODES)
    def a_pod_fails(self, replica: str, code: int) -> None:
        self.happens(runs(replica), fails(replica, code))

    @rule(replica=REPLICAS, code=st.sampled_from([0, 1, 137]))
    def a_program_ends_beside_a_sidecar(self, replica: str, code: int) -> None:
        self.happens(main_ends(replica, code))

    @rule(replica=REPLICAS, times=st.integers(1, 2))
    def a_container_restarts_in_place(self, replica: str, times: int) -> None:
        self.happens(restarts_in_place(replica, times))

    @rule(replica=REPLICAS, code=st.sampled_from([*BY_RULE]), moves=st.integers(1, 3))
    def a_rule_restarts_a_container_or_all(self, replica: str, code: int, moves: int) -> None:
        for move in exits_by_rule(replica, code)[:moves]:
            self.happens(move)

    @rule(replica=REPLICAS, move=st.sampled_from([is_drained, is_evicted, is_deleted, is_deleted_unseen]))
    def a_pod_is_taken_away(self, replica: str, move: Callable[[str], Move]) -> None:
        self.happens(move(replica))

    @rule(replica=REPLICAS)
    def a_pod_is_drained_and_exits_with_0(self, replica: str) -> None:
        self.simulator.is_polite = True
        self.happens(is_drained(replica))
        self.simulator.is_polite = False

    @rule(replica=REPLICAS, reason=st.sampled_from(["OutOfnvidia.com/gpu", "NodePorts"]))
    def a_pod_is_rejected(self, replica: str, reason: str) -> None:
        self.happens(is_rejected(replica, reason))

    @rule(replica=REPLICAS)
    def a_pod_is_stuck(self, replica: str) -> None:
        self.happens(is_stuck(replica, "ImagePullBackOff", "no such image"))

    @rule(seconds=st.sampled_from([1, 5, 60, 700]))
    def time_passes(self, seconds: int) -> None:
        if not self.simulator.is_deleted:
            self.simulator.sleep(seconds)
            self.happens(lambda simulator: None)

    @rule(seconds=st.sampled_from([1, 400]))
    def the_operator_is_away(self, seconds: int) -> None:
        if not self.simulator.is_deleted:
            self.simulator.wait(seconds)
            self.simulator.restart()
            self.happens(lambda simulator: None)

    @rule(writes=st.integers(1, 6))
    def the_operator_will_be_killed(self, writes: int) -> None:
        self.simulator.crash_after = self.simulator.writes + writes

    @rule(polite=st.booleans())
    def somebody_suspends_the_job(self, polite: bool) -> None:
        self.simulator.is_polite = polite  # to end with 0 then is no success
        self.happens(edited(self.suspension(is_suspended=True)))
        self.simulator.is_polite = False

    @rule()
    def somebody_resumes_the_job(self) -> None:
        self.happens(edited(self.suspension(is_suspended=False)))

    @invariant()
    def a_job_that_nothing_happens_to_is_left_alone(self) -> None:
        if self.simulator.is_deleted:
            return
        plan = self.simulator.look()
        assert (plan.actions, plan.events, plan.counts) == ((), (), ())
        assert self.simulator.api.status_patch(plan.report) == {}
        self.check_the_alarm(plan.requeue_after)

    def check_the_alarm(self, wait: timedelta | None) -> None:
        """It is in the future, and there is something to be done when it rings; and not much earlier."""
        if wait is None:
            return
        assert wait.total_seconds() > 0
        then = make_plan(self.simulator.observe().changed(now=self.simulator.now + wait))
        assert then.actions or then.deletes_job or self.simulator.api.status_patch(then.report)

    @invariant()
    def a_finished_job_is_only_cleaned_up(self) -> None:
        if not self.simulator.record.is_finished or self.simulator.is_deleted:
            return
        year = self.simulator.now.replace(year=self.simulator.now.year + 1)
        plan = make_plan(self.simulator.observe().changed(now=year))
        assert (plan.actions, plan.events) == ((), ())
        assert self.simulator.api.status_patch(plan.report) == {}
