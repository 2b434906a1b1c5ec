"""``hack/demo --real`` as people meet it: in a pipe, on a terminal, interrupted; it leaves nothing behind."""

import contextlib
import os
import re
import select
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from lab.tools.get import programs

DEMO = [str(Path(__file__).resolve().parents[3] / "hack" / "demo"), "--real"]
pytestmark = pytest.mark.programs("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
JOB = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: small}
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - {name: tensorflow, image: none, command: [sh, -c, "echo here is $TF_CONFIG; sleep 0.3"]}
"""
PLAY_SECONDS = 90.0
END_SECONDS = 30.0


@pytest.fixture
def environment(tmp_path):
    """Where the demo keeps its things, so that it can be told what it has left."""
    return os.environ | {"TMPDIR": str(tmp_path)}


@pytest.fixture
def job(tmp_path_factory):
    """A job that needs no TensorFlow."""
    file = tmp_path_factory.mktemp("job") / "job.yaml"
    file.write_text(JOB)
    return str(file)


def remains(folder):
    """The files and the processes that are still there."""
    return [*folder.iterdir(), *processes(folder)]


def processes(folder):
    """The demo and all that it has started: they have its folder in their environment."""
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            if f"TMPDIR={folder}".encode() in (process / "environ").read_bytes():
                commands.append((process / "cmdline").read_text().replace("\0", " "))
    return commands


def read_until(descriptor, text, *, within):
    """What comes out of the demo, up to ``text``."""
    output, deadline = "", time.monotonic() + within
    while text not in output:
        ready, _, _ = select.select([descriptor], [], [], max(deadline - time.monotonic(), 0))
        assert ready, f"after {within:.0f} s there is no {text!r} in:\n{output}"
        piece = os.read(descriptor, 65536)
        assert piece, f"it has ended, and there is no {text!r} in:\n{output}"
        output += piece.decode(errors="replace")
    return output


def test_in_a_pipe_a_job_is_followed_to_its_end_and_nothing_is_left(environment, job, tmp_path):
    done = subprocess.run(
        [*DEMO, job],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for text in ("worker-0 | here is", "everything has been removed", f"export KUBECONFIG={tmp_path}"):
        assert text in done.stdout
    assert "TFJob default/small has succeeded" in done.stderr
    assert "\x1b" not in done.stdout
    assert remains(tmp_path) == []


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_training_of_the_demo_reaches_its_accuracy_although_a_worker_is_lost(environment, tmp_path):
    done = subprocess.run(DEMO, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "This worker is lost." in done.stdout
    accuracy = re.search(r"chief-0 +\| Accuracy on .*: ([0-9.]+)%", done.stdout)
    assert accuracy, done.stdout
    assert float(accuracy[1]) > 90
    assert remains(tmp_path) == []


def test_on_a_terminal_it_shows_a_table_stays_and_ends_by_ctrl_c(environment, job, tmp_path):
    terminal, inside = os.openpty()
    in_terminal = partial(os.login_tty, inside)
    with subprocess.Popen([*DEMO, job], env=environment, preexec_fn=in_terminal) as process:  # noqa: PLW1509 (one thread)
        os.close(inside)
        output = read_until(terminal, "operator.log", within=PLAY_SECONDS)
        kubeconfig = re.search(r"export KUBECONFIG=(\S+)", output)
        assert kubeconfig, output
        kubectl = programs("kubectl")["kubectl"]
        command = [kubectl, "--kubeconfig", kubeconfig[1], "get", "tfjob/small", "-o", "name"]
        assert subprocess.check_output(command, text=True) == "tfjob.kubeflow.org/small\n"
        with pytest.raises(AssertionError, match="after 1 s there is no 'removing'"):
            read_until(terminal, "removing", within=1.0)

        os.write(terminal, b"\x03")
        read_until(terminal, "everything has been removed", within=END_SECONDS)
        assert process.wait(END_SECONDS) == 0
    os.close(terminal)

    assert "Succeeded" in output, "the table"
    assert remains(tmp_path) == []


def test_nothing_is_left_when_it_is_told_to_end_while_it_starts(environment, job, tmp_path):
    with subprocess.Popen([*DEMO, job], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        read_until(process.stdout.fileno(), "starting a control plane", within=END_SECONDS)
        process.send_signal(signal.SIGTERM)
        read_until(process.stdout.fileno(), "interrupted; everything has been removed", within=END_SECONDS)
        assert process.wait(END_SECONDS) == 128 + signal.SIGTERM

    assert remains(tmp_path) == []
