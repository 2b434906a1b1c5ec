"""The example for Pipelines: compiled by kfp itself, and its step run with the real client."""

import subprocess
import sys
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import yaml

import tf_operator.client
from lab.tools import environment
from support.embedded.embedded_jobs import TFJOBS, EmbeddedJobs
from support.jobs.builders import tfjob
from tf_operator.machinery.clock import SystemClock

EXAMPLE = Path(__file__).resolve().parents[3] / "manifests/examples/integrations/pipelines.py"
PAGE = EXAMPLE.parents[3] / "docs/how-to/pipelines.md"


@pytest.mark.nightly
@pytest.mark.timeout(700)
def test_the_pipeline_compiles(tmp_path):
    python = environment.python_of("pipelines")
    subprocess.run([python, "-W", "ignore", EXAMPLE], cwd=tmp_path, check=True, timeout=120)
    compiled = yaml.safe_load((tmp_path / "pipeline.yaml").read_text())

    (step,) = compiled["root"]["dag"]["tasks"].values()
    job = step["inputs"]["parameters"]["job"]["runtimeValue"]["constant"]
    assert job["kind"] == "TFJob"
    (executor,) = compiled["deploymentSpec"]["executors"].values()
    assert "tf-operator" in " ".join(executor["container"]["command"])


@pytest.fixture
def train(monkeypatch):
    """The step as a function: kfp is not here, and what it makes of functions does not matter."""
    plain = SimpleNamespace(
        component=lambda **_: lambda function: function, pipeline=lambda **_: lambda function: function
    )
    kfp = ModuleType("kfp")
    kfp.dsl, kfp.compiler = plain, SimpleNamespace()
    monkeypatch.setitem(sys.modules, "kfp", kfp)
    names = {"__name__": "pipelines"}
    exec(EXAMPLE.read_text(), names)
    return names["train"]


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
def test_the_step_ends_as_its_job(train, monkeypatch, capsys, end):
    cluster = EmbeddedJobs(SystemClock())
    cluster.logs["j-worker-0"] = [b"step 1\n"]

    def finish(loop):
        """The operator and the node, as soon as there is a job."""
        job = cluster.find(TFJOBS, "j")
        if job is None:
            loop.call_later(0.01, partial(finish, loop))
            return
        cluster.pod(job, "worker-0")
        cluster.report("j", end)

    def make():
        jobs = tf_operator.client.blocking.TFJobs(transport=cluster.client()._transport)
        jobs._loop.call_soon_threadsafe(finish, jobs._loop)
        return jobs

    monkeypatch.setattr(tf_operator.client, "TFJobs", make)
    if end == "Succeeded":
        assert train(tfjob("j").workers(1).body()) == "j"
    else:
        with pytest.raises(RuntimeError):
            train(tfjob("j").workers(1).body())
    assert "worker-0 step 1\n" in capsys.readouterr().out


def test_the_page_shows_the_step_as_it_is():
    code = PAGE.read_text().split("```python\n")[1].split("```")[0].split("\n    from")[1]
    lines = [line.partition("  # noqa")[0] for line in EXAMPLE.read_text().splitlines()]

    assert "\n    from" + code.rstrip() in "\n" + "\n".join(lines)
