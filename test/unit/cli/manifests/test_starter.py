"""The manifest of ``tfjob init``: valid, and its programs run."""

import json
import os
import subprocess
import sys

import pytest

from tf_operator.cli import main
from tf_operator.cli.manifests.starter import Starter
from tf_operator.client.manifests import kube_yaml, validate
from tf_operator.local.node.machine import PYTHON_ANNOTATION

SIZES = [(1, 0, False), (0, 0, True), (3, 2, True), (2, 1, False)]


@pytest.mark.parametrize(("workers", "ps", "has_chief"), SIZES)
def test_the_manifest_is_valid_and_has_the_replicas_that_were_asked_for(workers, ps, has_chief):
    text = Starter("j", workers=workers, ps=ps, has_chief=has_chief).manifest()
    (body,) = kube_yaml.read(text)

    findings = validate.check(body)

    assert (findings.errors, findings.warnings) == ((), ())
    counts = {str(spec.type): spec.count for spec in findings.job.replicas}
    assert counts == {kind: n for kind, n in {"Chief": int(has_chief), "PS": ps, "Worker": workers}.items() if n}
    assert text.count("# A container of this name decides") == 1


def test_the_comments_beside_a_program_keep_its_output_on_a_claim_and_find_its_packages():
    text = Starter("j", workers=2, program="train.py").manifest()
    for line in ("env: [", "volumeMounts: [", "volumes: ["):
        text = text.replace(f"# {line}", line)

    (body,) = kube_yaml.read(text)
    findings = validate.check(body)

    assert (findings.errors, findings.warnings) == ((), ())
    pod = body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    assert pod["containers"][0]["env"] == [{"name": "PYTHONPATH", "value": "packages"}]
    assert pod["containers"][0]["volumeMounts"] == [{"name": "output", "mountPath": "/output"}]
    assert pod["volumes"] == [{"name": "output", "persistentVolumeClaim": {"claimName": "j"}}]


def test_replicas_that_compute_ask_for_gpus_and_parameter_servers_do_not():
    (body,) = kube_yaml.read(Starter("j", workers=2, ps=1, has_chief=True, gpus=2).manifest())

    assert validate.check(body).errors == ()
    containers = {
        kind: spec["template"]["spec"]["containers"][0] for kind, spec in body["spec"]["tfReplicaSpecs"].items()
    }
    limits = {kind: container.get("resources", {}).get("limits") for kind, container in containers.items()}
    assert limits == {"Chief": {"nvidia.com/gpu": 2}, "Worker": {"nvidia.com/gpu": 2}, "PS": None}
    assert containers["Worker"]["image"].endswith("-gpu")


def test_its_program_runs_and_says_which_replica_it_is():
    (body,) = kube_yaml.read(Starter("j", workers=2).manifest())
    container = body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    program = container["args"][0].replace("time.sleep(1)", "pass")
    config = {"cluster": {"worker": ["a", "b"]}, "task": {"type": "worker", "index": 1}}

    environment = os.environ | {"TF_CONFIG": json.dumps(config)}
    process = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )

    assert process.stdout == "I am worker 1 of {'worker': ['a', 'b']}\nstep 1\nstep 2\nstep 3\n"


@pytest.mark.parametrize("name", ["train.py", "my programs/it's: [1].py", "-train.py"])
def test_a_program_of_the_user_is_what_every_replica_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my programs").mkdir()
    (tmp_path / name).touch()
    (tmp_path / "my programs" / "bin").mkdir()
    (tmp_path / "my programs" / "bin" / "python").symlink_to(sys.executable)

    assert main.main(["init", "--chief", "--ps=1", f"--program={name}", "--python=my programs"]) == 0
    (body,) = kube_yaml.read(capsys.readouterr().out)

    assert validate.check(body).errors == ()
    for spec in body["spec"]["tfReplicaSpecs"].values():
        (container,) = spec["template"]["spec"]["containers"]
        assert (container["command"], container["image"]) == (["python", "-u", name], "tensorflow/tensorflow:2.19.0")
        assert spec["template"]["metadata"]["annotations"] == {PYTHON_ANNOTATION: str(tmp_path / "my programs")}


def test_parameter_servers_come_with_the_chief_without_which_nothing_trains(capsys):
    assert main.main(["init", "--workers=2", "--ps=1"]) == 0
    (body,) = kube_yaml.read(capsys.readouterr().out)

    assert {kind: spec["replicas"] for kind, spec in body["spec"]["tfReplicaSpecs"].items()} == {
        "Chief": 1,
        "Worker": 2,
        "PS": 1,
    }


@pytest.mark.parametrize("flag", ["--program", "--python"])
def test_a_program_or_interpreter_that_is_not_there_is_named(flag, capsys):
    assert main.main(["init", f"{flag}=no/such"]) == 2
    assert f"tfjob: {flag} no/such: there is no " in capsys.readouterr().err


def test_a_file_that_is_there_is_not_overwritten(tmp_path, capsys):
    path = tmp_path / "job.yaml"
    assert main.main(["init", str(path), "--workers", "2"]) == 0
    assert main.main(["plan", "-f", str(path)]) == 0
    path.write_text("mine")

    assert main.main(["init", str(path)]) == 2
    assert path.read_text() == "mine"
    assert main.main(["init", "--workers", "0"]) == 2
    assert main.main(["init", str(tmp_path / "no" / "job.yaml")]) == 2
    assert "exists already; choose another file" in capsys.readouterr().err
