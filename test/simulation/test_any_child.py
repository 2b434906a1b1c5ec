"""A kind of child that this tree does not have, through planning, controller and embedded API server.

One module and one line are all that it adds to the operator: what it lives through, every kind of child does.
"""

import pytest

from support.embedded.embedded_api import refused
from support.embedded.pod_events import everything_runs, fails, resume, succeeds, suspend
from support.embedded.simulator import NAMESPACE, simulate
from support.jobs.builders import tfjob
from support.toys import toy_child
from tf_operator.job.profile import OPERATOR_LABEL
from tf_operator.machinery.transport import requests
from tf_operator.meta import GroupVersionResource, ObjectKey
from tf_operator.planning.child_kinds import kinds, network_policy

CRDS = GroupVersionResource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", is_namespaced=False
)
KEY = ObjectKey(NAMESPACE, "job")
RUNS = "TFJob team/job is running."


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(kinds, "ALL", toy_child.WITH_REMINDERS)
    world = simulate(tfjob("job").workers(1).ttl(600))
    world.send(requests.create(CRDS, "", toy_child.crd()))
    return world


def keep(seconds):
    return {"spec": {"runPolicy": {"ttlSecondsAfterFinished": seconds}}}


def writes_in(world, seconds):
    """What the operator writes of Reminders in so many seconds."""
    world.calls.clear()
    world.sleep(seconds)
    return [call.partition(" ")[0] for call in world.calls if str(toy_child.RESOURCE) in call]


def reminder(world):
    return world.find(toy_child.RESOURCE, KEY)


def test_it_is_created_follows_edits_and_is_deleted_with_what_asks_for_it(world):
    world.settle()
    metadata, spec = reminder(world)["metadata"], reminder(world)["spec"]
    assert (spec, metadata["ownerReferences"][0]["uid"]) == ({"of": "job", "seconds": 600}, world.job.uid)
    assert metadata["labels"][OPERATOR_LABEL] == "tfjob-controller"

    world.send(requests.merge_patch(toy_child.RESOURCE, KEY, {"spec": {"theirs": 1}}))
    world.edit(keep(700))
    world.settle()
    assert reminder(world)["spec"] == {"of": "job", "seconds": 700, "theirs": 1}
    assert writes_in(world, 600) == []

    world.edit(keep(None))
    world.settle()
    assert reminder(world) is None


@pytest.mark.parametrize("ends", [suspend, succeeds("worker-0")], ids=["is suspended", "ends"])
def test_it_goes_when_the_job(world, ends):
    world.settle()
    assert reminder(world)
    everything_runs(world)
    world.settle()
    ends(world)
    world.settle()
    assert reminder(world) is None

    resume(world)
    world.settle()
    assert bool(reminder(world)) is not world.record.is_finished


def test_a_refusal_is_in_the_condition_and_tried_again_and_what_is_invalid_after_an_edit(world):
    world.fail("create reminders", *(refused(403, "Forbidden", "not so") for _ in range(3)))
    world.settle()
    everything_runs(world)
    assert writes_in(world, 0) == []
    assert message(world) == f"{RUNS} There is no Reminder: not so"
    assert writes_in(world, 8) == ["create", "create", "create"]
    assert message(world) == RUNS

    world.edit(keep(7200))
    world.settle()
    assert " The Reminder is outdated: " in message(world)
    assert "spec.seconds" in message(world)
    assert writes_in(world, 600) == []
    world.edit(keep(3600))
    world.settle()
    assert (reminder(world)["spec"]["seconds"], message(world)) == (3600, RUNS)

    world.fail("delete reminders", *(refused(403, "Forbidden", "not so") for _ in range(2)))
    world.edit(keep(None))
    assert writes_in(world, 0) == ["delete"]
    assert writes_in(world, 4) == ["delete", "delete"]
    assert reminder(world) is None


def test_where_it_is_not_served_the_job_trains_and_says_so_until_it_is(world):
    informer = world.operator.caches.extras[toy_child.KIND]
    informer.is_absent = True
    world.settle()
    everything_runs(world)
    world.settle()
    assert message(world).startswith(f"{RUNS} There is no Reminder: reminders.toys.example.org cannot be read")
    assert world.settle() == 60

    informer.is_absent = False
    assert writes_in(world, 60) == ["create"]
    assert message(world) == RUNS


def message(world):
    return world.status["conditions"][-1]["message"]


# --- One that is needed: a NetworkPolicy -----------------------------------------------------------------------------

READ = "networkpolicies.networking.k8s.io cannot be read; is it installed, and may it be listed?"


@pytest.fixture
def isolated():
    return simulate(tfjob("job").workers(1, restart="ExitCode").network_policy("Job"))


def warnings(isolated):
    return [message for _, reason, message in isolated.operator.recorder.events if reason == "FailedCreatePod"]


def test_it_waits_and_says_so_once_until_networkpolicies_can_be_read(isolated):
    informer = isolated.operator.caches.extras[network_policy.KIND]
    informer.is_absent = True
    isolated.settle()
    isolated.sleep(600)
    assert sorted(isolated.pods) == []
    assert warnings(isolated) == [f"its NetworkPolicy was rejected: {READ}; no pod is created without it"]
    assert READ in isolated.status["conditions"][-1]["message"]
    assert not [call for call in isolated.calls if str(network_policy.KIND.resource) in call]

    informer.is_absent = False
    isolated.sleep(60)
    assert sorted(isolated.pods) == ["job-worker-0"]
    assert READ not in isolated.status["conditions"][-1]["message"]


def test_a_replica_that_is_lost_while_they_cannot_be_read_waits_and_the_others_run_on(isolated):
    isolated.settle()
    everything_runs(isolated)
    isolated.settle()
    isolated.operator.caches.extras[network_policy.KIND].is_absent = True
    fails("worker-0", 137)(isolated)
    isolated.sleep(600)
    assert sorted(isolated.pods) == []
    assert not isolated.record.is_finished

    isolated.operator.caches.extras[network_policy.KIND].is_absent = False
    isolated.sleep(60)
    assert sorted(isolated.pods) == ["job-worker-0"]


def test_no_pod_is_created_before_the_policy_is_accepted(isolated):
    isolated.fail("create networkpolicies", *(refused(403, "Forbidden", "exceeded quota") for _ in range(3)))
    isolated.settle()
    assert sorted(isolated.pods) == []
    assert "its NetworkPolicy was rejected: exceeded quota" in isolated.status["conditions"][-1]["message"]
    isolated.sleep(20)
    assert sorted(isolated.pods) == ["job-worker-0"]


def test_one_that_is_out_of_sight_is_not_enough_for_a_new_pod(isolated):
    """Nobody would notice that it is deleted, and each look would try to create it."""
    isolated.settle()
    everything_runs(isolated)
    isolated.settle()
    policy = isolated.find(network_policy.KIND.resource, isolated.key)
    labels = policy["metadata"]["labels"]
    isolated.put(network_policy.KIND.resource, policy | {"metadata": policy["metadata"] | {"labels": {}}})
    fails("worker-0", 137)(isolated)
    isolated.sleep(600)
    assert sorted(isolated.pods) == []
    assert "put the label back" in isolated.status["conditions"][-1]["message"]
    assert len([call for call in isolated.calls if call.startswith("create networkpolicies")]) < 20

    policy = isolated.find(network_policy.KIND.resource, isolated.key)
    isolated.put(network_policy.KIND.resource, policy | {"metadata": policy["metadata"] | {"labels": labels}})
    isolated.sleep(60)
    assert sorted(isolated.pods) == ["job-worker-0"]
