"""The differences between the embedded server and kube-apiserver that are meant, each with its reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from support.parity.normal import differences
from support.parity.script import Conversation

FILE: Final = Path(__file__).parents[2] / "scenarios" / "parity" / "differences.yaml"


@dataclass(frozen=True, slots=True)
class Excuse:
    """Why the answers to some steps differ."""

    reason: str
    """As it stands in docs/local-apiserver.md."""
    has_other_code: bool
    """Whether even the code differs, not only the body."""


def excuses() -> dict[tuple[str, str], Excuse]:
    """By conversation and the text of a step."""
    found: dict[tuple[str, str], Excuse] = {}
    for entry in yaml.safe_load(FILE.read_text()):
        excuse = Excuse(entry["reason"], entry.get("other_code", False))
        found |= {(name, text): excuse for name, texts in entry["steps"].items() for text in texts}
    return found


def unexcused(
    conversation: Conversation,
    *,
    real: Sequence[Mapping[str, Any]],
    embedded: Sequence[Mapping[str, Any]],
    known: Mapping[tuple[str, str], Excuse],
) -> list[str]:
    """Differences that have no reason, and reasons that have no difference, each with its step."""
    texts = [*(step.text for step in conversation.steps), *["the rest of a watch"] * len(real)]
    found = dict[str, list[str]]()
    for text, left, right in zip(texts, real, embedded, strict=False):
        found.setdefault(text, []).extend(differences(left, right))
    missing = [] if len(real) == len(embedded) else [f"{len(embedded)} answers instead of {len(real)}"]
    return missing + [
        complaint for text, one in found.items() for complaint in _complaints(conversation, text, one, known)
    ]


def _complaints(
    conversation: Conversation, text: str, found: list[str], known: Mapping[tuple[str, str], Excuse]
) -> list[str]:
    excuse = known.get((conversation.name, text))
    if excuse is None:
        return [f"{text}: {one}" for one in found]
    if not found:
        return [f"{text}: no longer differs; remove it from {FILE.name}"]
    return [f"{text}: {one}" for one in found if one.startswith(".code:") and not excuse.has_other_code]
