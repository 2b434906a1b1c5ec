"""``tfjob exec``: a command beside a replica that runs on this machine."""

import signal

import pytest

from support.local_machine import LocalMachine
from support.settle import eventually

SCRIPT = "trap 'exit 0' TERM; echo > /work/ready; while :; do sleep 0.05; done"


@pytest.fixture
async def machine(tmp_path):
    """A server on which a job with two replicas runs."""
    machine = LocalMachine(tmp_path)
    container = {
        "name": "tensorflow",
        "image": "none",
        "command": ["sh", "-c", SCRIPT],
        "workingDir": "/work",
        "env": [{"name": "TEAM", "value": "vision"}],
        "volumeMounts": [{"name": "work", "mountPath": "/work"}],
    }
    async with machine.with_job({"containers": [container], "volumes": [{"name": "work", "emptyDir": {}}]}):
        yield machine


async def test_a_command_finds_the_folder_and_the_variables_of_the_replica(machine):
    look = ("j", "--replica", "worker-1", "--", "sh", "-c", "ls; echo $TEAM; exit 3")

    async def is_found():
        code, output, errors = await machine.run("exec", *look)
        assert (code, output) == (3, "ready\nvision\n"), errors
        return True

    await eventually(is_found, within=60)  # the job is Running with its first worker
    program = "import os, json; print(json.loads(os.environ['TF_CONFIG'])['task']['index'])"
    assert (await machine.run("exec", "j", "--replica", "worker-1", "--", "python", "-c", program))[1] == "1\n"

    # The shell would stay if the command had inherited what Python does about this signal.
    assert await machine.run("exec", "j", "--replica", "worker-1", "--", "sh", "-c", "kill -s PIPE $$; echo stays") == (
        -signal.SIGPIPE,
        "",
        "",
    )

    refusals = {
        "j -- true": (1, "j has several replicas, name one with --replica: worker-0, worker-1"),
        "j --replica ps-0 -- true": (1, "j has no such pod; tfjob explain j says why"),
        "j --replica worker-1 -c other -- true": (1, "worker-1 has no container other that runs"),
        "j --replica worker-1 -- no-such-program": (127, "there is no program no-such-program"),
    }
    for line, (code, sentence) in refusals.items():
        assert await machine.run("exec", *line.split()) == (code, "", f"tfjob: {sentence}\n")

    remove = ("sh", "-c", 'rm -r "$PWD"')
    assert (await machine.run("exec", "j", "--replica", "worker-1", "--", *remove))[0] == 0
    code, _, errors = await machine.run("exec", "j", "--replica", "worker-1", "--", "true")
    assert (code, errors.startswith("tfjob: cannot go to /")) == (126, True), errors
