"""What is installed in the cluster, where the options leave it open: it is asked for once, before the start.

An API server that does not answer is asked again until it does.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tf_operator.app.options.options import Kueue, Options
from tf_operator.controller.job_queue.projections import NODES
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.log import Logger
from tf_operator.machinery.transport import discovery, errors, requests
from tf_operator.machinery.transport.client import ApiClient
from tf_operator.machinery.transport.requests import Resource, Scope
from tf_operator.planning.bodies import gang_schedulers
from tf_operator.planning.kueue import state
from tf_operator.text import one_line

ASKED_AGAIN_AFTER: Final = 5.0
"""Seconds between questions to an API server that does not answer."""
_IN_PLACE_SINCE: Final = (1, 36)
"""The release of Kubernetes in which a container can restart all others of its pod."""

_log = Logger(__name__)


class Detector:
    """Asks what else the cluster serves, and lets the operator list."""

    def __init__(self, client: ApiClient, clock: Clock, *, namespace: str) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace

    async def complete(self, options: Options) -> Options:
        """The options with all that depends on what is installed."""
        if options.kueue is Kueue.EXTERNAL:
            options = replace(options, kueue_version=await self.kueue_version())
            _log.info("queues of Kueue", version=options.kueue_version)
        if options.restarts_in_place and not await self.can_restart_in_place():
            _log.warning("before Kubernetes 1.36 no pod restarts in place; those of elastic jobs are replaced")
            options = replace(options, restarts_in_place=False)
        return await self._with_gang_scheduler(options)

    async def _with_gang_scheduler(self, options: Options) -> Options:
        """The options with a gang scheduler that is installed, if they leave it open which one, or which version."""
        by_job = tuple([await self._served_version(name) for name in options.gang_schedulers_by_job])
        name, rules = await self._served_version(options.gang_scheduler), options.job_queue
        if options.finds_gang_scheduler:
            name = await self.gang_scheduler(gang_schedulers.BY_PREFERENCE)
            _log.info("gang scheduling", scheduler=name or "none is installed")
            if not name and not rules and await self._serves(NODES, Scope()):
                _log.info("jobs are admitted whole, by what the nodes have left")
                rules = replace(options.queue_rules, resizes=False)
        return replace(options, gang_scheduler=name, gang_schedulers_by_job=by_job, job_queue=rules)

    async def _served_version(self, name: str) -> str:
        """A gang scheduler, by the name of its version that is served, if any is."""
        versions = gang_schedulers.versions(name)
        return (await self.gang_scheduler(versions) if versions else "") or name

    async def gang_scheduler(self, names: Iterable[str]) -> str:
        """The first of these gang schedulers whose PodGroups are served; empty for none."""
        for name in names:
            scheduler = gang_schedulers.find(name)
            if scheduler and await self._serves(scheduler.resource, Scope(self._namespace)):
                return name
        return ""

    async def kueue_version(self) -> str:
        """The newest version of Workloads that is served, or would be the first one tried when Kueue is installed."""
        for version in state.VERSIONS:
            if await self._serves(state.workloads(version), Scope(self._namespace)):
                return version
        return state.VERSIONS[0]

    async def can_restart_in_place(self) -> bool:
        while True:
            try:
                release = await discovery.release(self._client)
                return (_number(release.get("major")), _number(release.get("minor"))) >= _IN_PLACE_SINCE
            except errors.ApiError as error:
                _log.warning("the API server's version cannot be found out yet", error=one_line(str(error)))
                await self._clock.sleep(ASKED_AGAIN_AFTER)

    async def _serves(self, resource: Resource, scope: Scope) -> bool:
        """Whether there are such objects, and they may be listed."""
        while True:
            try:
                served = await discovery.served(self._client, resource.api_version)
                if resource.plural not in {kind.name for kind in served}:
                    return False  # without the permission, nobody is asked for what is absent
                await self._client.send(requests.list_page(resource, scope, limit=1))
            except errors.NotFound:
                return False
            except errors.Forbidden as error:
                # Permissions do not come by themselves, and without them its gangs could not be made anyway.
                _log.warning("what cannot be listed counts as not installed", error=one_line(str(error)))
                return False
            except errors.ApiError as error:
                _log.warning("what is installed cannot be found out yet", error=one_line(str(error)))
                await self._clock.sleep(ASKED_AGAIN_AFTER)
            else:
                return True


def _number(text: object) -> int:
    """The number of a release, of which some clouds write ``36+``."""
    digits = str(text).rstrip("+")
    return int(digits) if digits.isascii() and digits.isdigit() else 0
