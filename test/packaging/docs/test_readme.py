"""Every command in the README does what it says: it is run here, or by the test that its comment names."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lab.tools.get import programs
from support import doc_pages

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = Path(sys.executable).parent
# Run by CI itself.
ELSEWHERE = {"make demo", "make test", "make venv"}
OPERATOR = ".venv/bin/tf-operator run"
EXPORT, DOWN = "export KUBECONFIG=$(", ".venv/bin/tfjob local down --purge"
# Where nothing else listens on a machine that runs other tests.
PORTS = ("--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0")


def commands():
    """All of them, in the order in which a reader would type them."""
    blocks = doc_pages.blocks(doc_pages.Page("README.md"))
    return [line for block in blocks if not (block.language or block.not_run) for line in block.text.splitlines()]


@pytest.fixture
def environments(own_control_plane, tmp_path):
    """That of a reader without a cluster, and with one that the kubeconfig names."""
    kubectl = Path(programs("kubectl")["kubectl"])
    kubeconfig = str(own_control_plane.kubeconfig("admin"))
    alone = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    alone |= {"XDG_STATE_HOME": str(tmp_path), "PATH": f"{kubectl.parent}{os.pathsep}{os.environ['PATH']}"}
    return alone, alone | {"KUBECONFIG": kubeconfig}


@contextmanager
def operator(words, environment, log):
    """The operator of the README, which runs on while the following commands are typed, and then has to end well."""
    with (
        log.open("wb") as output,
        subprocess.Popen([*words, *PORTS], cwd=ROOT, env=environment, stderr=output) as process,
    ):
        try:
            wait_until_working(log)
            yield
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()


@pytest.mark.programs("kubectl")
def test_every_command_of_the_readme_works(environments, tmp_path):
    printed = {}
    alone, with_cluster = environments
    with ExitStack() as stack:
        for name in ("job.yaml", "train.py"):
            stack.callback((ROOT / name).unlink, missing_ok=True)
        stack.callback(subprocess.run, [SCRIPTS / "tfjob", *DOWN.split()[1:]], env=dict(alone), check=False)
        for command in commands():
            typed = command.removeprefix(EXPORT).removesuffix(")")
            typed = typed.replace(".venv/bin", str(SCRIPTS))
            environment = alone if "tfjob " in command or "KUBECONFIG" in alone else with_cluster
            if command == OPERATOR:
                stack.enter_context(operator(typed.split(), environment, tmp_path / "operator.log"))
            elif command not in ELSEWHERE:
                process = subprocess.run(
                    ["sh", "-c", typed], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
                )
                assert process.returncode == 0, f"{command}: {process.stderr}"
                printed[command] = process.stdout
                if command.startswith(EXPORT):
                    alone["KUBECONFIG"] = process.stdout.strip()
                elif command == DOWN:
                    del alone["KUBECONFIG"]

    assert "2 pods and 2 Services" in printed[".venv/bin/tfjob plan -f job.yaml"]
    # The job has succeeded once worker 0 has: that the other prints anything is not said.
    assert "worker-0 | I was given" in printed[".venv/bin/tfjob run job.yaml"]
    assert "created" in printed["kubectl apply -f job.yaml"]
    assert "single-worker" in printed["kubectl get tfjobs"]


def wait_until_working(log, *, within=30.0):
    deadline = time.monotonic() + within
    while '"workers started"' not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
