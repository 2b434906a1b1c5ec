"""The command line of ``hack/pictures dashboards``: a live cluster under load, its Prometheus, and the pictures.

On the stage of the demo a second replica of the operator waits, jobs of many fates come and go (``traffic``), now and
then a pod is lost, and in the middle the replica that leads is taken away, so that another takes over. Nothing is made
up but what containers use, because none runs.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from demonstration import freshness, interruption, traffic
from demonstration import stage as stages
from demonstration.interruption import Interrupted
from demonstration.stage import Program, Stage
from lab.control_plane.api import ApiRefusedError
from lab.prometheus.pod_metrics import PodMetrics
from lab.prometheus.server import Prometheus, Target
from lab.tools.progress import Progress

ROOT: Final = Path(__file__).resolve().parents[2]
OUTPUT: Final = ROOT / "docs/images"
DESCRIPTION: Final = """\
Draws docs/images: a real control plane, two replicas of the operator and a Prometheus for some minutes, under jobs that
succeed, fail, restart and run out of time; then hack/render-dashboards. Nothing is left running."""
_SCRAPE_SECONDS: Final = 5
_LOSS_SECONDS: Final = 20.0
_RESUME_SECONDS: Final = 30.0
_RESUME: Final = {"spec": {"runPolicy": {"suspend": False}}}
LONG_JOB: Final = "mnist"
_JOBS: Final = "/apis/kubeflow.org/v1/namespaces/{}/tfjobs"


def main(arguments: Sequence[str]) -> int:
    """Be ``hack/pictures dashboards``; the exit status."""
    parser = argparse.ArgumentParser(prog="hack/pictures dashboards", description=DESCRIPTION)
    parser.add_argument("--minutes", type=_minutes, default=10, help="how long jobs come and go (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the folder of the pictures")
    options = parser.parse_args(arguments)
    try:
        with interruption.interruptible():
            return _perform(options)
    except interruption.KNOWN as error:
        sys.stderr.write(f"pictures: {error}\n")
        return 1
    except Interrupted as interrupted:
        sys.stderr.write("pictures: interrupted; everything has been removed\n")
        return interrupted.exit_status


def _minutes(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of minutes, at least 2")
    return int(text)


def _perform(options: argparse.Namespace) -> int:
    progress = Progress(sys.stderr, prefix="pictures")
    with stages.built(progress) as stage, stages.with_node(stage, progress):
        try:
            with _watched(stage, stage.folder) as prometheus:
                title = f"letting jobs come and go for {options.minutes} minutes"
                with progress.step(title):
                    _Life(stage, 60.0 * options.minutes).live()
                return _draw(prometheus, options)
        finally:
            interruption.stop_listening()


@contextlib.contextmanager
def _watched(stage: Stage, folder: Path) -> Iterator[Prometheus]:
    """A second replica, and a Prometheus that scrapes both and the pods."""
    for namespace in traffic.HABITS:
        stage.plane.admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        stage.plane.admin.wait_for(f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
    with contextlib.ExitStack() as stack:
        second = stack.enter_context(_replica(stage, folder, "the second operator"))
        prometheus = stack.enter_context(Prometheus.up(folder / "prometheus", interval=f"{_SCRAPE_SECONDS}s"))
        pods = stack.enter_context(PodMetrics.up(stage.plane.admin, traffic.HABITS))
        prometheus.scrape(
            Target("tf-operator", _address(stage.operator), {"pod": "tf-operator-1", "instance": "tf-operator-1"}),
            Target("tf-operator", _address(second), {"pod": "tf-operator-2", "instance": "tf-operator-2"}),
            Target("kube-state-metrics", pods),
        )
        yield prometheus


def _replica(stage: Stage, folder: Path, name: str) -> contextlib.AbstractContextManager[Program]:
    return stages.running(name, stages.operator_command(stage.plane), folder)


def _address(operator: Program) -> str:
    """Where its metrics are, once its log has it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        operator.check()
        for record in map(json.loads, operator.log.read_text().splitlines()):
            if record["message"] == "listening":
                return str(record["addresses"][0])
        time.sleep(0.1)
    raise stages.StageFailedError(f"the operator logs no address:\n{operator.tail()}")


class _Life:
    """What happens in the cluster while it is watched."""

    def __init__(self, stage: Stage, seconds: float) -> None:
        self._stage = stage
        self._admin = stage.plane.admin
        self._began = time.monotonic()
        self._seconds = seconds
        self._due = {
            "lose a pod": _LOSS_SECONDS,
            "resume a job": _RESUME_SECONDS,
            "lose a worker of the long job": seconds * 0.4,
            "take the leader away": seconds * 0.6,
        }

    def live(self) -> None:
        """From the first job on."""
        self._admin.create(_JOBS.format("vision"), traffic.long_job(LONG_JOB, self._seconds * 2))
        for arrival in traffic.arrivals():
            self._admin.create(_JOBS.format(arrival.namespace), arrival.body)
            time.sleep(arrival.after)
            age = time.monotonic() - self._began
            if age > self._seconds:
                return
            if self._is_due("lose a pod", age, again=_LOSS_SECONDS):
                self._lose_a_pod()
            if self._is_due("lose a worker of the long job", age, again=self._seconds):
                self._admin.delete(f"/api/v1/namespaces/vision/pods/{LONG_JOB}-worker-1")
            if self._is_due("resume a job", age, again=_RESUME_SECONDS):
                self._resume_a_job()
            if self._is_due("take the leader away", age, again=self._seconds):
                self._stage.operator.end()

    def _is_due(self, event: str, age: float, *, again: float) -> bool:
        is_due = age >= self._due[event]
        if is_due:
            self._due[event] += again
        return is_due

    def _lose_a_pod(self) -> None:
        """As when a node is drained."""
        pods = self._admin.get("/api/v1/namespaces/vision/pods")["items"]
        running = [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"]
        if running:
            with contextlib.suppress(ApiRefusedError):  # it may have ended since
                self._admin.delete(f"/api/v1/namespaces/vision/pods/{running[-1]}")

    def _resume_a_job(self) -> None:
        path = _JOBS.format("vision")
        for job in self._admin.get(path)["items"]:
            if job["spec"].get("runPolicy", {}).get("suspend"):
                self._admin.patch(f"{path}/{job['metadata']['name']}", _RESUME)
                return


def _draw(prometheus: Prometheus, options: argparse.Namespace) -> int:
    command = [
        str(ROOT / "hack/render-dashboards"),
        *(f"--prometheus={prometheus.url}", f"--output={options.output}"),
        *(f"--range={max(1, options.minutes - 1)}m", f"--scrape-interval={_SCRAPE_SECONDS}s"),
    ]
    files = {path.stem: str(path) for path in (ROOT / "charts/tf-operator/dashboards").glob("*.json")}
    drawn = [f"{name}.png" for name in files]
    one = subprocess.run([*command, "--set=namespace=vision", f"--set=name={LONG_JOB}", files.pop("job")], check=False)
    code = one.returncode or subprocess.run([*command, *files.values()], check=False).returncode
    if code == 0 and options.output == OUTPUT:
        freshness.record(ROOT, drawn)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
