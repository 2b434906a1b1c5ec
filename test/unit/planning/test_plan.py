"""The plan as a whole: what comes before what, when to look again, and what a large job costs."""

from datetime import timedelta

import pytest
from msgspec import structs

from support.embedded.pod_events import everything_runs, fails, is_drained, is_starting, scale_workers, succeeds
from support.embedded.simulator import MORNING, simulate
from support.jobs.builders import tfjob
from support.jobs.snapshots import snapshot_of
from tf_operator.job.record import ReplicaType
from tf_operator.meta import rfc3339
from tf_operator.planning import job_view, plan
from tf_operator.planning.actions import Create, Stage
from tf_operator.planning.bodies import children, cluster_spec
from tf_operator.planning.pods import pod_needs, pod_state
from tf_operator.planning.snapshot import MainContainer, Pod, Service, Settings


def kinds(actions):
    return [f"{type(action).__name__} {action.resource.kind}" for action in actions]


def test_deletes_come_before_the_group_and_the_group_before_pods():
    job = tfjob().chief(restart="OnFailure").workers(2, restart="OnFailure").dynamic_workers()
    simulator = simulate(job, Settings(gang_scheduler="other"))
    simulator.settle()
    everything_runs(simulator)
    simulator.settle()
    fails("chief-0")(simulator)
    scale_workers(1)(simulator)
    observed = simulator.observe()
    others = tuple(service for service in observed.services if service.name != "job-worker-0")

    actions = plan.make_plan(observed.changed(pod_group=None, services=others)).actions

    assert kinds(actions) == ["Delete Pod", "Delete Pod", "Delete Service", "Create PodGroup", "Create Service"]
    assert [action.stage for action in actions] == sorted((action.stage for action in actions), key=list(Stage).index)


@pytest.mark.parametrize("other", [6, 2], ids=["another number", "the number that was decided"])
def test_a_decision_of_the_queue_does_not_return_after_an_edit_overruled_it(other):
    simulator = simulate(tfjob().workers(4).dynamic_workers().elastic(1, 6), Settings(has_job_queue=True))
    simulator.settle()
    queue = {"admittedTime": simulator.body["metadata"]["creationTimestamp"]}
    simulator.tamper({"status": {"queue": queue, "elastic": {"workers": 2, "specWorkers": 4}}})

    sizes = []
    for edited, admitted in ((None, 2), (other, other), (4, 4)):
        if edited is not None:
            scale_workers(edited)(simulator)
            simulator.settle()
            simulator.tamper({"status": {"queue": {"admittedWorkers": admitted}}})  # the queue has room for them
        simulator.settle()
        everything_runs(simulator)
        sizes.append(len(simulator.pods))

    assert sizes == [2, other, 4]


def began_in(hours):
    """A job with a deadline of two hours, whose start was noted by a clock that was so far ahead."""
    simulator = simulate(tfjob().workers(1).deadline(7200))
    simulator.settle()
    everything_runs(simulator)
    simulator.settle()
    start = rfc3339(simulator.now + timedelta(hours=hours))
    simulator.tamper({"status": {"startTime": start}})
    return simulator


def test_a_deadline_is_not_late_because_a_clock_was_ahead():
    simulator = began_in(3)
    simulator.settle()
    simulator.wait(7205)
    simulator.settle()

    assert simulator.status["conditions"][-1]["reason"] == "TFJobDeadlineExceeded"


def test_a_clock_that_is_behind_brings_no_deadline_forward():
    simulator = began_in(0)
    simulator.now -= timedelta(hours=1)
    simulator.settle()
    simulator.now += timedelta(hours=1)
    simulator.wait(7100)
    simulator.settle()

    assert simulator.status["conditions"][-1]["type"] == "Running"


INVALID_EDITS = {
    "more than the policy allows": {"tfReplicaSpecs": {"Worker": {"replicas": 9}}},
    "a policy that allows fewer": {"elasticPolicy": {"maxReplicas": 1}},
    "a policy that allows no number": {"elasticPolicy": {"minReplicas": 5}},
    "times that are none": {"runPolicy": {"backoffLimit": -1, "activeDeadlineSeconds": -1}},
    "no image": {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"name": "tensorflow"}]}}}}},
    "a policy that is none": {"tfReplicaSpecs": {"Worker": {"restartPolicy": "Sometimes"}}},
    "two chiefs": {"tfReplicaSpecs": {"Chief": {"replicas": 2}}},
    "no replicas": {"tfReplicaSpecs": None},
}


