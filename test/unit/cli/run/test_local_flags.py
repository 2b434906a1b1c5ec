"""What ``tfjob run`` adds to a manifest on this machine: mounts, variables and the interpreter."""

import argparse
import re
import sys

import pytest

from tf_operator.cli.run import local_flags
from tf_operator.local.node.machine import PYTHON_ANNOTATION


def flags(mount=(), python=None, env_file=None):
    return argparse.Namespace(mount=mount, python=python, env_file=env_file)


def test_all_of_it_is_in_every_pod_template_and_the_manifest_is_left_as_it_is(tmp_path):
    (tmp_path / "env").write_text("\ufeffA=1=$2\n# of the image\n\n B =\n")
    own = {"name": "A", "value": "mine"}
    shared = {
        "initContainers": [{"name": "a"}],
        "containers": [{"name": "b", "env": [own], "volumeMounts": [{"name": "mine"}]}],
    }
    templates = [
        {"spec": shared},
        {"spec": shared, "metadata": {"annotations": {"mine": ""}}},
        {"spec": {"containers": []}},
    ]
    spec = {name: {"template": template} for name, template in zip("ABC", templates, strict=True)}
    body = {"kind": "TFJob", "spec": {"tfReplicaSpecs": spec}}

    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    run_flags = flags([f"/training/={tmp_path}"], str(tmp_path), str(tmp_path / "env"))
    replicas = local_flags.prepared(body, run_flags)["spec"]["tfReplicaSpecs"]

    mount = {"name": "tfjob-run-0", "mountPath": "/training"}
    variables = [{"name": "A", "value": "1=$$2"}, {"name": "B", "value": ""}]
    expected = {
        "initContainers": [{"name": "a", "env": variables, "volumeMounts": [mount]}],
        "containers": [{"name": "b", "env": [*variables, own], "volumeMounts": [{"name": "mine"}, mount]}],
        "volumes": [{"name": "tfjob-run-0", "hostPath": {"path": str(tmp_path)}}],
    }
    assert [replicas[name]["template"]["spec"] for name in "AB"] == [expected] * 2
    python = {PYTHON_ANNOTATION: str(tmp_path)}
    annotations = [replicas[name]["template"]["metadata"]["annotations"] for name in "ABC"]
    assert annotations == [python, {"mine": "", **python}, python]
    assert "volumes" not in shared


def test_the_python_of_this_shell_is_for_templates_that_name_none():
    named = {"metadata": {"annotations": {PYTHON_ANNOTATION: "own"}}, "spec": {"containers": []}}
    body = {"spec": {"tfReplicaSpecs": {"A": {"template": named}, "B": {"template": {"spec": {"containers": []}}}}}}

    replicas = local_flags.prepared(body, flags(), default_python="shell's")["spec"]["tfReplicaSpecs"]

    assert [it["template"]["metadata"]["annotations"][PYTHON_ANNOTATION] for it in replicas.values()] == [
        "own",
        "shell's",
    ]


@pytest.mark.parametrize(
    ("run_flags", "message"),
    [
        (flags(["training=."]), "--mount training=.: must be PATH=FOLDER"),
        (flags(["/=."]), "--mount /=.: must be"),
        (flags(["/training"]), "--mount /training: must be"),
        (flags(["/training=no-such"]), "--mount /training=no-such: there is no no-such"),
        (flags(python="no-such"), "--python no-such: there is no program no-such"),
        (flags(env_file=__file__), f"--env-file {__file__}: line 1 must be NAME=VALUE"),
    ],
)
def test_a_flag_that_is_wrong_is_named_with_its_rule(run_flags, message):
    with pytest.raises(local_flags.LocalFlagError, match=re.escape(message)):
        local_flags.prepared({}, run_flags)


def test_a_file_of_variables_that_is_no_text_is_named_with_what_it_is(tmp_path):
    (tmp_path / "binary").write_bytes(b"A=\xff\n")

    for name, problem in {"binary": "is not a text in UTF-8", "": "cannot be read: Is a directory"}.items():
        file = str(tmp_path / name)
        with pytest.raises(local_flags.LocalFlagError, match=re.escape(f"--env-file {file}: {problem}")):
            local_flags.prepared({}, flags(env_file=file))
