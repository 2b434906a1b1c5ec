"""Manifests of jobs whose files go along."""

import re
import subprocess
import sys

import pytest
import yaml

from support.jobs.builders import tfjob
from tf_operator.client import NotPossible
from tf_operator.client.upload import archive, uploaded_job

FILES = archive.Archive("sha256:1", b"")


def manifest(**container):
    body = tfjob("j").chief().workers(2).body()
    for spec in body["spec"]["tfReplicaSpecs"].values():
        spec["template"]["spec"]["containers"][0] |= container
    return body


def pods(body):
    return [spec["template"]["spec"] for spec in body["spec"]["tfReplicaSpecs"].values()]


def uploaded(body):
    return uploaded_job.with_files(body, FILES)


def test_every_replica_runs_in_a_folder_that_its_own_image_has_unpacked():
    limits = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    user = {"runAsUser": 1000}
    job = uploaded(manifest(image="i", imagePullPolicy="Always", securityContext=user, resources={"limits": limits}))

    assert uploaded_job.digest(job) == "sha256:1"
    name = uploaded_job.config_map_name(job)
    assert re.fullmatch(r"j-upload-[0-9a-f]{8}", name)
    for pod in pods(job):
        (container,), (unpacking,) = pod["containers"], pod["initContainers"]
        mount = {"name": "tfjob-upload-files", "mountPath": "/app"}
        assert (container["workingDir"], container["volumeMounts"]) == ("/app", [mount])
        assert unpacking == {
            "name": "tfjob-upload",
            "image": "i",
            "imagePullPolicy": "Always",
            "securityContext": user,
            "command": [*unpacking["command"][:6], "/tfjob-upload/files.tar.gz", "/app"],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
            "volumeMounts": [{"name": "tfjob-upload", "mountPath": "/tfjob-upload"}, mount],
        }
        assert pod["volumes"] == [
            {"name": "tfjob-upload", "configMap": {"name": name}},
            {"name": "tfjob-upload-files", "emptyDir": {}},
        ]


def test_the_command_of_the_init_container_unpacks_and_says_nothing(tmp_path):
    (tmp_path / "project" / "sub").mkdir(parents=True)
    (tmp_path / "project" / "sub" / "train.py").write_text("1")
    (tmp_path / "project" / "link").symlink_to("sub/train.py")
    (tmp_path / "files.tar.gz").write_bytes(archive.pack(tmp_path / "project").content)
    command = pods(uploaded(manifest()))[0]["initContainers"][0]["command"]
    paths = {
        "python3": sys.executable,
        "/tfjob-upload/files.tar.gz": f"{tmp_path}/files.tar.gz",
        "/app": f"{tmp_path}/app",
    }

    for _ in range(2):  # restarts in place may run it again
        ended = subprocess.run([paths.get(word, word) for word in command], capture_output=True, check=False)
        assert (ended.returncode, ended.stdout + ended.stderr) == (0, b"")
    assert (tmp_path / "app" / "link").read_text() == "1"


def test_what_the_manifest_has_stays_and_what_an_earlier_upload_left_goes():
    body = manifest(workingDir="/training/", volumeMounts=[{"name": "data", "mountPath": "/training/data"}])
    for pod in pods(body):
        pod |= {"volumes": [{"name": "data", "emptyDir": {}}], "initContainers": [{"name": "fetch", "image": "i"}]}
    body["metadata"]["annotations"] = {"team": "vision"}

    once = uploaded(body)

    assert once["metadata"]["annotations"] == {"team": "vision", "tf-operator.kubeflow.org/upload": "sha256:1"}
    assert pods(once)[0]["containers"][0]["workingDir"] == "/training"
    assert [entry["name"] for entry in pods(once)[0]["initContainers"]] == ["tfjob-upload", "fetch"]
    assert [entry["mountPath"] for entry in pods(once)[0]["containers"][0]["volumeMounts"]] == [
        "/training/data",
        "/training",
    ]
    twice = uploaded(once)
    assert uploaded_job.config_map_name(twice) != uploaded_job.config_map_name(once)
    assert [pod["initContainers"] for pod in pods(twice)] == [pod["initContainers"] for pod in pods(once)]
    assert [len(pod["volumes"]) for pod in pods(twice)] == [3, 3]
    assert "initContainers" not in pods(manifest())[0]


def test_templates_that_are_one_in_yaml_get_the_files_once():
    body = manifest()
    specs = body["spec"]["tfReplicaSpecs"]
    specs["Worker"]["template"] = specs["Chief"]["template"]

    assert [len(pod["initContainers"]) for pod in pods(uploaded(body))] == [1, 1]


@pytest.mark.parametrize("folder", ["/", "training"])
def test_files_need_a_folder(folder):
    with pytest.raises(NotPossible, match=f"workingDir, which is {folder}: name a folder, as in /app"):
        uploaded(manifest(workingDir=folder))


def test_files_do_not_hide_a_volume():
    with pytest.raises(NotPossible, match=r"workingDir, /data, where the volume claim is: name another"):
        uploaded(manifest(workingDir="/data", volumeMounts=[{"name": "claim", "mountPath": "/data/"}]))


def test_jobs_of_other_apis_have_files_as_well():
    text = """
    apiVersion: batch.tensorstack.dev/v1beta1
    kind: TensorFlowTrainingJob
    metadata: {generateName: train-}
    spec: {replicaSpecs: [{type: worker, template: {spec: {containers: [{name: tensorflow, image: i}]}}}]}
    """
    assert uploaded_job.config_map_name(uploaded(yaml.safe_load(text))).startswith("train-upload-")
