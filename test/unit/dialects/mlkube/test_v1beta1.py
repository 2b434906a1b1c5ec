"""A TfJob of mlkube.io as a job: both spellings, what is in force without a word, and what is wrong with it."""

import re
from pathlib import Path

import pytest
import yaml
from msgspec import structs

from tf_operator.cli import main
from tf_operator.dialects.mlkube.v1beta1 import API
from tf_operator.job.record import ReplicaType
from tf_operator.job.training_job import CleanPodPolicy, DecidingReplica, RestartPolicy
from tf_operator.job.validation import validate

EXAMPLES = Path(__file__).resolve().parents[4] / "manifests/examples/mlkube"
CONTAINER = {"name": "tensorflow", "image": "i"}
TEMPLATE = {"spec": {"containers": [CONTAINER]}}
MASTER, WORKER = {"template": TEMPLATE}, {"tfReplicaType": "WORKER", "template": TEMPLATE}
ONLY_ONE = "in another spelling: only one of them can be given"
INSIDE = "must be 'ClusterIP', because a TensorBoard has no password"
ALLOWED = "is no volume of a TensorBoard; those are configMap, csi, emptyDir, ephemeral, nfs, persistentVolumeClaim"


def read(spec, status=None, **metadata):
    return API.read({"name": "j", "namespace": "n", "uid": "u", **metadata}, spec, status)


def items(*replicas, **fields):
    return {"replicaSpecs": list(replicas), **fields}


@pytest.mark.documents("mlkube/printed-example")
def test_both_spellings_make_the_same_children_but_for_their_names(capsys):
    for name in ("tf_job.yaml", "tf_job_camel_case.yaml"):
        assert main.main(["plan", "--output=yaml", f"--filename={EXAMPLES / name}"]) == 0
    output = re.sub(r"-camel-case|(?<=-0)-\w{5}\b", "", capsys.readouterr().out.replace("5678", "1234"))

    half = len(output) // 2
    assert output[:half] == output[half:]
    assert "name: example-job-worker-1234-0\n" in output


def test_both_spellings_say_the_same():
    snake, camel = (
        API.read_object(yaml.safe_load((EXAMPLES / name).read_text()))
        for name in ("tf_job.yaml", "tf_job_camel_case.yaml")
    )

    assert (snake.runtime_id, camel.runtime_id) == ("1234", "5678")
    assert [spec.path for spec in snake.replicas] == ["spec.replica_specs[0]", "spec.replica_specs[1]"]
    same = tuple(
        structs.replace(spec, path=spec.path.replace("replica_specs", "replicaSpecs")) for spec in snake.replicas
    )
    assert structs.replace(snake, key=camel.key, runtime_id="5678", replicas=same) == camel
    assert validate(snake) == ()


def test_what_is_not_said_has_the_defaults_of_its_time():
    job = read(items(MASTER))

    (master,) = job.replicas
    assert (master.type, master.count, master.port) == (ReplicaType.MASTER, 1, None)
    assert master.restart_policy is RestartPolicy.ALWAYS
    assert job.run_policy.clean_pods is CleanPodPolicy.STOP
    assert (job.deciding.type, job.deciding.index) == (ReplicaType.MASTER, 0)


def test_what_is_said_is_in_force():
    spec = items(
        {"tf_replica_type": "WORKER", "replicas": 3, "tf_port": 5000, "template": {"spec": {"restartPolicy": "Never"}}},
        termination_policy={"chief": {"replica_name": "WORKER", "replica_index": 2}},
        cleanup_pod_policy="All",
    )

    job = read(spec)

    (worker,) = job.replicas
    assert (worker.type, worker.count, worker.port) == (ReplicaType.WORKER, 3, 5000)
    assert worker.restart_policy is RestartPolicy.NEVER
    assert job.deciding == DecidingReplica(ReplicaType.WORKER, 2, "spec.termination_policy.chief")
    assert job.run_policy.clean_pods is CleanPodPolicy.ALL
    assert job.problems == ()


@pytest.mark.documents("v1alpha1/runtime-id")
def test_the_generated_runtime_id_follows_from_the_uid():
    ids = [read(items(MASTER), uid=str(uid)).runtime_id for uid in range(300)]

    assert ids == [read(items(MASTER), uid=str(uid)).runtime_id for uid in range(300)]
    assert ids[:2] == ["0yf2", "pi48"]
    assert all(len(text) == 4 and text.isalnum() and text == text.lower() for text in ids)
    assert len(set(ids)) > 290


