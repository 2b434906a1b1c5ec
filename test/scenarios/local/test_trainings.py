"""TensorFlow without a cluster: the trainings of the end-to-end tests, and ``hack/demo`` when it is interrupted."""

import asyncio
import os
import random
import re
import shutil
import signal
import sys
from contextlib import suppress

import pytest
import yaml

from demonstration import training
from lab.tools.progress import Progress
from support.jobs.real_namespace import Program, accuracy, small_job
from support.local_machine import LocalMachine
from support.settle import eventually

INTERRUPTIONS = int(os.environ.get("INTERRUPTIONS", "20"))
LOST_WORKERS = int(os.environ.get("LOST_WORKERS", "3"))
NOTHING = Program("none", "")
FOLDER = training.ROOT / training.PROGRAMS
# The environment of TensorFlow is made before the first test, unless `make demo` has made it.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def tfjob():
    """The command, in an environment that has TensorFlow, too."""
    return str(training.prepare(Progress(sys.stderr, prefix="tests")) / "bin" / "tfjob")


@pytest.fixture
def machine(tmp_path):
    """Where a command runs."""
    return LocalMachine(tmp_path)


@pytest.mark.parametrize(
    ("name", "reporters"),
    [("parameter-servers", ["chief-0"]), ("multi-worker-mirrored", ["worker-0", "worker-1"])],
    ids=lambda it: it if isinstance(it, str) else "",
)
async def test_a_training_that_loses_a_worker_is_as_accurate_as_in_a_cluster(machine, tfjob, name, reporters):
    manifest = (FOLDER / f"{name}.yaml").read_text().replace("--steps=1000", "--steps=3000")
    process = await machine.start("run", "-", "--mount", f"/training={FOLDER}", manifest=manifest, command=(tfjob,))
    errors = asyncio.ensure_future(process.stderr.read())
    output = (await process.stdout.readuntil(b"Saved step")).decode()

    (worker,) = machine.processes(having='"task":{"type":"worker","index":1}')
    os.kill(worker, signal.SIGKILL)
    output += (await process.stdout.read()).decode()

    assert await process.wait() == 0, (await errors).decode()
    logs = ["\n".join(re.findall(rf"^{replica} *\| (.*)$", output, re.MULTILINE)) for replica in reporters]
    assert [accuracy(log) >= 90 for log in logs] == [True] * len(reporters), output
    assert output.count("This is worker 1.") >= 2
    assert machine.remains() == []


@pytest.mark.parametrize("seed", range(LOST_WORKERS))
async def test_a_training_in_step_that_loses_a_worker_goes_on_as_a_whole(machine, tfjob, tmp_path, seed):
    """At any moment, and although what the others do then is final: their programs know of no restarts."""
    chance, folder = random.Random(seed), tmp_path / "programs"
    shutil.copytree(FOLDER, folder)
    digits = (folder / "digits.py").read_text()
    (folder / "digits.py").write_text(digits.replace("PEERS_LOST = 143", "PEERS_LOST = 1"))
    manifest = (FOLDER / "multi-worker-mirrored.yaml").read_text().replace("--steps=1000", "--steps=3000")
    manifest = manifest.replace("runPolicy:\n", "runPolicy:\n    restarts: {scope: Job}\n")
    process = await machine.start("run", "-", "--mount", f"/training={folder}", manifest=manifest, command=(tfjob,))
    errors = asyncio.ensure_future(process.stderr.read())
    for _ in range(chance.randrange(1, 40)):
        await process.stdout.readuntil(b"Saved step")

    (worker,) = machine.processes(having=f'"task":{{"type":"worker","index":{chance.randrange(2)}}}')
    os.kill(worker, signal.SIGKILL)
    output = (await process.stdout.read()).decode()

    notes = (await errors).decode()
    assert await process.wait() == 0, notes
    assert re.findall(r"attempt (\d) begins", notes) == ["2"], notes
    logs = ["\n".join(re.findall(rf"^worker-{n} *\| (.*)$", output, re.MULTILINE)) for n in range(2)]
    assert [accuracy(log) >= 90 for log in logs] == [True, True], output
    assert output.count("Going on from step") == 2
    assert machine.remains() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda it: it.name)
@pytest.mark.parametrize("seed", range(INTERRUPTIONS))
async def test_nothing_is_left_of_a_demo_that_is_interrupted(machine, tfjob, number, seed):
    """At any moment, by a terminal or alone; of one that is killed with all it has started, after the next command."""
    chance = random.Random(f"{number}-{seed}")
    demo = await machine.start(command=(str(training.ROOT / "hack" / "demo"),), PYTHON=sys.executable)
    outputs = asyncio.ensure_future(demo.communicate())
    await asyncio.wait([outputs], timeout=chance.choice((chance.uniform(0.05, 4), chance.uniform(4, 40))))
    scope = chance.choice(("alone", "by the terminal", *(["all"] if number == signal.SIGKILL else [])))
    for pid in machine.processes() if scope == "all" else [demo.pid]:
        with suppress(ProcessLookupError):
            (os.killpg if scope == "by the terminal" else os.kill)(pid, number)
    output, errors = await outputs

    assert b"tf_operator/" not in errors, (output + errors).decode()
    if number == signal.SIGINT:
        assert demo.returncode in {0, 130, -number}
        await eventually(lambda: not machine.remains())
    else:
        assert (await machine.run("run", "-", manifest=yaml.safe_dump(small_job("j", NOTHING))))[0] == 0
        await eventually(lambda: not machine.remains(), within=20)
