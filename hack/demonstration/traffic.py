"""Jobs of many fates, as a cluster with users has them: what ``hack/pictures dashboards`` creates.

Pure, and the same each time. Each namespace has habits of its own, so that dashboards have something to tell apart.
Their programs only wait.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

Body = dict[str, Any]
Template = tuple[int, str, str]
"""How many, their restart policy, and what they run in a shell."""
_IMAGE: Final = "tensorflow/tensorflow:2.19.0"
_KEPT_SECONDS: Final = 90
_FOREVER: Final = "sleep 100000"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job that somebody submits, so many seconds after the one before."""

    after: float
    namespace: str
    body: Body


def arrivals(seed: int = 1) -> Iterator[Arrival]:
    """Jobs without end, now more and now fewer."""
    chance = random.Random(seed)  # noqa: S311 (it is a play)
    number = 0
    while True:
        number += 1
        busy = 1.0 if number // 25 % 2 else 0.45
        namespace = chance.choices(tuple(HABITS), weights=(5, 3, 2))[0]
        fates, weights = zip(*HABITS[namespace].items(), strict=True)
        body = chance.choices(fates, weights=weights)[0](f"{namespace}-{number}", chance)
        yield Arrival(chance.uniform(1.0, 5.0) * busy, namespace, body)


def long_job(name: str, seconds: float) -> Body:
    """One that can be looked at all the time: its workers are started again when they are lost."""
    runs = f"sleep {seconds:.0f}"
    return _job(
        name,
        {"ttlSecondsAfterFinished": 3600},
        Chief=(1, "OnFailure", runs),
        PS=(2, "OnFailure", _FOREVER),
        Worker=(3, "OnFailure", runs),
    )


def _trains(name: str, chance: random.Random) -> Body:
    """It does what it should."""
    long = f"sleep {chance.randint(25, 100)}"
    workers = (chance.randint(1, 4), "OnFailure", long)
    return _job(name, Chief=(1, "OnFailure", long), Worker=workers)


def _uses_parameter_servers(name: str, chance: random.Random) -> Body:
    """It does, too; its parameter servers run until it has ended."""
    long = f"sleep {chance.randint(30, 120)}"
    return _job(
        name,
        Chief=(1, "OnFailure", long),
        PS=(2, "OnFailure", _FOREVER),
        Worker=(2, "OnFailure", long),
    )


def _is_killed(name: str, chance: random.Random) -> Body:
    """Its worker is killed again and again, until no restart is left."""
    dying = f"sleep {chance.randint(4, 12)}; exit 137"
    return _job(name, {"backoffLimit": chance.randint(1, 3)}, Worker=(1, "ExitCode", dying))


def _fails(name: str, chance: random.Random) -> Body:
    """Its program has a bug."""
    failing = f"sleep {chance.randint(2, 30)}; exit 1"
    return _job(name, Worker=(chance.randint(1, 3), "Never", failing))


def _takes_too_long(name: str, chance: random.Random) -> Body:
    """It never ends by itself."""
    return _job(name, {"activeDeadlineSeconds": chance.randint(20, 60)}, Worker=(2, "OnFailure", _FOREVER))


def _waits(name: str, chance: random.Random) -> Body:
    """It is suspended until somebody resumes it."""
    long = f"sleep {chance.randint(20, 60)}"
    return _job(name, {"suspend": True}, Worker=(2, "OnFailure", long))


def _job(name: str, policy: Mapping[str, object] | None = None, **replicas: Template) -> Body:
    run = {"cleanPodPolicy": "Running", "ttlSecondsAfterFinished": _KEPT_SECONDS, **(policy or {})}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"runPolicy": run, "tfReplicaSpecs": {kind: _replicas(*spec) for kind, spec in replicas.items()}},
    }


def _replicas(count: int, restart: str, script: str) -> Body:
    container = {"name": "tensorflow", "image": _IMAGE, "command": ["sh", "-c", script]}
    template = {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}
    return {"replicas": count, "restartPolicy": restart, "template": template}


HABITS: Final[Mapping[str, Mapping[Callable[[str, random.Random], Body], int]]] = {
    "vision": {_trains: 7, _uses_parameter_servers: 3, _fails: 1, _waits: 1},
    "speech": {_trains: 4, _is_killed: 3, _uses_parameter_servers: 2},
    "ranking": {_trains: 3, _takes_too_long: 2, _fails: 2},
}
"""What becomes of the jobs of a namespace, and how often."""
