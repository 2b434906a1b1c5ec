"""The sentences of docs/behaviour.md about more memory after OOM kills; the rest of its page is in ``oracle``."""

from collections.abc import Iterator

from proof import oracle
from proof.oracle import Fact, Facts, Stored


def on_status(write: Stored) -> Iterator[str]:
    """The section about them: a growth has a pod that was killed with what was in force, and is no failure."""
    for kind, sizes in write.job.sizes.items():
        old, new = (status.get("replicaStatuses", {}).get(kind, {}) for status in (write.old, write.new))
        size, next_size = (write.job.size_of(kind, entry.get("memory", "")) for entry in (old, new))
        if next_size < size or next_size >= len(sizes):
            yield f"the memory of {kind} goes from {old.get('memory')} to {new.get('memory')}"
        kills = _kills(write.happened, kind)
        if next_size > size and (next_size > size + 1 or not any(fact.number == size for fact in kills)):
            yield f"the memory of {kind} grows, and no pod was killed with what was in force"
        if new.get("oomRestarts", 0) > len(kills):
            yield f"{new.get('oomRestarts')} OOM kills of {kind} are not counted, and {len(kills)} have happened"
        shown = _kills(write.shown_facts | write.settled, kind)
        if oracle.end_of(write.new) or write.job.is_whole:
            continue
        if any(fact.number >= next_size for fact in shown):
            yield f"{kind} was killed for its memory, and the next pod has no more"
        if new.get("oomRestarts", 0) < len(shown):
            yield f"an OOM kill of {kind} counts towards the limit, or not at all"


def _kills(facts: Facts, kind: str) -> set[Fact]:
    """The OOM kills of a type for which there was more memory."""
    return {fact for fact in facts if fact.outcome == "outgrown" and fact.kind == kind}
