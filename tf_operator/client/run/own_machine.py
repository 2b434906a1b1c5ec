"""Whether this machine gives a job the network of its own that it asks for."""

from collections.abc import Iterable

from tf_operator.client.job import NotPossible, read_job
from tf_operator.dialects import registry
from tf_operator.local.node.processes import network_requests
from tf_operator.meta import Body


async def check(bodies: Iterable[Body]) -> bool:
    """Whether a job asks for one; ``NotPossible`` if it cannot have it: it would wait for ever."""
    if not any(read_job(body, api).spec.is_isolated for body in bodies if (api := registry.api_of(body))):
        return False
    if reason := await network_requests.refusal():
        raise NotPossible(
            f"spec.networkPolicy: Job needs a network of the job's own, which this machine refuses ({reason}):"
            " run it as root, or allow user namespaces"
        )
    return True
