"""Whole lives of jobs, from the first reconcile to the last: what people and kubelets do, and what is seen then.

Golden cases specify single plans; these lives are about the order of events. A row has what happens, what the status
then shows (the phase and the state, or the conditions in their order, where ``!`` is False and the last one is the
current state) and the pods (``worker-0#2`` is the second pod of worker 0). Every life is lived once undisturbed, and
again with the operator killed right after a write, after each one with CRASHES=all: nobody can tell the difference. In
all of them the simulator refuses a second live pod of a replica, and a pod name that was used before where names are
generated.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from msgspec import structs

from support.disturbances.crashes import crash_points
from support.embedded.pod_events import (
    edited,
    everything_runs,
    fails,
    is_deleted,
    is_deleted_unseen,
    is_drained,
    is_evicted,
    refused_next,
    restarts_in_place,
    resume,
    runs,
    scale_workers,
    stops_politely,
    succeeds,
    suspend,
    the_gang_is_admitted,
    time_passes,
)
from support.embedded.simulator import Simulator
from support.jobs import t9k
from support.jobs.builders import tfjob
from support.jobs.older_versions import TEMPLATE
from support.jobs.t9k import documented, over, replicas
from support.resources import Json
from tf_operator.dialects import registry
from tf_operator.planning.actions import Create, Delete, DeleteCollection, Patch
from tf_operator.planning.plan import make_plan
from tf_operator.planning.snapshot import DEFAULT_SETTINGS, Settings

VOLCANO = Settings(gang_scheduler="volcano")
EXAMPLES = Path(__file__).resolve().parents[2] / "manifests/examples"
ALL = "master-0#1:{0} ps-0#1:{0} ps-1#1:{0} worker-0#1:{0}".format
PAIR = "master-0#1:{} worker-0#1:{}".format
FOUR = "worker-0#1:{} worker-1#{} worker-2#{} worker-3#1:{}".format


def example(file: str, **spec: object) -> Json:
    body = yaml.safe_load((EXAMPLES / file).read_text())
    return body | {"spec": body["spec"] | spec}


def of_template(policy: str) -> Json:
    """A master and a worker of v1alpha1 whose templates have this restart policy."""
    template = {"spec": TEMPLATE["spec"] | {"restartPolicy": policy}}
    roles = [{"tfReplicaType": kind, "template": template} for kind in ("MASTER", "WORKER")]
    return example("kubeflow-v1alpha1/tf_job.yaml", replicaSpecs=roles)


def paused(*, enabled: bool):
    return edited({"spec": {"runMode": {"pause": {"enabled": enabled}}}})


def asks_for(mode, **policy):
    """An edit of the service mode."""
    return edited({"spec": {"serviceMode": mode, "runPolicy": policy}})


def changes_its_mind(simulator):
    """Two edits that the operator sees at once."""
    asks_for("Job", suspend=True)(simulator)
    resume(simulator)


def both(policy):
    """A job of a chief and a worker."""
    return tfjob("job").chief(restart=policy).workers(1, restart=policy)


@dataclass(frozen=True)
class Life:
    """A job and its table."""

    title: str
    job: Json
    rows: tuple
    restarts: int = 0
    disruptions: int = 0
    reason: str = ""
    settings: Settings = DEFAULT_SETTINGS

    def lived(self, *, crash_after=None):
        """The simulator at the end. What each row expects is compared only in an undisturbed life."""
        simulator = self.begun()
        simulator.crash_after = crash_after
        return self.live(simulator)

    def requests(self):
        """What the operator sends, and when."""
        simulator, requests = self.begun(), []

        async def note(call):
            requests.append((simulator.clock.monotonic(), call))

        simulator.on_way = note
        self.live(simulator)
        return requests

    def begun(self):
        return Simulator(self.job, self.settings, registry.api_of(self.job))

    def live(self, simulator):
        is_undisturbed = simulator.crash_after is None
        simulator.settle()
        for moves, expected, pods in self.rows:
            for move in moves:
                move(simulator)
                simulator.settle()
            if is_undisturbed:
                assert (self.summary(simulator), simulator.shown_pods) == (expected, pods)
        return simulator

    def summary(self, simulator):
        """What the status says, in the version of the job."""
        status = simulator.api.conversion.convert(simulator.body, self.job["apiVersion"].rpartition("/")[2])["status"]
        return " ".join(status[name] for name in ("phase", "state") if name in status) or simulator.conditions


LIVES = [
    Life(
        "a job with a chief runs, the chief succeeds, and what else ran counts as succeeded",
        tfjob("job").chief().workers(2).parameter_servers(1).clean_pods("Running").body(),
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
        tfjob("job").workers(1, restart="ExitCode").backoff_limit(2).body(),
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
        both("OnFailure").backoff_limit(0).body(),
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
        both("OnFailure").deadline(100).body(),
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
        "one Service for the job: suspended and resumed with one for each replica, and back",
        both("OnFailure").service_mode("Job").clean_pods("All").body(),
        (
            ((everything_runs, fails("worker-0"), time_passes(2), everything_runs), "Created Running",
             "chief-0#1:Running worker-0#2:Running"),
            ((asks_for("Replica", suspend=True),), "Created !Running Suspended", ""),
            ((resume, everything_runs), "Created !Suspended Running", "chief-0#2:Running worker-0#3:Running"),
            ((asks_for("Job", suspend=True), resume, everything_runs), "Created !Suspended Running",
             "chief-0#3:Running worker-0#4:Running"),
            ((succeeds("chief-0"),), "Created !Suspended !Running Succeeded", ""),
        ),
        restarts=1,
    ),
    Life(
        "a job whose mode changed before anybody saw it suspended keeps the Services of its pods",
        both("OnFailure").body(),
        (
            ((everything_runs, changes_its_mind), "Created Running", "chief-0#1:Running worker-0#1:Running"),
            ((fails("worker-0"), time_passes(2), everything_runs), "Created Running",
             "chief-0#1:Running worker-0#2:Running"),
            ((suspend, resume, everything_runs), "Created !Suspended Running", "chief-0#2:Running worker-0#3:Running"),
        ),
        restarts=1,
    ),
    Life(
        "dynamic workers come and go, and one that fails is made again only when somebody deletes its pod",
        tfjob("job").chief().workers(3).dynamic_workers().body(),
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
        tfjob("job").workers(2).deadline(60).clean_pods("All").body(),
        (
            ((time_passes(3600),), "Created", ""),
            ((the_gang_is_admitted, everything_runs), "Created Running", "worker-0#1:Running worker-1#1:Running"),
            ((time_passes(59),), "Created Running", "worker-0#1:Running worker-1#1:Running"),
            ((time_passes(1),), "Created !Running Failed", ""),
        ),
        reason="TFJobDeadlineExceeded",
        settings=VOLCANO,
    ),
    Life(
        "v1alpha1: workers and parameter servers run again, and the master's success ends and cleans up the job",
        example("kubeflow-v1alpha1/tf_job.yaml"),
        (
            ((), "Creating Running", ALL("Pending")),
            ((everything_runs, restarts_in_place("worker-0")), "Running Running", ALL("Running")),
            ((fails("worker-0", 137),), "Running Running", ALL("Running").replace(" worker-0#1:Running", "")),
            ((time_passes(2), everything_runs, is_deleted("ps-1"), time_passes(2), everything_runs), "Running Running",
             "master-0#1:Running ps-0#1:Running ps-1#2:Running worker-0#2:Running"),
            ((succeeds("worker-0"), time_passes(60)), "Running Running",
             "master-0#1:Running ps-0#1:Running ps-1#2:Running worker-0#2:Succeeded"),
            ((succeeds("master-0"),), "Done Succeeded", "master-0#1:Succeeded worker-0#2:Succeeded"),
        ),
        restarts=2,
        disruptions=1,
    ),
    Life(
        "v1alpha1, Never: a master with a retryable code gets a pod of another name, until a code is permanent",
        of_template("Never"),
        (
            ((everything_runs, fails("master-0", 143), time_passes(2)), "Running Running",
             "master-0#2:Pending worker-0#1:Running"),
            ((everything_runs, fails("worker-0", 1), time_passes(2), everything_runs), "Running Running",
             "master-0#2:Running worker-0#2:Running"),
            ((is_evicted("master-0"), time_passes(3), everything_runs), "Running Running",
             "master-0#3:Running worker-0#2:Running"),
            ((fails("master-0", 1),), "Done Failed", "master-0#3:Failed"),
        ),
        restarts=2,
        disruptions=1,
    ),
    Life(
        "v1alpha1: a master that the kubelet has restarted after a permanent code is stopped, and its log stays",
        of_template("OnFailure"),
        (
            ((everything_runs, restarts_in_place("master-0")), "Done Failed", "master-0#1:Failed"),
            ((time_passes(86400),), "Done Failed", "master-0#1:Failed"),
        ),
        restarts=1,
    ),
    Life(
        "mlkube: after the end every pod is there, and none runs",
        example("mlkube/tf_job.yaml"),
        (
            ((everything_runs,), "Running Running", PAIR("Running", "Running")),
            ((succeeds("master-0"),), "Done Succeeded", PAIR("Succeeded", "Failed")),
            ((time_passes(86400),), "Done Succeeded", PAIR("Succeeded", "Failed")),
        ),
    ),
    Life(
        "mlkube: a worker that fails or is deleted runs again, and a master with a permanent code ends the job",
        example("mlkube/tf_job_camel_case.yaml"),
        (
            ((everything_runs, fails("worker-0"), time_passes(2), everything_runs), "Running Running",
             "master-0#1:Running worker-0#2:Running"),
            ((is_deleted("worker-0"), time_passes(4)), "Running Running", "master-0#1:Running worker-0#3:Pending"),
            ((fails("master-0"),), "Done Failed", "master-0#1:Failed"),
        ),
        restarts=1,
        disruptions=1,
    ),
    Life(
        "T9k: two restarts for all workers together, and what fails after that stays",
        t9k.job("t", replicas("worker", 4), runPolicy={"backoffLimit": 2}),
        (
            ((everything_runs, fails("worker-1"), time_passes(2), everything_runs), "Running",
             FOUR("Running", "2:Running", "1:Running", "Running")),
            ((fails("worker-2"), time_passes(2), everything_runs), "Running",
             FOUR("Running", "2:Running", "2:Running", "Running")),
            ((fails("worker-3"), time_passes(600)), "Running", FOUR("Running", "2:Running", "2:Running", "Failed")),
            ((fails("worker-0"),), "Failed", FOUR("Failed", "2:Running", "2:Running", "Failed")),
        ),
        restarts=2,
    ),
    Life(
        "T9k, ExitCode: disruptions cost nothing, a permanent code stops one worker, and Unfinished cleans up",
        t9k.job("t", replicas("worker", 3, "ExitCode"), runPolicy={"backoffLimit": 1, "cleanUpPolicy": "Unfinished"}),
        (
            ((everything_runs, is_evicted("worker-0"), time_passes(2), everything_runs), "Running",
             "worker-0#2:Running worker-1#1:Running worker-2#1:Running"),
            ((fails("worker-1", 138), time_passes(2), everything_runs, fails("worker-1", 1)), "Running",
             "worker-0#2:Running worker-1#2:Failed worker-2#1:Running"),
            ((succeeds("worker-0"),), "Succeeded", "worker-0#2:Succeeded worker-1#2:Failed"),
        ),
        restarts=1,
        disruptions=1,
    ),
    Life(
        "elastic, with a parameter server: more workers replace all pods, fewer leave the others",
        tfjob("job").workers(1, restart="Never").parameter_servers(1, restart="Never").elastic(1, 3).body(),
        (
            ((everything_runs,), "Created Running", "ps-0#1:Running worker-0#1:Running"),
            ((scale_workers(3),), "Created Restarting",
             "ps-0#2:Pending worker-0#2:Pending worker-1#1:Pending worker-2#1:Pending"),
            ((everything_runs, scale_workers(2)), "Created Running",
             "ps-0#2:Running worker-0#2:Running worker-1#1:Running"),
            ((scale_workers(3), everything_runs), "Created Running",
             "ps-0#3:Running worker-0#3:Running worker-1#2:Running worker-2#2:Running"),
            ((succeeds("worker-0"),), "Created !Running Succeeded",
             "ps-0#3:Running worker-0#3:Succeeded worker-1#2:Running worker-2#2:Running"),
        ),
    ),
    Life(
        "elastic, in step: also fewer workers replace all, and a failure before counts as it would have",
        tfjob("job").workers(3, restart="ExitCode").backoff_limit(1).elastic(1, 3).body(),
        (
            ((everything_runs, fails("worker-1", 137), time_passes(2), everything_runs), "Created Running",
             "worker-0#1:Running worker-1#2:Running worker-2#1:Running"),
            ((scale_workers(2),), "Created Restarting", "worker-0#2:Pending worker-1#3:Pending"),
            ((everything_runs, suspend, scale_workers(3), resume, everything_runs), "Created !Suspended Running",
             "worker-0#3:Running worker-1#4:Running worker-2#2:Running"),
        ),
        restarts=1,
    ),
    Life(
        "T9k, Always: one more run after a success, as long as the limit allows",
        t9k.job("t", replicas("worker", 2, "Always"), runPolicy={"backoffLimit": 1, "cleanUpPolicy": "All"}),
        (
            ((everything_runs, succeeds("worker-1"), time_passes(2), everything_runs), "Running",
             "worker-0#1:Running worker-1#2:Running"),
            ((succeeds("worker-1"), time_passes(60)), "Running", "worker-0#1:Running worker-1#2:Succeeded"),
            ((succeeds("worker-0"),), "Succeeded", ""),
        ),
        restarts=1,
    ),
    Life(
        "T9k: paused from the start, resumed, and paused again while a replica is restarted",
        over(t9k.job("t", replicas("worker", 2), runPolicy={"backoffLimit": 1}), documented("fragments/pause")),
        (
            ((), "Paused", ""),
            ((paused(enabled=False),), "Resuming", "worker-0#1:Pending worker-1#1:Pending"),
            ((everything_runs,), "Running", "worker-0#1:Running worker-1#1:Running"),
            ((fails("worker-1"), paused(enabled=True), time_passes(600)), "Paused", ""),
            ((paused(enabled=False), everything_runs), "Running", "worker-0#2:Running worker-1#2:Running"),
            ((succeeds("worker-0"),), "Succeeded", "worker-0#2:Succeeded worker-1#2:Running"),
        ),
        restarts=1,
    ),
    Life(
        "T9k: debugged pods run until the debug mode is left, which a pause does",
        over(t9k.job("t", replicas("ps"), replicas("worker")), documented("fragments/debug")),
        (
            ((everything_runs, fails("ps-0", 137), time_passes(2), everything_runs), "Running",
             "ps-0#2:Running worker-0#1:Running"),
            ((paused(enabled=True), edited({"spec": {"runMode": {"debug": None}}})), "Paused", ""),
            ((paused(enabled=False), everything_runs, time_passes(3600)), "Running",
             "ps-0#3:Running worker-0#2:Running"),
            ((succeeds("worker-0"),), "Succeeded", "ps-0#3:Running worker-0#2:Succeeded"),
        ),
        restarts=1,
    ),
    Life(
        "as a whole: who is lost first counts, all get new pods, and the limit is one of attempts",
        both("ExitCode").parameter_servers(1, restart="ExitCode").backoff_limit(1).restarts_as_a_whole().body(),
        (
            ((everything_runs, fails("worker-0", 137), fails("chief-0")), "Created Restarting", ""),
            ((time_passes(1),), "Created Restarting", "chief-0#2:Pending ps-0#2:Pending worker-0#2:Pending"),
            ((everything_runs, stops_politely, is_drained("ps-0"), time_passes(2)), "Created Restarting",
             "chief-0#3:Pending ps-0#3:Pending worker-0#3:Pending"),
            ((everything_runs, fails("ps-0", 137)), "Created !Running Failed",
             "chief-0#3:Running ps-0#3:Failed worker-0#3:Running"),
        ),
        restarts=1,
        disruptions=1,
        reason="TFJobBackoffLimitExceeded",
    ),
    Life(
        "as a whole: a suspension wins over a restart, and what has completed does not run again",
        tfjob("job").workers(3, restart="OnFailure").backoff_limit(1).success_policy().restarts_as_a_whole().body(),
        (
            ((everything_runs, succeeds("worker-2"), fails("worker-1"), suspend, time_passes(600)),
             "Created !Running Suspended", ""),
            ((resume, everything_runs), "Created !Suspended Running", "worker-0#2:Running worker-1#2:Running"),
            ((fails("worker-0"),), "Created !Suspended !Running Failed", "worker-0#2:Failed worker-1#2:Running"),
        ),
        restarts=1,
        reason="TFJobBackoffLimitExceeded",
    ),
    Life(
        "as a whole, in a gang: the group stays, and all pods come back together",
        tfjob("job").workers(2, restart="ExitCode").restarts_as_a_whole().body(),
        (
            ((the_gang_is_admitted, everything_runs, fails("worker-0", 137)), "Created Restarting", ""),
            ((time_passes(1),), "Created Restarting", "worker-0#2:Pending worker-1#2:Pending"),
            ((everything_runs,), "Created Running", "worker-0#2:Running worker-1#2:Running"),
        ),
        restarts=1,
        settings=VOLCANO,
    ),
    Life(
        "as a whole, elastic: a resize of a job that starts again makes each pod once",
        tfjob("job").workers(2, restart="ExitCode").elastic(1, 3).restarts_as_a_whole().body(),
        (
            ((everything_runs, fails("worker-0", 137), scale_workers(3)), "Created Restarting", ""),
            ((time_passes(1), everything_runs), "Created Running",
             "worker-0#2:Running worker-1#2:Running worker-2#1:Running"),
            ((fails("worker-2", 137), scale_workers(1), time_passes(2), everything_runs), "Created Running",
             "worker-0#3:Running"),
        ),
        restarts=2,
    ),
]  # fmt: skip


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.title)
def test_a_job_lives_as_its_table_says(life):
    simulator = life.lived()

    assert (simulator.record.restarts, simulator.record.disruptions) == (life.restarts, life.disruptions)
    assert life.reason in {"", *(entry["reason"] for entry in simulator.status.get("conditions") or ())}


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.title)
def test_a_crash_after_any_write_changes_nothing_in_the_end_and_exceeds_no_limit(life):
    undisturbed = life.lived()

    for write in crash_points(undisturbed.writes, life.title):
        simulator = life.lived(crash_after=write)
        assert simulator.summary == undisturbed.summary, f"killed after write {write}"
        limit = simulator.job.run_policy.backoff_limit
        assert limit is None or max((record.restarts for record in simulator.records), default=0) <= limit


SENTENCE = "x"
BOARD = {"image": "board:test", "trainingLogFilesets": ["t9k://pvc/logs/t"]}
METRICS = [
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 7}}}
]
TRAINS = "Created Running"
REFUSALS = [
    Life(
        "a TensorBoard is refused as it is made, changed and deleted",
        t9k.job("t", replicas("worker")),
        (
            ((refused_next("create tensorboards", 403, 403), edited({"spec": {"tensorboardSpec": BOARD}})), "Pending",
             "worker-0#1:Pending"),
            ((time_passes(5), refused_next("patch tensorboards", 422)), "Pending", "worker-0#1:Pending"),
            ((edited({"spec": {"tensorboardSpec": {"image": "other"}}}), time_passes(90)), "Pending",
             "worker-0#1:Pending"),
            ((edited({"spec": {"tensorboardSpec": {"suspend": True}}}), time_passes(90)), "Pending",
             "worker-0#1:Pending"),
            ((refused_next("delete tensorboards", 403, 403), edited({"spec": {"tensorboardSpec": None}})), "Pending",
             "worker-0#1:Pending"),
            ((time_passes(5),), "Pending", "worker-0#1:Pending"),
        ),
    ),
    Life(
        "a HorizontalPodAutoscaler is refused as it is made, changed and deleted",
        tfjob("job").workers(1).elastic(1, 3).dynamic_workers().body(),
        (
            ((refused_next("create horizontalpodautoscalers", 409, 403), everything_runs,
              edited({"spec": {"elasticPolicy": {"metrics": METRICS}}}), time_passes(5)), TRAINS, "worker-0#1:Running"),
            ((refused_next("patch horizontalpodautoscalers", 403),
              edited({"spec": {"elasticPolicy": {"maxReplicas": 4}}}), time_passes(5)), TRAINS, "worker-0#1:Running"),
            ((refused_next("delete horizontalpodautoscalers", 403, 403), suspend, time_passes(5)),
             "Created !Running Suspended", ""),
        ),
    ),
    Life(
        "a NetworkPolicy is refused before the first pod, and as it is taken away and asked for again",
        tfjob("job").workers(2, restart="ExitCode").network_policy("Job").body(),
        (
            ((everything_runs, succeeds("worker-1")), TRAINS, "worker-0#1:Running worker-1#1:Succeeded"),
            ((refused_next("delete networkpolicies", 403, 403), edited({"spec": {"networkPolicy": None}}),
              time_passes(5)), TRAINS, "worker-0#1:Running worker-1#1:Succeeded"),
            ((refused_next("create networkpolicies", 409, 403), edited({"spec": {"networkPolicy": "Job"}}),
              fails("worker-0", 143), time_passes(60), everything_runs), "Created Running",
             "worker-0#2:Running worker-1#1:Succeeded"),
            ((suspend,), "Created !Running Suspended", ""),
        ),
        restarts=1,
    ),
    Life(
        "pods are refused for a while, and then for good",
        tfjob("job").workers(2).dynamic_workers().body(),
        (
            ((everything_runs, refused_next("create pods", 403, 403), scale_workers(3)), TRAINS,
             "worker-0#1:Running worker-1#1:Running"),
            ((time_passes(5), everything_runs), TRAINS, "worker-0#1:Running worker-1#1:Running worker-2#1:Running"),
            ((refused_next("create services", 403), refused_next("create pods", 422), scale_workers(5), time_passes(5)),
             "Created !Running Failed", "worker-0#1:Running worker-1#1:Running worker-2#1:Running"),
        ),
        reason="TFJobInvalidSpec",
    ),
    Life(
        "the change of a PodGroup is refused, and holds up no pod",
        tfjob("job").workers(1).dynamic_workers().body(),
        (
            ((the_gang_is_admitted, everything_runs), TRAINS, "worker-0#1:Running"),
            ((refused_next("patch podgroups", 403, 422), scale_workers(2), time_passes(5), everything_runs), TRAINS,
             "worker-0#1:Running worker-1#1:Running"),
        ),
        settings=VOLCANO,
    ),
]  # fmt: skip


@pytest.mark.parametrize("life", [*LIVES, *REFUSALS], ids=lambda life: life.title)
def test_no_request_and_no_moment_of_one_depends_on_what_an_action_is_called(life, monkeypatch):
    requests = life.requests()
    monkeypatch.setattr("tf_operator.controller.reconciler.make_plan", lambda snapshot: renamed(make_plan(snapshot)))

    assert life.requests() == requests


def renamed(plan):
    """The same plan, where each action is called and explained by the same sentence."""
    return structs.replace(plan, actions=tuple(map(_renamed, plan.actions)))


def _renamed(action):
    match action:
        case Create():
            return structs.replace(action, subject=SENTENCE, needs=action.needs and _renamed(action.needs))
        case Patch():
            return structs.replace(action, subject=SENTENCE)
        case Delete():
            return structs.replace(action, reason=SENTENCE)
        case DeleteCollection():
            return structs.replace(action, objects=tuple(map(_renamed, action.objects)))
