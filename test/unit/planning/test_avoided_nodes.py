"""What pods get so that they stay away from a node, and of which nothing is remembered; test/golden has the rules."""

from datetime import timedelta
from functools import partial

import pytest
from msgspec import structs

from support.embedded.simulator import MORNING
from support.jobs.builders import tfjob
from tf_operator.dialects.kubeflow import v1
from tf_operator.job.record import JobPhase, NodeRecord, ReplicaType
from tf_operator.planning.actions import Transition
from tf_operator.planning.plan import make_plan
from tf_operator.planning.pods import avoided_nodes
from tf_operator.planning.snapshot import Host, MainContainer, Pod, Settings, Snapshot

NOT_BAD = {"key": "metadata.name", "operator": "NotIn", "values": ["bad"]}
ON_ONE = {"key": "metadata.name", "operator": "In", "values": ["one"]}
ON_TWO = {"key": "metadata.name", "operator": "In", "values": ["two"]}
GPU = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
GATE = [{"name": "kueue.x-k8s.io/topology"}]
DAY = timedelta(hours=24)


def on_nodes(terms):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def crash(index, node, code=139):
    main = MainContainer(code, "Error", started_at=MORNING, finished_at=MORNING)
    return Pod(f"j-worker-{index}", f"u{index}", ReplicaType.WORKER, index, "Failed", main=main, host=Host(node))


def job_of(builder, *nodes):
    job = v1.API.read_object({"metadata": {"name": "j", "namespace": "n", "uid": "j"}, "spec": builder.body()["spec"]})
    record = job.record.changed(start_time=MORNING, avoided_nodes=nodes)
    return structs.replace(job, record=record)


def nodes_after(snapshot):
    return make_plan(snapshot).report.record.avoided_nodes


FAILED_ONCE = partial(NodeRecord, failures=1, time=MORNING)
AVOIDING = tfjob("j").workers(1, restart="ExitCode").avoid_nodes(1)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        ({}, on_nodes([{"matchFields": [NOT_BAD]}])),
        ({"affinity": None}, on_nodes([{"matchFields": [NOT_BAD]}])),
        (on_nodes([GPU, GPU]), on_nodes([GPU | {"matchFields": [NOT_BAD]}] * 2)),
        (
            on_nodes([{"matchFields": [ON_ONE]}, GPU]),
            on_nodes([{"matchFields": [ON_ONE, NOT_BAD]}, GPU | {"matchFields": [NOT_BAD]}]),
        ),
    ],
    ids=["no affinity", "null", "each term", "a name among others"],
)
def test_a_pod_gets_a_requirement_beside_those_of_its_template(pod, expected):
    assert avoided_nodes.avoiding(pod, ["bad"]) == expected


@pytest.mark.parametrize(
    "pod",
    [
        {"nodeName": "one"},
        {"nodeSelector": {"kubernetes.io/hostname": "one"}},
        {"schedulingGates": GATE},
        on_nodes([{"matchFields": [ON_ONE]}, {"matchFields": [ON_ONE]}]),
        {"affinity": "none"},
        on_nodes("none"),
        on_nodes([{}, "none", {"matchFields": "none"}, {"matchExpressions": []}]),
    ],
)
def test_a_pod_that_is_fixed_or_malformed_stays_as_it_is(pod):
    assert avoided_nodes.avoiding(pod, ["bad"]) == pod


def test_two_nodes_that_a_template_names_are_a_choice():
    pod = on_nodes([{"matchFields": [ON_ONE]}, {"matchFields": [ON_TWO]}])

    assert not avoided_nodes.fixed_by(pod)
    assert avoided_nodes.avoiding(pod, ["bad"]) != pod


def test_of_a_job_of_which_some_pods_have_a_choice_of_nodes_they_are_remembered():
    fixed = {"tfReplicaSpecs": {"PS": {"template": {"spec": {"nodeName": "one"}}}}}
    job = job_of(AVOIDING.parameter_servers(1).merged({"spec": fixed}))

    assert [entry.node for entry in nodes_after(Snapshot(job, MORNING, pods=(crash(0, "bad"),)))] == ["bad"]


