"""In how many older versions objects may still be stored: while there is one, even lists in the newest need a webhook.

Every replica looks, leading or not: an alert has to know it when the last one is gone. Where the CRD may not be read,
nothing is known; a right that is given later counts from then on, because without it a replica that starts cold would
wait for a cache that waits for the replica.
"""

from collections.abc import Callable, Sequence
from typing import Final

from tf_operator.app.crd_apply import CRDS
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.meta import Body, ObjectKey

EVERY: Final = 30.0

_log = Logger(__name__)


async def watch(crds: Sequence[str], client: ApiClient, clock: Clock, report: Callable[[str, int], object]) -> None:
    """Report of each CRD in how many older versions objects may be stored, again and again, until cancelled."""
    unreadable: set[str] = set()
    while True:
        for name in crds:
            try:
                report(name, _older(await client.get(CRDS, ObjectKey("", name))))
                unreadable.discard(name)
            except errors.Forbidden:
                if name not in unreadable:
                    _log.info("stored versions unknown: the CRD cannot be read", crd=name)
                unreadable.add(name)
            except errors.ApiError:  # the API server is away, or the CRD: other parts report it
                pass
        await clock.sleep(EVERY)


def _older(crd: Body) -> int:
    stored = (crd.get("status") or {}).get("storedVersions") or ()
    reconciled = {entry["name"] for entry in crd["spec"]["versions"] if entry["storage"]}
    return len(set(stored) - reconciled)
