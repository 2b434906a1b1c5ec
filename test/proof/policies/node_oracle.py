"""What has to be so of the nodes that a job avoids: the sentences of docs/behaviour.md, "Nodes that fail"."""

from collections.abc import Iterable, Iterator

from proof import oracle
from proof.oracle import Json

GIVEN_UP = -1
"""In place of the attempt of a pod that is made again for the sake of a node: what becomes of it counts nowhere."""
_FIVE_MINUTES = 300


def given_up(status: Json) -> set[str]:
    """The UIDs of pods that are replaced although nothing is wrong with them: nobody waits for any time after that."""
    return {entry["uid"] for entry in status.get("restartRecords", ()) if entry.get("replaced") and "time" not in entry}


def _nodes(status: Json) -> dict[str, Json]:
    return {entry["node"]: entry for entry in status.get("avoidedNodes", ())}


def _avoided(job: oracle.Job, status: Json) -> set[str]:
    """On which nodes no new pod may be."""
    return {node for node, entry in _nodes(status).items() if entry.get("avoided")} if job.avoid_after else set()


def on_status(write: oracle.Stored) -> Iterator[str]:
    """The table of what counts for a node, and that each failure does once."""
    old, new = _nodes(write.old), _nodes(write.new)
    if oracle.end_of(write.new):
        return
    is_stuck = any(oracle.of(write.happened | write.shown_facts, "stuck"))
    if write.job.avoid_after and not is_stuck and old.keys() - new.keys():
        yield "a node is forgotten, and no pod has waited for five minutes"
    for node in sorted({fact.node for fact in oracle.of(write.happened, "blamed")} | new.keys()):
        count = new.get(node, {}).get("failures", 0)
        most, least = (
            sum(fact.node == node for fact in oracle.of(known_facts, "blamed"))
            for known_facts in (write.happened, write.settled | write.shown_facts)
        )
        if count > most:
            yield f"node {node} is blamed for {count} failures, and no more than {most} have happened"
        if count < least and write.job.avoid_after and not is_stuck:
            yield f"node {node} is blamed for {count} failures, and {least} were seen"
        if write.job.avoid_after and bool(new.get(node, {}).get("avoided")) != (count >= write.job.avoid_after):
            yield f"node {node} is avoided after {count} failures, or it is not"


def on_create(now: oracle.Children, avoids: Iterable[str]) -> Iterator[str]:
    """New pods avoid what the status says, and nothing else."""
    if now.status and set(avoids) != _avoided(now.job, now.status):
        yield f"a new pod avoids {sorted(avoids)}, and the status says {sorted(_avoided(now.job, now.status))}"


def on_rest(now: oracle.Rest) -> Iterator[str]:
    """No state in which all nodes are avoided for ever: here every node has room for a pod that avoids none."""
    for pod in now.pods if not oracle.end_of(now.status) else ():
        if pod.has_waited:
            yield f"{pod.kind} {pod.ordinal} waits for ever for the nodes that it avoids"
        elif pod.is_unschedulable and (now.wait is None or now.wait > _FIVE_MINUTES):
            yield f"nobody looks again when {pod.kind} {pod.ordinal} has waited for five minutes"
