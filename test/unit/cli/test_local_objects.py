"""Mounts of ``tfjob run``: a folder of this machine where an image has one."""

import pytest

from tf_operator.cli import local_objects


def test_a_mount_is_in_every_container_of_every_pod_template_and_the_manifest_is_left_as_it_is(tmp_path):
    template = {"spec": {"initContainers": [{"name": "a"}], "containers": [{"name": "b"}]}}
    body = {
        "kind": "TFJob",
        "spec": {"tfReplicaSpecs": {"Chief": {"template": template}, "PS": {"template": template}}},
    }

    changed = local_objects.with_mounts(body, dict([local_objects.parse_mount(f"/training/={tmp_path}")]))

    mount = {"name": "tfjob-run-0", "mountPath": "/training"}
    expected = {
        "initContainers": [{"name": "a", "volumeMounts": [mount]}],
        "containers": [{"name": "b", "volumeMounts": [mount]}],
        "volumes": [{"name": "tfjob-run-0", "hostPath": {"path": str(tmp_path)}}],
    }
    replicas = changed["spec"]["tfReplicaSpecs"]
    assert [replicas[name]["template"]["spec"] for name in ("Chief", "PS")] == [expected] * 2
    assert "volumes" not in template["spec"]


@pytest.mark.parametrize("text", ["training=.", "/=.", "/training", "/training=", "/training=no-such-folder"])
def test_a_mount_that_is_wrong_says_what_it_must_be(text):
    with pytest.raises(local_objects.MountError, match=f"--mount {text}: "):
        local_objects.parse_mount(text)
