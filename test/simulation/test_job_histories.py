"""Random jobs and random histories of their pods, with an operator that may be killed after any write.

What must hold for every order of events, whatever the job: the invariants that a plan can break
(``support/invariants.py``), and that a job that nothing happens to is left alone. The rules are those of the
simulator, with numbers counted by the test itself, never by the code that is tested.
"""

import os
from collections import Counter, defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from support.embedded.pod_events import scale_workers
from support.embedded.pod_histories import BY_RULE, POLICIES, RULES, PodHistories
from support.embedded.simulator import simulate
from support.jobs.builders import tfjob
from support.jobs.templates import Template
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import RestartPolicy
from tf_operator.meta import parse_time

IN_PLACE = {RestartPolicy.ON_FAILURE, RestartPolicy.ALWAYS}
KUBELET = {"ExitCode": "Never"}


@st.composite
def jobs(draw):
    """Any small job that is valid."""
    job = tfjob("job")
    for kind, most in (("Chief", 1), ("PS", 1), ("Worker", 3), ("Evaluator", 1)):
        if draw(st.booleans()) or kind == "Worker":
            policy = draw(POLICIES)
            rules = RULES | {"restartPolicy": KUBELET.get(policy, policy)} if draw(st.booleans()) else {}
            job = job.replicas(kind, draw(st.integers(0, most)), restart=policy, template=Template().main(**rules))
    for build in (
        lambda job: job.success_policy(),
        lambda job: job.dynamic_workers(),
        lambda job: job.service_mode("Job"),
        lambda job: job.network_policy("Job"),
        lambda job: job.suspended(),
        lambda job: job.backoff_limit(draw(st.integers(0, 3))),
        lambda job: job.deadline(draw(st.sampled_from([0, 5, 3000]))),
        lambda job: job.startup_deadline(draw(st.sampled_from([1, 60]))),
        lambda job: job.ttl(draw(st.sampled_from([0, 60]))),
    ):
        job = build(job) if draw(st.integers(0, 3)) == 0 else job
    return job.clean_pods(draw(st.sampled_from(["None", "Running", "All"])))


