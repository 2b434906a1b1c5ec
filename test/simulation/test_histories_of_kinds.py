"""Random jobs of the other kinds with random histories of their pods; ``test_job_histories`` has those of v1.

What a job of each kind shows adds up to its replicas, whatever happens, and a shared limit of restarts is kept.
"""

import os
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, run_state_machine_as_test

from support.embedded.pod_histories import POLICIES, RULES, PodHistories
from support.embedded.simulator import Simulator
from support.jobs import t9k
from tf_operator.dialects import registry

EXAMPLES = int(os.environ.get("HISTORIES", "6"))
LIMITS = st.none() | st.integers(0, 3)


@st.composite
def listed_jobs(draw, api_version, kind):
    """Any small job that lists its replicas: of v1alpha1, or mlkube."""
    roles = [{"tfReplicaType": "MASTER"}]
    for name, most in (("WORKER", 3), ("PS", 1)):
        if count := draw(st.integers(0, most)):
            roles.append({"tfReplicaType": name, "replicas": count})
    for role in roles:
        policy = draw(st.sampled_from(["Always", "OnFailure", "Never"]))
        own = RULES | {"restartPolicy": policy} if draw(st.booleans()) else {}
        pod = {"containers": [{"name": "tensorflow", "image": "i", **own}], "restartPolicy": policy}
        has_program = role["tfReplicaType"] != "PS" or draw(st.booleans())
        role.update({"template": {"spec": pod}} if has_program else {})
    spec = {"replicaSpecs": roles}
    if policy := draw(st.sampled_from(["", "All", "Running", "None"])):
        spec["cleanupPodPolicy"] = policy
    if len(roles) > 1 and draw(st.booleans()):
        spec["terminationPolicy"] = {"chief": {"replicaName": roles[1]["tfReplicaType"], "replicaIndex": 0}}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "job"}, "spec": spec}


@st.composite
def training_jobs(draw):
    """Any small job of T9k."""
    types = [t9k.replicas("worker", draw(st.integers(1, 3)), draw(POLICIES))]
    types += [t9k.replicas(name, 1, draw(POLICIES)) for name in ("chief", "ps") if draw(st.booleans())]
    policy = {"backoffLimit": draw(LIMITS), "activeDeadlineSeconds": draw(st.sampled_from([None, None, 5, 3000]))}
    policy |= {"cleanUpPolicy": draw(st.sampled_from(["None", "All", "Unfinished"]))}
    fields = {name: value for name, value in policy.items() if value is not None}
    mode = {"pause": {"enabled": draw(st.booleans()), "resumeSpecs": [{"type": "worker", "command": ["sshd"]}]}}
    return t9k.job("job", *types, runPolicy=fields, runMode=mode)


class Listed(PodHistories):
    """One job whose replicas are listed."""

    def check_status(self, status):
        entries = {entry["tf_replica_type"]: entry for entry in status["replicaStatuses"]}
        expected = {spec.type.upper(): spec.count for spec in self.simulator.job.replicas if spec.count}
        assert {name: sum(entry["ReplicasStates"].values()) for name, entry in entries.items()} == expected
        assert status["state"] in {"Running", "Succeeded", "Failed"}
        if status["phase"] == "Done":
            assert self.simulator.record.is_finished


class Training(PodHistories):
    """One job of T9k."""

    def suspension(self, *, is_suspended):
        return {"spec": {"runMode": {"pause": {"enabled": is_suspended}}}}

    def check_status(self, status):
        counts = Counter(entry["phase"].lower() for task in status["tasks"] for entry in task["replicas"])
        assert {name: count for name, count in status["aggregate"].items() if count} == counts
        assert counts.total() == sum(spec.count for spec in self.simulator.job.replicas)
        assert status["backoffCount"] == sum(task.get("restartCount", 0) for task in status["tasks"])
        limit = self.simulator.job.run_policy.backoff_limit
        assert limit is None or status["backoffCount"] <= limit


def machine(base, job, version):
    """The histories of the jobs of one kind."""

    class Histories(base):
        @initialize(body=job)
        def create(self, body):
            self.simulator = Simulator(body, api=registry.api_of(body))
            self.happens()

        @invariant()
        def the_status_adds_up(self):
            api, stored = self.simulator.api, self.simulator.body
            if not self.simulator.is_deleted and self.simulator.records:
                self.check_status(api.conversion.convert(stored, version)["status"])

        @invariant()
        def an_end_is_final(self):
            ends = [record.phase for record in self.simulator.records if record.is_finished]
            assert len(set(ends)) <= 1
            assert not ends or self.simulator.record.phase == ends[0]

    return Histories


MACHINES = {
    "v1alpha1": machine(Listed, listed_jobs("kubeflow.org/v1alpha1", "TFJob"), "v1alpha1"),
    "mlkube": machine(Listed, listed_jobs("mlkube.io/v1beta1", "TfJob"), "v1beta1"),
    "T9k": machine(Training, training_jobs(), "v1beta1"),
}


@pytest.mark.parametrize("kind", MACHINES)
def test_whatever_happens_to_its_pods_a_job_is_left_in_order(kind):
    run_state_machine_as_test(MACHINES[kind], settings=settings(max_examples=EXAMPLES, stateful_step_count=25))
