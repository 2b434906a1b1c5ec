"""``tfjob history`` on a machine without a cluster: ended jobs are known when they are deleted, and after a restart."""

import json

import pytest
import yaml

from support.local_machine import LocalMachine


@pytest.fixture
def machine(tmp_path):
    return LocalMachine(tmp_path)


def job(name, program):
    container = {"name": "tensorflow", "image": "none", "command": ["python", "-c", program]}
    template = {"spec": {"containers": [container]}}
    worker = {"replicas": 1, "restartPolicy": "Never", "template": template}
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": metadata,
        "spec": {"tfReplicaSpecs": {"Worker": worker}},
    }


async def test_a_job_that_is_deleted_stays_in_the_history_of_the_server(machine):
    jobs = job("good", "print(1)"), job("bad", "import sys; sys.exit(3)"), job("kept", "print(2)")

    async def history(*options):
        code, out, problems = await machine.run("history", *options)
        assert code == 0, problems
        return out

    assert (await machine.run("local", "up"))[0] == 0
    try:
        for body in jobs:
            assert (await machine.run("submit", "-", manifest=yaml.dump(body)))[0] == 0
            await machine.run("wait", body["metadata"]["name"])
        for name in ("good", "bad"):
            assert (await machine.run("delete", name))[0] == 0
        before = json.loads(await history("-o", "json"))["items"]
        assert [(item["name"], item["state"]) for item in before] == [
            ("good", "Succeeded"),
            ("bad", "Failed"),
            ("kept", "Succeeded"),
        ]
        assert before[1]["firstFailure"]["exitCode"] == 3

        assert (await machine.run("local", "down"))[0] == 0
        assert (await machine.run("local", "up"))[0] == 0
        assert json.loads(await history("-o", "json"))["items"] == before
        rows = (await history("bad")).splitlines()
        assert len(rows) == 2
        assert "bad-worker-0, exit code 3" in rows[1]
        other = ("history", "-n", "other")
        assert "No job has ended" in (await machine.run(*other))[2]
    finally:
        await machine.run("local", "down", "--purge")
