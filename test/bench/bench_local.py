"""The embedded API server with 10,000 pods, and how soon ``tfjob run`` has started a process.

    PYTHONPATH=test:hack .venv/bin/python test/bench/bench_local.py [--pods 10000] [--runs 5]

Requests go into the server in this process, without HTTP. Memory is the growth of this process. A run is a job of a
chief, two workers and a parameter server whose programs end at once, by the command that a user would type.
"""

import argparse
import gc
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tf_operator.local.apiserver.built_in import catalog
from tf_operator.local.apiserver.messages import Response
from tf_operator.local.apiserver.reads.watches import WatchStream
from tf_operator.local.apiserver.server import ApiServer
from tf_operator.local.apiserver.storage.journal import SqliteJournal
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.transport.requests import MERGE_PATCH, Request

JOBS = 100
PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
ENDED = object()
STEPS = ("server ready", "operator ready", "pod created", "process started")
JOB = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: nothing}
spec:
  tfReplicaSpecs:
    Chief: &replica {replicas: 1, template: {spec: {containers: [{name: tensorflow, image: none, command: ["true"]}]}}}
    Worker: {<<: *replica, replicas: 2}
    PS: *replica
"""


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    for name, in_memory in (("in memory", True), ("with a journal", False)):
        say(f"\n{options.pods} pods in {JOBS} jobs, {name}")
        with tempfile.TemporaryDirectory() as folder:
            journal = None if in_memory else SqliteJournal(Path(folder) / "journal.sqlite")
            use_pods(ApiServer(SystemClock(), kinds=catalog.KINDS, journal=journal), options.pods)
    say("\ntfjob run, milliseconds since the start of the process: median, and least")
    for step, times in time_starts(options.runs).items():
        say(f"  {step:<24} {statistics.median(times):8.0f} {min(times):8.0f}")


def use_pods(server: ApiServer, count: int) -> None:
    """A life of many pods."""
    send(server, "create", "POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
    names = [f"job-{number % JOBS}-worker-{number // JOBS}" for number in range(count)]
    base = resident()
    with measured("create a pod", count):
        for name in names:
            send(server, "create", "POST", PODS, pod(name))
    with measured("patch its status", count):
        for name in names:
            send(
                server,
                "patch",
                "PATCH",
                f"{PODS}/{name}/status",
                {"status": {"phase": "Running"}},
                content_type=MERGE_PATCH,
            )
    say(f"  {'memory':<24} {resident() - base:8.0f} MB")
    with measured("list all"):
        send(server, "list", "GET", PODS)
    with measured("list one job"):
        send(server, "list", "GET", PODS, labelSelector="job=job-7")
    with measured("watch with initial list"):
        read_all(server, count)
    say(f"  {'longest part of a table':<24} {longest_part(server, 'GET', accept=TABLE):8.2f} ms")
    with measured("delete a pod", count):
        for name in names:
            send(server, "delete", "DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    for name in names:
        send(server, "create", "POST", PODS, pod(name))
    say(f"  {'longest part of delete all':<24} {longest_part(server, 'DELETE', gracePeriodSeconds='0'):8.2f} ms")


def read_all(server: ApiServer, count: int) -> None:
    """Open a watch that begins with everything, and read that."""
    query = {"watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    watch = server.handle(Request("watch", "GET", PODS, query | {"allowWatchBookmarks": "true"}))
    assert isinstance(watch, WatchStream), watch
    count_of_events = 0
    while count_of_events < count:
        count_of_events += len(watch.news())
    watch.close()


def longest_part(server: ApiServer, method: str, *, accept: str = "application/json", **query: str) -> float:
    """Milliseconds of CPU for which an answer about all pods keeps others waiting."""
    answer = server.begin(Request("", method, PODS, query, accept=accept))
    assert isinstance(answer, Generator), answer
    longest, has_ended = 0.0, False
    while not has_ended:
        began = time.process_time()
        has_ended = next(answer, ENDED) is ENDED
        longest = max(longest, time.process_time() - began)
    return longest * 1000


def send(
    server: ApiServer, verb: str, method: str, path: str, body: object = None, *, content_type: str = "", **query: str
) -> None:
    """A request, which has to succeed."""
    sent = None if body is None else msgspec.json.encode(body)
    answer = server.handle(Request(verb, method, path, query, sent, content_type or "application/json"))
    assert isinstance(answer, Response), answer
    assert answer.code < 300, answer.body


def pod(name: str) -> dict[str, object]:
    """A small one."""
    container = {"name": "tensorflow", "image": "none", "command": ["train"], "ports": [{"containerPort": 2222}]}
    labels = {"job": name.rpartition("-worker-")[0]}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]}}


def say(line: str) -> None:
    """A line of the tables."""
    sys.stdout.write(f"{line}\n")


def resident() -> float:
    """What this process has had at most, in MB."""
    gc.collect()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def measured(title: str, count: int = 1, clock: Callable[[], float] = time.process_time) -> Iterator[None]:
    """Print the CPU of the block, for each of so many."""
    began = clock()
    yield
    say(f"  {title:<24} {(clock() - began) / count * 1000:8.2f} ms")


def time_starts(runs: int) -> dict[str, list[float]]:
    """When each step was reached, and when the command had ended, in each run."""
    by_step: dict[str, list[float]] = {step: [] for step in (*STEPS, "the end")}
    for _ in range(runs):
        began = time.perf_counter()
        program = Path(sys.executable).with_name("tfjob")
        process = subprocess.run([program, "run", "-v", "-"], input=JOB, capture_output=True, text=True, check=True)
        by_step["the end"].append((time.perf_counter() - began) * 1000)
        for step in STEPS:
            match = re.search(rf"(\d+) ms  {step}", process.stderr)
            assert match, process.stderr
            by_step[step].append(float(match[1]))
    return by_step


if __name__ == "__main__":
    main()