@pytest.mark.parametrize("edit", INVALID_EDITS.values(), ids=INVALID_EDITS)
def test_an_edit_that_breaks_a_rule_takes_nothing_from_a_job_that_runs(edit):
    simulator = simulate(tfjob().chief().workers(2, restart="OnFailure").elastic(1, 4))
    simulator.settle()
    everything_runs(simulator)
    simulator.settle()
    uids, spec = {pod.uid for pod in simulator.pods.values()}, simulator.body["spec"]

    simulator.tamper({"spec": edit, "metadata": {"generation": 2}})
    simulator.settle()
    simulator.wait(600)
    simulator.settle()

    assert {pod.uid for pod in simulator.pods.values()} == uids
    assert [entry["type"] for entry in simulator.status["conditions"]] == ["Created", "Running"]
    assert "Its spec is invalid" in simulator.status["conditions"][-1]["message"]

    simulator.put(simulator.api.resource, {**simulator.body, "spec": spec})
    succeeds("chief-0")(simulator)
    simulator.settle()

    assert simulator.status["conditions"][-1]["type"] == "Succeeded"


@pytest.mark.parametrize("name", ["more than the policy allows", "times that are none", "no image"])
def test_a_job_ends_as_its_pods_do_also_when_an_edit_is_ignored(name):
    simulator = simulate(tfjob().chief().workers(2).elastic(1, 4))
    simulator.settle()
    everything_runs(simulator)
    simulator.settle()
    simulator.tamper({"spec": INVALID_EDITS[name], "metadata": {"generation": 2}})
    simulator.settle()

    succeeds("chief-0")(simulator)
    simulator.settle()

    assert simulator.status["conditions"][-1]["type"] == "Succeeded"


def test_an_edit_is_a_request_to_the_queue_for_what_it_adds_and_takes_effect_at_once_in_what_it_takes_away():
    """Back to a number that was admitted once is a request, too: its room is given back."""
    simulator = simulate(tfjob().workers(2).dynamic_workers(), Settings(has_job_queue=True))
    simulator.settle()
    simulator.tamper({"status": {"queue": {"admittedTime": simulator.body["metadata"]["creationTimestamp"]}}})
    sizes = []
    for edited in (2, 50, 1, 2, 0, 2):
        scale_workers(edited)(simulator)
        simulator.settle()
        everything_runs(simulator)
        simulator.settle()
        sizes.append(len(simulator.pods))

    assert sizes == [2, 2, 1, 1, 0, 0]


def in_queue(job):
    """A job that the queue has admitted, and that has no pods yet."""
    simulator = simulate(job, Settings(has_job_queue=True))
    simulator.settle()
    admit(simulator)
    return simulator


def admit(simulator):
    """The queue gives the job room for what it asks for."""
    digest = pod_needs.digest(simulator.job)
    queue = {"admittedTime": rfc3339(simulator.now), "admittedPodsDigest": digest}
    simulator.tamper({"status": {"queue": queue}})


@pytest.mark.parametrize(
    ("unfit", "sentence"),
    [
        ({"cause": "NoNode", "replicaType": "PS"}, "No node may run its PS pods, by their nodeSelector, node affinity"),
        (
            {"cause": "PodTooLarge", "replicaType": "Worker", "resource": "nvidia.com/gpu"},
            "No node that may run its Worker pods has as much nvidia.com/gpu as one of them requests.",
        ),
        ({"cause": "PodTooLarge", "replicaType": "Worker"}, "No node that may run its Worker pods has all that one of"),
        (
            {"cause": "TooManyPods", "replicaType": "Worker"},
            "Even if nothing else ran on them, the nodes would not have room for all its Worker pods.",
        ),
        (
            {"cause": "TooManyPods", "resource": "nvidia.com/gpu"},
            "Together its pods request more nvidia.com/gpu than all nodes have.",
        ),
    ],
    ids=lambda value: "" if isinstance(value, str) else "-".join(value.values()),
)
def test_a_job_that_can_never_fit_says_why_until_it_can(unfit, sentence):
    simulator = simulate(tfjob().workers(2), Settings(has_job_queue=True))
    simulator.settle()
    simulator.tamper({"status": {"queue": {"unfit": unfit}}})
    simulator.settle()
    assert simulator.condition("Queued")["reason"] == "CannotFit"
    assert sentence in simulator.condition("Queued")["message"]

    simulator.tamper({"status": {"queue": {"unfit": None}}})
    simulator.settle()
    assert (simulator.condition("Queued")["reason"], len(simulator.pods)) == ("NoRoom", 0)


