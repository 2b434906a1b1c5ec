"""Jobs with the status that the operator gives them: from a golden case, or from a life in the simulator."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from golden import case
from support.embedded.simulator import Simulator
from support.resources import Json
from tf_operator.dialects import registry

ROOT = Path(__file__).resolve().parents[3]


@cache
def golden() -> dict[str, Json]:
    """The job of each golden case as it is stored after the plan; shared, so nobody changes one."""
    jobs = {}
    for topic in case.topics(ROOT):
        plans = _read(topic, case.PLAN)
        for name, entry in _read(topic, case.INPUT).items():
            plan = plans[name]
            jobs[name] = _stored(case.full_job(entry), plan.get("statusFirst", plan.get("status")))
    return jobs


def _stored(job: Json, status: Json | str) -> Json:
    job = {**job, "metadata": {**job["metadata"], "creationTimestamp": "2026-03-01T08:00:00Z"}}
    return job if isinstance(status, str) else merged(job, {"status": case.full_texts(status)})


def merged(body: Mapping[str, Any], patch: Mapping[str, Any]) -> Json:
    """The object after a JSON merge patch; what is no object gives way to one."""
    new = {key: value for key, value in body.items() if patch.get(key, "") is not None}
    for key, value in patch.items():
        if value is not None:
            old_value = body.get(key)
            new[key] = (
                merged(old_value if isinstance(old_value, dict) else {}, value) if isinstance(value, dict) else value
            )
    return new


def lived(job: Json, *moves: Callable[[Simulator], None]) -> Json:
    """The job after these events, in the version in which it was created."""
    api = registry.api_of(job)
    assert api is not None
    simulator = Simulator(job, api=api)
    simulator.settle()
    for move in moves:
        move(simulator)
        simulator.settle()
    body = simulator.body
    if api.conversion is not None:
        body = api.conversion.convert(body, job["apiVersion"].rpartition("/")[2])
    return dict(body)


def _read(topic: str, suffix: str) -> Json:
    body: Json = yaml.load((ROOT / case.FOLDER / f"{topic}{suffix}").read_text(encoding="utf-8"), yaml.CSafeLoader)
    return body
