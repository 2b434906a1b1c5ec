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
    by_step: dict[tuple[str, str], Excuse] = {}
    for entry in yaml.safe_load(FILE.read_text()):
        excuse = Excuse(entry["reason"], entry.get("other_code", False))
        by_step |= {(name, text): excuse for name, texts in entry["steps"].items() for text in texts}
    return by_step


def unexcused(
    conversation: Conversation,
    *,
    real: Sequence[Mapping[str, Any]],
    embedded: Sequence[Mapping[str, Any]],
    known_excuses: Mapping[tuple[str, str], Excuse],
) -> list[str]:
    """Differences that have no reason, and reasons that have no difference, each with its step."""
    texts = [*(step.text for step in conversation.steps), *["the rest of a watch"] * len(real)]
    by_text = dict[str, list[str]]()
    for text, left, right in zip(texts, real, embedded, strict=False):
        by_text.setdefault(text, []).extend(differences(left, right))
    missing = [] if len(real) == len(embedded) else [f"{len(embedded)} answers instead of {len(real)}"]
    return missing + [
        complaint for text, one in by_text.items() for complaint in _complaints(conversation, text, one, known_excuses)
    ]


def _complaints(
    conversation: Conversation, text: str, complaints: list[str], known_excuses: Mapping[tuple[str, str], Excuse]
) -> list[str]:
    excuse = known_excuses.get((conversation.name, text))
    if excuse is None:
        return [f"{text}: {one}" for one in complaints]
    if not complaints:
        return [f"{text}: no longer differs; remove it from {FILE.name}"]
    return [f"{text}: {one}" for one in complaints if one.startswith(".code:") and not excuse.has_other_code]