def edited(kind, **pod):
    """An edit of what the pods of a type ask for."""
    return {"spec": {"tfReplicaSpecs": {kind: {"template": {"spec": pod}}}}}


MORE = {
    "containers": [{"name": "tensorflow", "image": "training:test", "resources": {"limits": {"nvidia.com/gpu": 8}}}]
}
LARGER = {
    "resources of a container": edited("Worker", **MORE),
    "resources of the pod": edited("Worker", resources={"requests": {"cpu": "64"}}),
    "its nodes": edited("Worker", nodeSelector={"gpu": "yes"}),
    "its priority": edited("Worker", priorityClassName="high"),
    "more evaluators": {"spec": {"tfReplicaSpecs": {"Evaluator": {"replicas": 50}}}},
    "parameter servers": edited("PS", **MORE),
}


@pytest.mark.parametrize("edit", LARGER.values(), ids=LARGER)
def test_a_job_that_asks_for_something_else_before_its_first_pod_is_queued_again(edit):
    simulator = in_queue(tfjob().workers(1).evaluators())
    simulator.tamper(edit)
    simulator.settle()
    status = simulator.body["status"]

    assert (len(simulator.pods), simulator.condition("Queued")["status"]) == (0, "True")
    assert (list(status["queue"]), "elastic" in status) == (["queuedTime"], False)

    admit(simulator)
    simulator.settle()
    assert simulator.condition("Queued")["status"] == "False"


