"""``tfjob plan``: files in, plans and complaints out, and an exit code for CI."""

import io
import json
from pathlib import Path

import pytest
import yaml

from support.jobs.builders import tfjob
from tf_operator.cli import main
from tf_operator.dialects import registry

EXAMPLES = sorted((Path(__file__).resolve().parents[4] / "manifests" / "examples").glob("*.yaml"))
JOB = tfjob("j").workers(2)


@pytest.fixture
def plan(capsys, tmp_path):
    """Call it with objects, in one file each, and with flags: the exit code, what it printed and its complaints."""

    def run(*parts):
        arguments = []
        for number, thing in enumerate(parts):
            if isinstance(thing, str):
                arguments.append(thing)
            else:
                path = tmp_path / f"{number}.json"
                path.write_text(json.dumps(thing))
                arguments += ["-f", str(path)]
        code = main.main(["plan", *arguments])
        output = capsys.readouterr()
        return code, output.out, output.err.replace(f"{tmp_path}/", "")

    return run


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_can_be_planned_without_a_warning(plan, path):
    code, output, complaints = plan("-f", str(path), "-o", "yaml")

    assert code == 0
    kinds = [document["kind"] for document in yaml.safe_load_all(output)]
    assert [kind for kind in kinds if kind != "PodGroup"][:2] == ["Service", "Pod"]
    assert "warning" not in complaints


def test_several_files_are_summed_up_one_after_the_other(plan):
    code, output, complaints = plan(JOB.body(), JOB.named("k").body())

    assert (code, complaints) == (0, "")
    assert output.startswith("TFJob default/j: 2 pods and 2 Services\n")
    assert "\n\nTFJob default/k: " in output


@pytest.mark.parametrize("words", [("-",), ("-f", "-")], ids=["by itself", "as an option"])
def test_standard_input_is_read_when_asked(plan, monkeypatch, words):
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(JOB.body())))

    assert plan(*words)[0] == 0


def test_the_options_of_the_operator_are_those_of_the_plan(plan):
    flags = ("-n", "team", "--cluster-domain", ".cluster.local", "--gang-scheduler-name", "volcano")
    _, output, _ = plan(JOB.body(), *flags)

    assert "TFJob team/j: 1 PodGroup" in output
    assert "j-worker-0.team.svc.cluster.local:2222" in output


def test_no_gang_scheduler_may_be_called_none_as_in_the_operator(plan):
    assert "PodGroup" not in plan(JOB.body(), "--gang-scheduler-name=None")[1]


def test_the_controller_config_of_the_operator_is_that_of_the_plan(plan, tmp_path):
    gpu = {"name": "tensorflow", "image": "i", "resources": {"limits": {"example.org/gpu": 1}}}
    master = {"template": {"spec": {"containers": [gpu]}}}
    job = {"apiVersion": "mlkube.io/v1beta1", "kind": "TfJob", "metadata": {"name": "j"}}
    job |= {"spec": {"replicaSpecs": [master, {"tfReplicaType": "PS"}]}}
    config = tmp_path / "config.yaml"
    volumes = "[{name: lib, hostPath: /usr/lib/gpu, mountPath: /usr/lib/gpu}]"
    config.write_text(f"{{tfImage: 'servers:2', accelerators: {{example.org/gpu: {{volumes: {volumes}}}}}}}")

    code, output, complaints = plan(job, "-o", "yaml", f"--controller-config-file={config}")
    assert (code, complaints) == (0, "")
    assert "path: /usr/lib/gpu" in output
    assert 'image: "servers:2"' in output

    config.write_text("tfImage: 1")
    code, output, complaints = plan(job, f"--controller-config-file={config}")
    assert (code, output) == (2, "")
    assert complaints == "tfjob: config.yaml: tfImage: must be the name of an image, is 1\n"


def test_every_error_has_a_line_and_the_other_jobs_are_planned_all_the_same(plan):
    code, output, complaints = plan(JOB.backoff_limit(-1).deadline(-1).body(), JOB.named("k").body())

    assert code == 1
    assert complaints.splitlines() == [
        "0.json: spec.runPolicy.backoffLimit: must be at least 0, is -1",
        "0.json: spec.runPolicy.activeDeadlineSeconds: must be at least 0, is -1",
    ]
    assert output.startswith("TFJob default/k: ")


def test_what_is_odd_is_warned_of_and_is_no_error(plan):
    template = {"spec": {"restartPolicy": "Always", "hostIPX": True}}
    patch = {"spec": {"tfReplicaSpecs": {"Worker": {"template": template}}}}
    code, _, complaints = plan(JOB.merged(patch).body())

    assert code == 0
    assert complaints.splitlines() == [
        "0.json: warning: spec.tfReplicaSpecs.Worker.template.spec.hostIPX: unknown field; did you mean hostIPC?",
        "0.json: warning: restartPolicy in the pod template of Worker is overridden by that of the replica type",
    ]


def test_objects_that_are_no_jobs_are_passed_over(plan):
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    code, _, complaints = plan({"kind": "List", "items": [claim, JOB.body()]})

    assert code == 0
    assert complaints == f"0.json#1: skipped: PersistentVolumeClaim data is not a {registry.kinds()}\n"


def test_files_without_a_job_are_an_error(plan):
    code, _, complaints = plan({"metadata": {}})

    assert code == 1
    assert complaints.splitlines() == [
        f"0.json: skipped: an object without a kind is not a {registry.kinds()}",
        f"0.json: contains no {registry.kinds()}",
    ]


def test_a_file_that_is_no_manifest_does_not_hide_the_others(plan, tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_bytes(b"kind: \xff")
    code, output, complaints = plan("-f", str(broken), JOB.body())

    assert code == 1
    assert complaints.startswith("broken.yaml: ")
    assert "TFJob default/j" in output


def test_a_file_that_cannot_be_read_is_wrong_usage(plan):
    code, _, complaints = plan("-f", "/does/not/exist.yaml")

    assert code == 2
    assert complaints == "tfjob: cannot read /does/not/exist.yaml: No such file or directory\n"


@pytest.mark.parametrize(
    "arguments", [(), ("-f", "x", "-o", "table"), ("-f", "x", "y")], ids=["no file", "format", "more"]
)
def test_wrong_usage_is_told_apart_from_a_wrong_manifest(arguments):
    with pytest.raises(SystemExit) as stopped:
        main.main(["plan", *arguments])

    assert stopped.value.code == 2


def test_control_characters_of_a_manifest_are_shown_and_not_sent_to_the_terminal(plan):
    body = JOB.body() | {"spec": {"x\x1b[2Jy": 1, "tfReplicaSpecs": {}}}
    _, _, complaints = plan(body, {"kind": "\x1b]0;title\x07", "metadata": {"name": "n\rm"}})

    assert "spec.x\\x1b[2Jy: unknown field" in complaints
    assert "skipped: \\x1b]0;title\\x07 n\\rm is not a TFJob" in complaints
