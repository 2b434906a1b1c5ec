"""The resources that controllers watch and write, by the names under which own writes are recorded."""

from collections.abc import Iterable
from typing import Final

from tf_operator.dialects.served import ServedAPI
from tf_operator.job.profile import OPERATOR_LABEL
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import selector_text
from tf_operator.planning.bodies import children, default_server, gang_schedulers
from tf_operator.planning.child_kinds import kinds
from tf_operator.planning.kueue import state

PODS: Final = children.PODS
SERVICES: Final = children.SERVICES


def uncached() -> frozenset[str]:
    """What is written so that no reconcile has to wait until a cache shows it."""
    extras = (kind.resource for kind in kinds.ALL)
    return frozenset(map(str, (default_server.CONFIG_MAPS, state.workloads(state.VERSIONS[0]), *extras)))


def child_selector(apis: Iterable[ServedAPI]) -> str:
    """The children of the jobs of these APIs: their caches are shared, and hold nothing else of the cluster."""
    names = sorted({profile.labels.operator_name for api in apis for profile in api.profiles})
    if len(names) == 1:
        return selector_text({OPERATOR_LABEL: names[0]})
    return f"{OPERATOR_LABEL} in ({','.join(names)})"


def pod_groups(gang_scheduler: str) -> Resource | None:
    """The PodGroups of a gang scheduler; ``None`` without one."""
    scheduler = gang_schedulers.find(gang_scheduler)
    return scheduler.resource if scheduler else None
