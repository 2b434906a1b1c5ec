"""What ``tfjob run`` adds to a manifest on this machine: mounts and the interpreter."""

import argparse

import pytest

from tf_operator.cli import local_objects


def test_mounts_and_interpreter_are_in_every_pod_template_and_the_manifest_is_left_as_it_is(tmp_path):
    shared = {"initContainers": [{"name": "a"}], "containers": [{"name": "b", "volumeMounts": [{"name": "mine"}]}]}
    templates = [
        {"spec": shared},
        {"spec": shared, "metadata": {"annotations": {"mine": ""}}},
        {"spec": {"containers": []}},
    ]
    body = {
        "kind": "TFJob",
        "spec": {"tfReplicaSpecs": {name: {"template": it} for name, it in zip("ABC", templates, strict=True)}},
    }
    flags = argparse.Namespace(mount=[f"/training/={tmp_path}"], python=str(tmp_path))

    replicas = local_objects.prepared(body, flags)["spec"]["tfReplicaSpecs"]

    mount = {"name": "tfjob-run-0", "mountPath": "/training"}
    assert (
        replicas["A"]["template"]["spec"]
        == replicas["B"]["template"]["spec"]
        == {
            "initContainers": [{"name": "a", "volumeMounts": [mount]}],
            "containers": [{"name": "b", "volumeMounts": [{"name": "mine"}, mount]}],
            "volumes": [{"name": "tfjob-run-0", "hostPath": {"path": str(tmp_path)}}],
        }
    )
    python = {local_objects.PYTHON_ANNOTATION: str(tmp_path)}
    assert [replicas[name]["template"].get("metadata", {}).get("annotations") for name in "ABC"] == [
        python,
        {"mine": "", **python},
        python,
    ]
    assert "volumes" not in shared


@pytest.mark.parametrize("mount", ["training=.", "/=.", "/training", "/training=", "/training=no-such-folder"])
def test_a_mount_that_is_wrong_is_named(mount):
    with pytest.raises(local_objects.LocalFlagError, match=f"--mount {mount}: "):
        local_objects.prepared({}, argparse.Namespace(mount=[mount], python=None))
