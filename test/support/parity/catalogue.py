"""All conversations by the name of their file; those about manifests are made from the table of manifests."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from support.jobs import manifest_cases
from support.parity.script import Conversation, Step, conversations, step
from support.resources import Json

FOLDER: Final = Path(__file__).parents[2] / "scenarios" / "parity"


def _manifests() -> Iterator[Conversation]:
    """Each manifest as a job, and the pods of its templates."""
    cases = manifest_cases.GOOD + manifest_cases.BROKEN_RULES + manifest_cases.BAD
    decoder = json.JSONDecoder(parse_float=_as_kubectl)
    jobs = [(case.name, decoder.raw_decode(case.text)[0]) for case in cases]
    yield Conversation("jobs of manifests", tuple(_created("tfjobs", name, job) for name, job in jobs))
    pods = [(name, pod) for name, job in jobs for pod in _pods(job)]
    yield Conversation("pods of manifests", tuple(_created("pods", name, pod) for name, pod in pods))


def _as_kubectl(digits: str) -> float:
    """It sends 3.0 as 3."""
    return int(float(digits)) if float(digits) % 1 == 0 else float(digits)


def _pods(job: Json) -> Iterator[Json]:
    replicas = (job.get("spec") or {}).get("tfReplicaSpecs") or {}
    for template in (spec.get("template") for spec in replicas.values() if isinstance(spec, dict)):
        if isinstance(template, dict) and isinstance(template.get("metadata") or {}, dict):
            yield {"metadata": (template.get("metadata") or {}) | {"name": "p"}, "spec": template.get("spec")}


def _created(collection: str, name: str, body: Json) -> Step:
    dry_run = step(f"POST {collection}?dryRun=All {json.dumps(body)} -> at metadata.name")
    return replace(dry_run, text=f"POST {collection} {name}")


CONVERSATIONS: Final[Mapping[str, tuple[Conversation, ...]]] = {
    **{file.stem: tuple(conversations(file)) for file in sorted((FOLDER / "conversations").glob("*.txt"))},
    "manifests": tuple(_manifests()),
}
