"""The health checks for Argo CD, run by Lua 5.1 with the libraries that Argo CD gives to a script, on real statuses."""

from pathlib import Path

import lupa.lua51
import pytest
import yaml

from support.embedded.pod_events import edited, everything_runs, fails, resume, succeeds, suspend
from support.jobs import recorded_jobs, t9k
from support.jobs.builders import tfjob
from tf_operator.dialects.kubeflow.conditions import ConditionType
from tf_operator.dialects.tensorboard import v1beta1 as tensorboard
from tf_operator.job.tensorboard import TensorBoardPhase

ROOT = Path(__file__).resolve().parents[3]
PATCH = yaml.safe_load((ROOT / "manifests/integrations/argo-cd.yaml").read_text())["data"]
KEY = "resource.customizations.health.{}_{}"
# gopher-lua speaks 5.1; Argo CD opens base and table, and a part of os.
CLOSED = "string = nil; math = nil; io = nil; debug = nil; os = nil; getmetatable('').__index = nil"


def in_lua(runtime, value):
    """Tables of maps and lists; null is nil, and so is not there."""
    if isinstance(value, list):
        return runtime.table_from([in_lua(runtime, item) for item in value])
    if isinstance(value, dict):
        return runtime.table_from({key: in_lua(runtime, item) for key, item in value.items() if item is not None})
    return value


def health(body):
    """Status and message."""
    runtime = lupa.lua51.LuaRuntime(register_eval=False, register_builtins=False)
    runtime.globals()["obj"] = in_lua(runtime, body)
    runtime.execute(CLOSED)
    group = body["apiVersion"].partition("/")[0]
    answer = dict(runtime.execute(PATCH[KEY.format(group, body["kind"])]))
    assert set(answer) == {"status", "message"}
    return answer["status"], answer["message"]


def test_every_kind_that_the_operator_serves_has_a_check():
    schemas = (ROOT / "manifests/schemas").rglob("*.json")
    served = {(path.parent.name, path.stem.partition("_")[0]) for path in schemas}
    checked = {tuple(key.removeprefix(KEY.format("", "")[:-1]).lower().rsplit("_", 1)) for key in PATCH}

    assert checked == served
    assert len(served) == 4


MEANINGS = {"Succeeded": "Healthy", "Failed": "Degraded", "Suspended": "Suspended"}


def test_the_last_condition_of_every_golden_case_is_its_health():
    types = set()
    for case, job in recorded_jobs.golden().items():
        if job["kind"] != "TFJob" or not job.get("status", {}).get("conditions"):
            continue
        last = job["status"]["conditions"][-1]
        assert health(job) == (MEANINGS.get(last["type"], "Progressing"), last["message"]), case
        types.add(last["type"])

    assert types == set(ConditionType)


def example(file):
    return yaml.safe_load((ROOT / "manifests/examples" / file).read_text())


def paused(*, enabled):
    return edited({"spec": {"runMode": {"pause": {"enabled": enabled}}}})


V1 = tfjob("job").workers(2).body()
OLDER = {version: V1 | {"apiVersion": f"kubeflow.org/{version}"} for version in ("v1beta2", "v1alpha2")}
V1ALPHA1 = example("kubeflow-v1alpha1/tf_job.yaml")
MLKUBE = example("mlkube/tf_job.yaml")
T9K = t9k.job("t", t9k.replicas("worker", 2), runPolicy={"backoffLimit": 0})


@pytest.mark.parametrize(
    ("job", "moves", "status", "message"),
    [
        (V1, (), "Progressing", "TFJob job is created."),
        (V1, (everything_runs,), "Progressing", "is running."),
        (V1, (everything_runs, suspend), "Suspended", "is suspended."),
        (V1, (everything_runs, suspend, resume), "Progressing", "is created."),
        (V1, (everything_runs, fails("worker-1")), "Degraded", "exited with code 1"),
        (V1, (everything_runs, succeeds("worker-0")), "Healthy", "successfully completed."),
        (OLDER["v1beta2"], (everything_runs, succeeds("worker-0")), "Healthy", "successfully completed."),
        (OLDER["v1alpha2"], (everything_runs, fails("worker-0")), "Degraded", "exited with code 1"),
        (V1ALPHA1, (), "Progressing", "Creating"),
        (V1ALPHA1, (everything_runs,), "Progressing", "Running"),
        (V1ALPHA1, (everything_runs, fails("master-0")), "Degraded", "exited with code 1"),
        (V1ALPHA1, (everything_runs, succeeds("master-0")), "Healthy", "Done"),
        (MLKUBE, (), "Progressing", "Creating"),
        (MLKUBE, (everything_runs,), "Progressing", "Running"),
        (MLKUBE, (everything_runs, fails("master-0")), "Degraded", "exited with code 1"),
        (MLKUBE, (everything_runs, succeeds("master-0")), "Healthy", "Done"),
        (T9K, (), "Progressing", "waiting for its replicas"),
        (T9K, (everything_runs,), "Progressing", "running normally"),
        (T9K, (everything_runs, paused(enabled=True)), "Suspended", "paused"),
        (T9K, (everything_runs, paused(enabled=True), paused(enabled=False)), "Progressing", "waiting"),
        (T9K, (everything_runs, fails("worker-0")), "Degraded", "exited with code 1"),
        (T9K, (everything_runs, succeeds("worker-0")), "Healthy", "finished successfully"),
    ],
)
def test_a_job_is_progressing_until_it_ends_or_is_stopped(job, moves, status, message):
    actual, text = health(recorded_jobs.lived(job, *moves))

    assert actual == status
    assert message in text


@pytest.mark.parametrize(
    ("phase", "problem", "expected"),
    [
        (TensorBoardPhase.PENDING, "no image", ("Progressing", "no image")),
        (TensorBoardPhase.RUNNING, "", ("Healthy", "http://t.team.svc")),
    ],
)
def test_a_tensorboard_is_healthy_when_it_runs(phase, problem, expected):
    status = tensorboard.status(phase, url="http://t.team.svc", message=problem, stored_status={})

    assert health({"apiVersion": "tensorstack.dev/v1beta1", "kind": "TensorBoard", "status": status}) == expected


@pytest.mark.parametrize("key", PATCH)
def test_an_object_that_the_operator_has_not_seen_yet_is_progressing(key):
    group, kind = key.removeprefix(KEY.format("", "")[:-1]).rsplit("_", 1)

    assert health({"apiVersion": f"{group}/v1", "kind": kind}) == ("Progressing", "Waiting for the operator")