def test_of_a_job_without_any_choice_of_nodes_nothing_is_remembered():
    fixed = {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"nodeName": "one"}}}}}
    job = job_of(AVOIDING.merged({"spec": fixed}))
    snapshot = Snapshot(job, MORNING, pods=(crash(0, "one"),))

    assert nodes_after(snapshot) == ()
    assert avoided_nodes.without_effect(job, Settings()) == "Worker: the template names the node"


def test_at_most_sixteen_nodes_are_remembered_and_the_oldest_goes():
    nodes = [NodeRecord(f"node-{number}", time=MORNING) for number in range(16)]
    snapshot = Snapshot(job_of(AVOIDING, *nodes), MORNING, pods=(crash(0, "bad"),))

    after = nodes_after(snapshot)

    assert len(after) == 16
    assert [entry.node for entry in after][::15] == ["node-1", "bad"]


@pytest.mark.parametrize(
    ("restart", "code", "causes"),
    [
        ("ExitCode", 128, ["worker-0 exit 128"]),
        ("OnFailure", 127, []),
        ("OnFailure", None, []),
        ("Never", 139, []),
    ],
    ids=["by a signal", "the program's own fault", "without a code", "final"],
)
def test_only_a_failure_that_may_be_the_node_s_is_blamed_on_it(restart, code, causes):
    job = job_of(tfjob("j").workers(1, restart=restart).avoid_nodes(1))

    after = nodes_after(Snapshot(job, MORNING, pods=(crash(0, "bad", code),)))

    assert [cause for entry in after for cause in entry.causes] == causes


def test_a_node_that_fails_again_before_it_is_avoided_is_the_newest():
    job = job_of(tfjob("j").workers(1, restart="ExitCode").avoid_nodes(3), *map(FAILED_ONCE, ("bad", "other")))

    after = nodes_after(Snapshot(job, MORNING + timedelta(seconds=60.5), pods=(crash(0, "bad"),)))

    assert [(entry.node, entry.time) for entry in after] == [
        ("other", MORNING),
        ("bad", MORNING + timedelta(minutes=1)),
    ]


def test_failures_on_a_node_that_is_avoided_count_and_do_not_prolong_it():
    earlier = NodeRecord("bad", 2, MORNING, is_avoided=True, causes=("a", "b", "c"))
    snapshot = Snapshot(job_of(AVOIDING, earlier), MORNING + timedelta(hours=1), pods=(crash(0, "bad", 134),))

    [entry] = nodes_after(snapshot)

    assert entry == NodeRecord("bad", 3, MORNING, is_avoided=True, causes=("b", "c", "worker-0 exit 134"))


@pytest.mark.parametrize("moment", [MORNING - DAY, MORNING + DAY, None], ids=["long ago", "ahead", "never"])
def test_a_node_is_forgotten_a_day_later_whichever_clock_was_wrong(moment):
    entry = NodeRecord("bad", 2, moment, is_avoided=True)

    assert nodes_after(Snapshot(job_of(AVOIDING, entry), MORNING)) == ()


@pytest.mark.parametrize(
    ("phase", "has_queue", "is_remembered"),
    [(JobPhase.RUNNING, True, True), (JobPhase.QUEUED, True, False), (JobPhase.SUSPENDED, False, True)],
)
def test_a_job_forgets_nodes_only_when_it_waits_for_its_turn_in_the_job_queue(phase, has_queue, is_remembered):
    entry = NodeRecord("bad", 2, MORNING, is_avoided=True)
    snapshot = Snapshot(job_of(AVOIDING, entry), MORNING, settings=Settings(has_job_queue=has_queue))

    assert avoided_nodes.next_records(snapshot, (), (), phase) == (entry,) * is_remembered


def test_a_lower_limit_makes_remembered_nodes_avoided_and_counts_them():
    entry = NodeRecord("bad", 1, MORNING)

    plan = make_plan(Snapshot(job_of(AVOIDING, entry), MORNING))

    assert plan.report.record.avoided_nodes == (structs.replace(entry, is_avoided=True),)
    assert Transition.NODE_AVOIDED in {count.transition for count in plan.counts}