@pytest.mark.documents("v1alpha1/default-server")
@pytest.mark.parametrize(
    ("template", "names", "policy"),
    [
        (None, ["tensorflow"], RestartPolicy.ON_FAILURE),
        ({"spec": {"containers": [{"name": "side", "image": "i"}]}}, ["side", "tensorflow"], RestartPolicy.ALWAYS),
    ],
    ids=["no template", "other containers only"],
)
def test_parameter_servers_without_a_container_of_their_own_get_one(template, names, policy):
    job = read(items(MASTER, {"tfReplicaType": "PS", "template": template}, tfImage="tf:2"))

    server = job.replicas[1]
    containers = server.template["spec"]["containers"]
    assert [container["name"] for container in containers] == names
    assert containers[-1]["image"] == "tf:2"
    assert (server.is_default_server, server.restart_policy) == (True, policy)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (None, "spec.replicaSpecs: must name at least one replica type"),
        ("text", "spec: must be an object, is 'text'"),
        (items() | {"replica_specs": [MASTER]}, f"spec.replica_specs: is replicaSpecs {ONLY_ONE}"),
        ({"replica_specs": "two"}, "spec.replica_specs: must be a list, is 'two'"),
        (items("one"), "spec.replicaSpecs[0]: must be an object, is 'one'"),
        (items(MASTER, MASTER), "spec.replicaSpecs[1].tfReplicaType: is MASTER again: each type has one item"),
        (items(MASTER | {"replicas": 2}), "spec.replicaSpecs[0].replicas: must be 1 for the type MASTER, is 2"),
        (items(MASTER | {"tf_port": 1, "tfPort": 1}), f"spec.replicaSpecs[0].tf_port: is tfPort {ONLY_ONE}"),
        (
            items(MASTER, WORKER | {"tfReplicaType": "CHIEF"}),
            "spec.replicaSpecs[1].tfReplicaType: must be one of 'MASTER', 'PS', 'WORKER', is 'CHIEF'",
        ),
        (items(MASTER, runtimeid="76NO"), "spec.runtimeid: must be 1 to 8 lower-case letters and digits"),
        (items(MASTER, cleanupPodPolicy="Stop"), "spec.cleanupPodPolicy: must be one of 'None', 'Running', 'All',"),
        (
            items(MASTER | {"template": {"spec": {"restartPolicy": "ExitCode", "containers": [CONTAINER]}}}),
            "spec.replicaSpecs[0].template.spec.restartPolicy: must be one of 'Always', 'OnFailure', 'Never',",
        ),
        (
            items(MASTER, {"tfReplicaType": "WORKER"}),
            "spec.replicaSpecs[1].template.spec.containers: must have a container named 'tensorflow'",
        ),
    ],
)
def test_what_was_stored_past_the_rules_is_named(spec, problem):
    messages = [str(error) for error in validate(read(spec))]

    assert any(error.startswith(problem) for error in messages), messages


@pytest.mark.parametrize(
    ("tensorboard", "problems"),
    [
        ({"logDir": "/l", "volumeMounts": [{"name": "v"}], "serviceType": "ClusterIP"}, []),
        ({"log_dir": "/l", "volume_mounts": [{"name": "v"}], "service_type": "ClusterIP"}, []),
        ({"logDir": "/l", "service_type": "LoadBalancer"}, [f"service_type: {INSIDE}, is 'LoadBalancer'"]),
        ({"logDir": "/l", "volumes": [{"name": "v", "nfs": {}, "hostPath": None}, {"name": "e", "emptyDir": {}}]}, []),
        ({"logDir": "/l", "volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, [f"volumes[0].hostPath: {ALLOWED}"]),
        (
            {"logDir": "/l", "volumes": ["v", {"name": "t", "projected": {"sources": [{"serviceAccountToken": {}}]}}]},
            ["volumes[0]: must be an object, is 'v'", f"volumes[1].projected: {ALLOWED}"],
        ),
        ({"logDir": "/l", "log_dir": "/m"}, ["log_dir: is logDir in another spelling: only one of them can be given"]),
        ({}, ["logDir: must be the folder with the logs"]),
        ("yes", [": must be an object, is 'yes'", "logDir: must be the folder with the logs"]),
    ],
)
def test_a_tensorboard_is_read_in_either_spelling_and_makes_no_job_invalid(tensorboard, problems):
    job = read(items({"template": TEMPLATE}, tfImage="own", RuntimeId="76no", tensorboard=tensorboard))
    board = job.tensorboard

    assert not job.problems
    assert board.problems == tuple(f"spec.tensorboard{'' if text[0] == ':' else '.'}{text}" for text in problems)
    assert (board.name, board.image) == ("tensorboard-76no", "own")
    if not problems:
        assert board.command[2] == "/l"
        assert board.mounts or len(board.volumes) == 2


def test_the_plan_of_a_job_shows_its_tensorboard_in_full(capsys, tmp_path):
    spec = items({"template": TEMPLATE}, RuntimeId="76no", tensorboard={"logDir": "/l"})
    file = tmp_path / "job.yaml"
    head = {"apiVersion": "mlkube.io/v1beta1", "kind": "TfJob", "metadata": {"name": "j"}}
    file.write_text(yaml.safe_dump(head | {"spec": spec}))

    assert main.main(["plan", "-f", str(file)]) == 0
    assert "1 pod and 1 Service with a TensorBoard" in capsys.readouterr().out
    assert main.main(["plan", "-o", "yaml", "-f", str(file)]) == 0
    bodies = [body for body in yaml.safe_load_all(capsys.readouterr().out) if body]
    service, deployment = bodies[-2:]
    assert (service["kind"], service["spec"]["type"], deployment["kind"]) == ("Service", "ClusterIP", "Deployment")
    assert deployment["metadata"]["name"] == "tensorboard-76no"
