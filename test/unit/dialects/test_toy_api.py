"""A second API, of another shape and with other words, is served by the same planning."""

import json
from dataclasses import fields

import pytest

from support.embedded.pod_events import everything_runs, fails, succeeds, time_passes
from support.embedded.simulator import Simulator
from support.toys import toy_api
from tf_operator.cli import main
from tf_operator.dialects import registry
from tf_operator.job.profile import Profile
from tf_operator.job.record import ReplicaType
from tf_operator.planning.plan import make_plan
from tf_operator.planning.snapshot import Container, MainContainer

ROLES = [{"role": "helper", "count": 2, "image": "train:1"}, {"role": "boss", "image": "lead:1"}]
BODY = {
    "apiVersion": "toys.example.org/v1",
    "kind": "Training",
    "metadata": {"name": "toy"},
    "spec": {"roles": ROLES},
}


def test_the_third_api_has_another_value_of_every_field_of_a_profile_than_kubeflow_has():
    """So that each field is seen to come from the profile, and a new one finds its way into the scenarios."""
    profiles = [profile for api in (registry.DEFAULT, toy_api.PLAY_API) for profile in api.profiles[:1]]
    names = [field.name for field in fields(Profile)]

    assert [name for name in names if len({repr(getattr(profile, name)) for profile in profiles}) == 1] == []


def lived(*moves):
    simulator = Simulator(BODY, api=toy_api.API)
    simulator.settle()
    for move in moves:
        move(simulator)
        simulator.settle()
    return simulator


def events(simulator):
    return [reason for _, reason, _ in simulator.operator.recorder.events if reason != "Children_Created"]


@pytest.mark.parametrize(
    ("moves", "phase", "told"),
    [
        ((), "created", []),
        ((everything_runs,), "running", []),
        ((everything_runs, fails("worker-0", 75)), "restarting", ["Restarting"]),
        ((everything_runs, fails("worker-0", 75), time_passes(2), everything_runs), "running", ["Restarting"]),
        ((everything_runs, fails("worker-0", 130)), "failed", ["ToyPermanentFailure"]),
        ((everything_runs, succeeds("chief-0")), "succeeded", ["Succeeded"]),
    ],
    ids=["created", "running", "restarting", "restarted", "failed", "succeeded"],
)
def test_a_job_of_another_api_lives_by_its_own_words_and_exit_codes(moves, phase, told):
    simulator = lived(*moves)

    assert (simulator.status["phase"], events(simulator)) == (phase, told)


def test_its_record_survives_every_write_and_is_all_that_is_needed():
    simulator = lived(everything_runs, fails("worker-1", 75))

    assert simulator.record.of(ReplicaType.WORKER).restarts == 1
    assert simulator.record.restart_records[0].replaced
    assert simulator.status["pods"] == {"toy-chief-0": "Running", "toy-worker-0": "Running"}
    assert set(simulator.status) == {"phase", "pods", "operator"}


def test_its_children_have_its_names():
    pods = [action.body() for action in Simulator(BODY, api=toy_api.API).look().actions]

    (boss, *_) = pods
    (container,) = boss["spec"]["containers"]
    assert (container["name"], container["image"]) == ("main", "lead:1")
    assert container["ports"] == [{"name": "mesh", "containerPort": 7000}]
    assert json.loads(container["env"][0]["value"])["cluster"]["chief"] == ["toy-chief-0.team.svc:7000"]
    assert boss["metadata"]["labels"] == {
        "training.kubeflow.org/operator-name": toy_api.API.controller,
        "toys.example.org/job": "toy",
        "toys.example.org/type": "chief",
        "toys.example.org/index": "0",
        "toys.example.org/role": "boss",
    }
    assert boss["metadata"]["ownerReferences"][0]["kind"] == "Training"


def test_what_every_object_has_is_read_for_each_api():
    """A job whose generation is not read looks changed for ever."""
    metadata = {
        "name": "toy",
        "namespace": "team",
        "uid": "u",
        "resourceVersion": "1",
        "generation": 3,
        "annotations": {"a": "b"},
        "deletionTimestamp": "soon",
    }

    job = toy_api.API.read_object({**BODY, "metadata": metadata})

    assert (str(job.key), job.uid, job.resource_version, job.generation) == ("team/toy", "u", "1", 3)
    assert (job.annotations, job.is_being_deleted) == ({"a": "b"}, True)


def test_the_container_that_the_profile_names_decides_whatever_else_is_in_the_pod():
    simulator = lived(everything_runs)
    boss = simulator.pods["toy-chief-0"]
    done = MainContainer(0, "Completed", started_at=simulator.now, finished_at=simulator.now)
    boss = boss.changed(phase="Succeeded", container="tensorflow", main=None, others=(Container("main", done, None),))
    plan = make_plan(simulator.observe().changed(pods=(boss,), looked_for=frozenset(simulator.pods)))

    (line,) = (line for line in plan.report.lines() if line.pod == boss.name)

    assert line.exit_code == 0


def test_the_command_line_plans_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(registry, "SERVED", (registry.DEFAULT, toy_api.API))
    path = tmp_path / "toy.json"
    path.write_text(json.dumps(BODY))

    assert main.main(["plan", "-f", str(path)]) == 0
    assert capsys.readouterr().out.startswith("Training default/toy: 3 pods and 3 Services\n")


def test_the_command_line_names_every_kind_that_it_would_plan(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(registry, "SERVED", (registry.DEFAULT, toy_api.API))
    path = tmp_path / "none.json"
    path.write_text(json.dumps({**BODY, "kind": "Other"}))

    assert main.main(["plan", "-f", str(path)]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == f"{path}: contains no TFJob or Training"