def test_more_workers_of_a_job_without_pods_wait_for_room_whether_or_not_it_is_elastic():
    simulator = in_queue(tfjob().workers(2))
    simulator.tamper({"status": {"queue": {"admittedWorkers": 2}}})
    simulator.tamper({"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 50}}}})
    simulator.settle()

    assert len(simulator.pods) == 2


@pytest.mark.parametrize(
    ("needs_a_pod", "workers"),
    [(lambda simulator: simulator.delete("job-worker-1"), 2), (scale_workers(3), 3)],
    ids=["to replace one", "to grow"],
)
def test_what_runs_goes_on_after_an_edit_of_its_template_and_the_job_is_queued_again_when_it_needs_a_pod(
    needs_a_pod, workers
):
    simulator = in_queue(tfjob().workers(2, restart="OnFailure").dynamic_workers())
    simulator.settle()
    everything_runs(simulator)
    simulator.settle()
    simulator.edit(edited("Worker", **MORE))
    simulator.settle()
    assert (len(simulator.pods), simulator.conditions) == (2, "Created !Queued Running")

    needs_a_pod(simulator)
    simulator.settle()
    assert (len(simulator.pods), simulator.condition("Queued")["status"]) == (0, "True")

    admit(simulator)
    simulator.settle()
    assert len(simulator.pods) == workers


def test_other_images_and_arguments_need_no_room():
    simulator = in_queue(tfjob().workers(1))
    simulator.edit(edited("Worker", containers=[{"name": "tensorflow", "image": "other", "args": ["--fast"]}]))
    simulator.settle()

    assert len(simulator.pods) == 1


def test_a_job_whose_admission_is_older_than_digests_was_admitted_as_it_is_now():
    simulator = in_queue(tfjob().workers(1, restart="OnFailure"))
    simulator.tamper({"status": {"queue": {"admittedPodsDigest": None}}})
    simulator.settle()
    assert simulator.record.queue.admitted_pods == pod_needs.digest(simulator.job)

    everything_runs(simulator)
    simulator.settle()
    simulator.edit(edited("Worker", **MORE))
    simulator.delete("job-worker-0")
    simulator.settle()
    assert not simulator.pods


def test_while_an_invalid_edit_is_ignored_a_job_that_asks_for_something_else_runs_on_without_new_pods():
    simulator = in_queue(tfjob().chief().workers(2, restart="OnFailure").elastic(1, 4))
    simulator.settle()
    everything_runs(simulator)
    simulator.settle()
    simulator.tamper({"spec": INVALID_EDITS["times that are none"], "metadata": {"generation": 2}})
    simulator.tamper(edited("Worker", **MORE))
    simulator.delete("job-worker-1")
    simulator.settle()
    simulator.wait(60)
    simulator.settle()

    assert sorted(simulator.pods) == ["job-chief-0", "job-worker-0"]
    assert "Its spec is invalid" in simulator.status["conditions"][-1]["message"]


def test_what_queued_a_job_again_is_compared_for_as_long_as_it_lives():
    """Another digest of the same pods would queue every job again after an update of the operator."""
    job = simulate(tfjob().workers(2).evaluators()).job

    assert pod_needs.digest(job) == "edb43d2633ae0b55"


def test_without_the_queue_that_admitted_it_a_job_has_as_many_workers_as_its_spec_says():
    simulator = simulate(tfjob().workers(3).dynamic_workers(), Settings())
    simulator.settle()
    simulator.tamper({"status": {"queue": {"admittedWorkers": 1}}})
    simulator.settle()

    assert len(simulator.pods) == 3
    assert "queue" not in simulator.body["status"]


def test_what_is_terminating_is_not_deleted_again_when_there_is_to_be_less():
    simulator = simulate(tfjob().workers(2).dynamic_workers())
    simulator.settle()
    everything_runs(simulator)
    is_drained("worker-1")(simulator)
    scale_workers(1)(simulator)
    observed = simulator.observe()
    services = tuple(structs.replace(service, is_terminating="1" in service.name) for service in observed.services)

    assert plan.make_plan(observed.changed(services=services)).actions == ()


def test_a_service_that_is_nobodys_replica_stays():
    simulator = simulate(tfjob().workers(1))
    simulator.settle()
    observed = simulator.observe()
    services = (*observed.services, Service("job-dashboard", "u"))

    assert plan.make_plan(observed.changed(services=services)).actions == ()


def test_it_wakes_at_the_first_of_several_moments():
    simulator = simulate(tfjob().workers(2, restart="OnFailure").deadline(100).startup_deadline(50))
    simulator.settle()
    for replica in ("worker-0", "worker-1"):
        is_starting(replica)(simulator)
    assert simulator.look().requeue_after == timedelta(seconds=50)

    everything_runs(simulator)
    simulator.settle()
    assert simulator.look().requeue_after == timedelta(seconds=100)

    fails("worker-0")(simulator)
    assert simulator.look().requeue_after == timedelta(seconds=1)


def steady(count):
    """A job all of whose workers run."""
    main = MainContainer(started_at=MORNING)
    names = [f"job-worker-{index}" for index in range(count)]
    return snapshot_of(
        tfjob().workers(count),
        pods=tuple(
            Pod(name, name, ReplicaType.WORKER, index, phase="Running", main=main) for index, name in enumerate(names)
        ),
        services=tuple(Service(name, name) for name in names),
    )


def test_a_steady_job_of_a_thousand_workers_is_sorted_once_and_each_pod_judged_once(monkeypatch):
    """A guard against work that grows with the square of the workers."""
    snapshot = steady(1000)
    calls = {"view": 0, "judged": 0, "of": 0}

    def counted(name, function):
        def call(*args):
            calls[name] += 1
            return function(*args)

        return call

    monkeypatch.setattr(plan.job_view, "view", counted("view", job_view.view))
    monkeypatch.setattr(pod_state, "state_of", counted("judged", pod_state.state_of))
    monkeypatch.setattr(job_view.JobView, "of", counted("of", job_view.JobView.of))

    assert plan.make_plan(snapshot).actions == ()
    assert calls["view"] == 1
    assert calls["judged"] == 1000
    assert calls["of"] <= 10


def test_planning_a_thousand_pods_renders_no_body(monkeypatch):
    """The TF_CONFIGs alone are 45 MB: each is made when its pod is."""

    def render(*_args, **_kwargs):
        raise AssertionError("a body was made")

    monkeypatch.setattr(cluster_spec, "tf_config", render)
    monkeypatch.setattr(children.ChildBuilder, "pod", render)

    assert len(plan.make_plan(snapshot_of(tfjob().workers(1000))).actions) == 1000


def test_a_job_with_too_many_rules_about_nodes_for_the_queue_says_so():
    rules = {f"label-{number}": "x" for number in range(1001)}
    worker = {"template": {"spec": {"nodeSelector": rules}}}
    job = tfjob().workers(1).merged({"spec": {"tfReplicaSpecs": {"Worker": worker}}})
    simulator = simulate(job, Settings(has_job_queue=True))
    simulator.settle()

    assert "Its pods have 1001 rules about nodes" in simulator.status["conditions"][-1]["message"]


def test_creates_of_the_same_child_are_equal_however_its_body_is_made():
    first, second = (Create(children.PODS, "p", "pod p", lambda body=body: body, Stage.PODS) for body in ({}, {}))

    assert len({first, second}) == 1
    assert (first == second, first != second) == (True, False)
    assert first != Create(children.PODS, "other", "pod p", first.body, Stage.PODS)
    assert (first == "p", first != "p") == (False, True)