class Histories(PodHistories):
    """One job."""

    def __init__(self):
        super().__init__()
        self.restarts = Counter()
        """By type: retryable failures whose replica was started again, and restarts in place."""
        self.succeeded = defaultdict(set)
        self.end = None

    @initialize(job=jobs())
    def create(self, job):
        self.simulator = simulate(job)
        self.happens(lambda simulator: None)

    def happens(self, *moves):
        life = self.simulator
        if life.is_deleted:
            return
        finished, count = life.record.is_finished, len(life.created_pods)
        for move in moves:
            move(life)
        failed, restarted = self.what_failed(), self.what_restarted()
        for pod in life.pods.values():
            if self.has_succeeded(pod) and pod.index < self.count(pod.type):
                self.succeeded[pod.type].add(pod.index)
        done = {kind: set(indexes) for kind, indexes in self.succeeded.items()}
        life.settle()
        self.check_creates(life.created_pods[count:], finished, done)
        if not finished:
            self.restarts.update(restarted)
            if not life.record.is_finished:
                self.restarts.update(failed)

    def count(self, kind):
        return next(spec.count for spec in self.simulator.job.replicas if spec.type is kind)

    def policy(self, kind):
        return next(spec.restart_policy for spec in self.simulator.job.replicas if spec.type is kind)

    def has_succeeded(self, pod):
        policy = self.policy(pod.type)
        code = pod.main.exit_code if pod.main else None
        return policy is not RestartPolicy.ALWAYS and (pod.phase == "Succeeded" or code == 0)

    def what_failed(self):
        """The types of pods that have failed in a way that is tried again, and that nobody has counted."""
        types = []
        for pod in self.simulator.pods.values():
            policy, code = self.policy(pod.type), pod.main.exit_code if pod.main else None
            has_ended = pod.phase == "Failed" or (policy is RestartPolicy.EXIT_CODE and code)
            has_ended = has_ended and not self.is_restarted_by_rule(pod)
            is_disrupted = pod.reason or pod.is_terminating
            is_retried = policy in IN_PLACE or (policy is RestartPolicy.EXIT_CODE and (code or 0) >= 128)
            if has_ended and is_retried and not is_disrupted and pod.index not in self.succeeded[pod.type]:
                types.append(pod.type)
        return types

    def is_restarted_by_rule(self, pod):
        """Whether its program has ended with an exit code after which a rule starts it again."""
        return pod.phase == "Running" and pod.restart_rules and pod.main and pod.main.exit_code in BY_RULE

    def what_restarted(self):
        counts = Counter()
        for pod in self.simulator.pods.values():
            is_counted = self.policy(pod.type) in IN_PLACE or pod.restart_rules
            if is_counted and pod.index not in self.simulator.record.of(pod.type).completed:
                records = self.simulator.record.restart_records
                counted = sum(entry.in_place for entry in records if entry.uid == pod.uid)
                counts[pod.type] += max(0, pod.restarts - counted)  # an evicted pod has forgotten its own
        return counts

    @precondition(lambda self: self.simulator.job.has_dynamic_workers)
    @rule(count=st.integers(0, 3))
    def somebody_scales_the_workers(self, count):
        self.succeeded[ReplicaType.WORKER] = {index for index in self.succeeded[ReplicaType.WORKER] if index < count}
        self.happens(scale_workers(count))

    def check_creates(self, pods, finished, done):
        """The simulator itself refuses a second pod of one name."""
        assert not (pods and finished), "something was created for a job that had ended"
        counts = {spec.type: spec.count for spec in self.simulator.job.replicas}
        for pod in pods:
            assert pod.index < counts[pod.type], "a pod of no replica"
            assert pod.name == f"job-{pod.type.label}-{pod.index}", "a pod of no replica"
            assert pod.index not in done.get(pod.type, ()), "a replica that has succeeded was run again"

    @invariant()
    def restarts_are_counted_exactly(self):
        record = self.simulator.record
        assert {kind: entry.restarts for kind, entry in record.replicas.items() if entry.restarts} == +self.restarts
        assert self.simulator.status.get("restarts", 0) == self.restarts.total()
        limit = self.simulator.job.run_policy.backoff_limit
        if limit is not None and not record.is_finished:
            assert record.restarts <= limit

    @invariant()
    def conditions_follow_their_rules(self):
        if not self.simulator.records:
            return
        status, conditions = self.simulator.status, self.simulator.status["conditions"]
        kinds = [entry["type"] for entry in conditions]
        true = {entry["type"] for entry in conditions if entry["status"] == "True"}
        assert "Created" in {kinds[0], kinds[-1]}
        assert kinds[-1] in true, "the last condition is the current state"
        assert kinds[-1] == self.simulator.record.phase
        assert len(kinds) == len(set(kinds))
        assert not {"Running", "Restarting"} <= set(kinds)
        assert not {"Succeeded", "Failed"} <= set(kinds)
        assert {"Created", "Succeeded", "Failed"} & set(kinds) <= true
        for entry in conditions:
            since, told = parse_time(entry["lastTransitionTime"]), parse_time(entry["lastUpdateTime"])
            assert since <= told <= self.simulator.now
        is_finished = bool({"Succeeded", "Failed"} & true)
        if is_finished or "Suspended" in true:
            assert not {"Running", "Restarting"} & true
        assert ("completionTime" in status) == is_finished
        self.end = self.end or (status if is_finished else None)
        assert self.end in (None, status), "a finished job has changed"

    @invariant()
    def live_pods_agree_on_the_cluster(self):
        """With dynamic workers each pod has a part of its own."""
        if self.simulator.job.has_dynamic_workers:
            return
        clusters = [self.simulator.clusters.get(pod.uid) for pod in self.simulator.pods.values()]
        assert all(cluster == clusters[0] for cluster in clusters)

    @invariant()
    def counts_are_what_is_there(self):
        if self.simulator.record.is_finished or self.simulator.is_deleted:
            return
        for spec in self.simulator.job.replicas:
            pods = [pod for pod in self.simulator.pods.values() if pod.type is spec.type]
            counts = self.simulator.status["replicaStatuses"][spec.type]
            assert counts.get("active", 0) == sum(self.is_active(pod) for pod in pods)
            assert counts.get("pending", 0) == sum(pod.phase == "Pending" and not pod.is_restarting for pod in pods)
            assert counts.get("restarting", 0) <= counts.get("active", 0)
            if spec.restart_policy is not RestartPolicy.ALWAYS:
                assert set(self.simulator.record.of(spec.type).completed) == self.succeeded[spec.type]
                assert counts.get("succeeded", 0) == len(self.succeeded[spec.type])

    def is_active(self, pod):
        code = pod.main.exit_code if pod.main else None
        if not (pod.phase == "Running" or pod.is_restarting) or pod.index in self.succeeded[pod.type]:
            return False
        return code is None or self.policy(pod.type) in IN_PLACE or self.is_restarted_by_rule(pod)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=int(os.environ.get("HISTORIES", "20")), stateful_step_count=25)
