"""``AsyncTFJobs``: everything that users do with training jobs, over one connection."""

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing
from copy import copy
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from tf_operator.client import changes, cluster, events, logs, package_client, pods, replacement, resources
from tf_operator.client.cluster import ClusterChoice
from tf_operator.client.events import JobEvent
from tf_operator.client.job import Job, JobList, NotPossible, deleted, read_job, type_in
from tf_operator.client.logs import LogFollower, LogLine, LogOptions
from tf_operator.client.pods import PODS, JobPod
from tf_operator.dialects import registry
from tf_operator.dialects.served import ServedAPI
from tf_operator.job.record import JobPhase
from tf_operator.machinery.clock import Clock, SystemClock
from tf_operator.machinery.ratelimit import TokenBucket
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.client import REPLY_WITHIN, ApiClient
from tf_operator.machinery.transport.config import ConfigurationError
from tf_operator.machinery.transport.requests import Scope
from tf_operator.machinery.transport.transport import Transport
from tf_operator.meta import Body, ObjectKey, key_of, metadata_of, text_of, uid_of

if TYPE_CHECKING:
    from tf_operator.client.explanation.situation import Explanation
    from tf_operator.client.functions.function_job import TrainOptions
    from tf_operator.client.manifests.files import Source
    from tf_operator.client.plan.job_plan import JobPlan
    from tf_operator.client.run.job_run import RunResult
    from tf_operator.client.usage import UsageList

DEFAULT_NAMESPACE: Final = "default"


class AsyncTFJobs:
    """The training jobs of one cluster; an async context manager.

    A job is named by its name, in the namespace of this object, or by a ``Job``, in its own.
    """

    def __init__(
        self,
        namespace: str = "",
        *,
        context: str | None = None,
        kubeconfig: str | None = None,
        kind: str = "tfjob",
        api_client: object | None = None,
        choice: ClusterChoice | None = None,
        transport: Transport | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Choose a cluster; nothing is sent yet.

        ``context`` and ``kubeconfig`` name it, or ``api_client``, a configured ``kubernetes.client.ApiClient``; without
        them it is found as by ``tfjob`` (``client.cluster``), and a cluster that nobody named is not changed:
        ``ClusterNotNamed``. ``namespace``: empty for that of the context, or else ``default``. ``kind``: as in kubectl
        or ``tfjob.kubeflow.org``. ``choice``: by ``cluster.choose``. ``transport``: in place of its own connection.
        """
        api = registry.find(kind)
        if api is None:
            raise ValueError(f"there is no kind {kind!r}: it is one of {registry.kinds()}")
        self.api: ServedAPI = api
        self.namespace = namespace
        if transport is None:
            packaged = package_client.choice(api_client, kubeconfig, context)
            choice = choice or packaged or cluster.choose(kubeconfig, context)
        self.choice = choice  # none over a transport that was given
        self._named_namespace = namespace
        self._missing = self._cluster = ""
        self._is_dry_run = False
        self._transport = transport
        self._clock = clock or SystemClock()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opened:
            if self._transport is None and self.choice is not None:
                try:
                    config, connection = await cluster.connection(self.choice, self._clock)
                    self.choice = self.choice.at(config)
                    self.namespace, self._cluster = self.namespace or config.namespace, self.choice.name(config)
                    self._transport = await opened.enter_async_context(connection)
                except ConfigurationError as error:
                    if self.choice.is_chosen:
                        raise
                    self._missing = str(error)
            self.namespace = self.namespace or DEFAULT_NAMESPACE
            self._stack = opened.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    @property
    def host(self) -> str:
        """The address of the API server."""
        return self._opened.host

    @property
    def cluster(self) -> str:
        """What the cluster is called: the context of the kubeconfig, or ``the local server at https://...``."""
        return self._cluster or self.host

    @property
    def client(self) -> ApiClient:
        """For requests that are about something else than jobs."""
        return self._client()

    def of_kind(self, kind: str, namespace: str = "") -> "AsyncTFJobs":
        """The jobs of another kind or namespace, over the same connection; open for as long as this object is."""
        other = AsyncTFJobs(
            namespace or self.namespace, kind=kind, choice=self.choice, transport=self._opened, clock=self._clock
        )
        other._cluster = self._cluster
        return other

    def dry_run(self) -> "AsyncTFJobs":
        """The same, but ``suspend``, ``resume``, ``scale`` and ``restart`` only raise what refuses them."""
        other: AsyncTFJobs = copy(self)
        other._is_dry_run = True
        return other

    async def submit(self, manifest: Mapping[str, Any], *, replace: bool = False) -> Job:
        """Create a job. ``AlreadyExists`` when its name is taken; ``Invalid`` names each field and its rule.

        ``replace``: then delete the job of that name, wait until its pods are gone, and create this one.
        """
        api = resources.job_api(manifest)
        try:
            body = await self.create(manifest)
        except errors.AlreadyExists:
            if not replace:
                raise
            there = key_of(manifest)
            key = ObjectKey(there.namespace or self.namespace, there.name)
            await replacement.remove(self.client, api.resource, key, self._clock)
            body = await self.create(manifest)
        if text_of(body, "apiVersion") != api.resource.api_version:  # of an older version: read as it is stored
            body = await self.client.get(api.resource, key_of(body))
        return self._job(body, api)

    async def create(self, manifest: Mapping[str, Any]) -> Body:
        """Create any object, such as the volume claim of a job, and return what was stored."""
        self._check_change()
        resource = await resources.resource_of(self.client, manifest)
        namespace = text_of(metadata_of(manifest), "namespace") or self.namespace
        return await self.client.create(resource, namespace if resource.is_namespaced else "", manifest)

    async def get(self, job: str | Job) -> Job:
        """The job as it is now; ``NotFound`` when there is none, or for a ``Job`` only another one of its name."""
        current = self._job(await self.client.get(self.api.resource, self._key(job)))
        if isinstance(job, Job) and current.uid != job.uid:
            raise deleted(job)
        return current

    async def list(self, *, all_namespaces: bool = False, selector: str = "") -> tuple[Job, ...]:
        """The jobs of the namespace, or of all, by name. ``selector``: by labels."""
        scope = Scope("" if all_namespaces else self.namespace, label_selector=selector)
        listed = await changes.list_all(self.client, self.api.resource, scope)
        jobs = [self._job(body) for body in listed.items]
        return JobList(sorted(jobs, key=lambda job: (job.namespace, job.name)))

    async def watch(self, job: str | Job) -> AsyncGenerator[Job, None]:
        """The job now, and after each change, until it is deleted; ``NotFound`` when there is none."""
        key = self._key(job)
        uid = job.uid if isinstance(job, Job) else (await self.get(job)).uid
        scope = Scope(key.namespace, field_selector=f"metadata.name={key.name}")
        async with aclosing(changes.follow(self.client, self.api.resource, scope, self._clock)) as batches:
            async for batch in batches:
                for change in batch:
                    if change.is_deleted or uid_of(change.body) != uid:  # another job has its name by now
                        return
                    yield self._job(change.body)
                if not batch:
                    return

    async def wait(
        self,
        job: str | Job,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 (as the sync client has it, which has no scopes)
        until: Callable[[Job], bool | Awaitable[bool]] | JobPhase | str | None = None,
        progress: bool = False,
    ) -> Job:
        """Wait until the job has finished, or is in another phase, or as ``until`` says.

        A job that has finished does not change any more, so it is returned whatever was waited for. ``progress``: show
        its progress. Raises ``WaitTimeout``, and ``NotFound`` when the job is deleted meanwhile.
        """
        from tf_operator.client.run import waiting  # noqa: PLC0415 (most commands wait for nothing)

        return await waiting.wait(self, job, clock=self._clock, seconds=timeout, until=until, shows=progress)

    async def pods(self, job: str | Job) -> tuple[JobPod, ...]:
        """The pods of a job, in the order of its replicas."""
        target = await self._resolve(job)
        listed = await changes.list_all(self.client, PODS, pods.scope_of(target))
        return pods.read_pods(target, listed.items, self.api)

    async def watch_pods(self, job: str | Job) -> AsyncGenerator[tuple[JobPod, ...], None]:
        """The pods of a job now, and after each change, for ever."""
        target = await self._resolve(job)
        async with aclosing(pods.follow(self.client, target, self.api, self._clock)) as versions:
            async for version in versions:
                yield version

    async def events(self, job: str | Job, *, with_pods: bool = True) -> tuple[JobEvent, ...]:
        """What was reported about a job and its pods, also about pods that are gone; the oldest first."""
        return await events.read(self.client, await self._resolve(job), with_pods=with_pods)

    async def watch_events(self, job: str | Job) -> AsyncGenerator[JobEvent, None]:
        """What is reported about a job: what was, then each event, for ever; one that is counted up comes again."""
        async with aclosing(events.follow(self.client, await self._resolve(job), self._clock)) as reported:
            async for event in reported:
                yield event

    async def logs(
        self,
        job: str | Job,
        *,
        replica: str = "",
        follow: bool = False,
        tail: int | None = None,
        previous: bool = False,
        container: str = "",
        longest: int | None = None,
    ) -> AsyncGenerator[LogLine, None]:
        """What the replicas print, one after the other; with ``follow`` all at once, until the job has ended.

        ``replica``: only this one, as in ``worker-0``. ``previous``: the run before the last restart in place.
        ``longest``: bytes of a line that are kept.
        """
        if tail is not None and tail < 0:
            raise NotPossible(f"the last {tail} lines cannot be shown: name 0 or more")
        target = await self._resolve(job)
        options = LogOptions(container, previous, tail, longest)
        if follow:
            client = self._client(reply_within=math.inf)
            follower = LogFollower(client, target, api=self.api, clock=self._clock, replica=replica, options=options)
            printed = follower.lines()
        else:
            printed = logs.read_each(self.client, logs.sources(target, await self.pods(target), replica), options)
        async with aclosing(printed) as lines:
            async for line in lines:
                yield line

    async def explain(self, job: str | Job) -> "Explanation":
        """Why a job is in its state, what it waits for, and what to do next; ``print`` shows it in sentences."""
        from tf_operator.client.explanation import checks, reading  # noqa: PLC0415 (no other verb waits for them)

        return checks.explain(await reading.read(self, await self.get(job), self._clock.now()))

    async def plan(self, source: "Source") -> "JobPlan":
        """What the operator would create for a manifest, or for the job in the file at a path. Needs no cluster.

        ``InvalidManifest`` names each field and its rule.
        """
        from tf_operator.client.plan import manifest_plan  # noqa: PLC0415 (as above)

        return manifest_plan.make(source, self.namespace)

    async def top(self, job: str | Job) -> "UsageList":
        """The CPU and memory that the replicas of a job use; ``NotPossible`` where no metrics API is served."""
        from tf_operator.client import usage  # noqa: PLC0415 (as above)

        current = await self._resolve(job)
        return await usage.read(self.client, current, await self.pods(current))

    async def run(
        self, source: "Source", *, replace: bool = False, on_line: "Callable[[LogLine], object] | None" = None
    ) -> "RunResult":
        """Submit a job, pass on the lines of its programs, and return how it has ended.

        On the cluster that was named, or on the local server if it runs: there an interruption leaves the job. Else on
        this machine, on a server for this job alone, of which nothing is left. ``source``: as for ``plan``; a file may
        contain what the job needs. ``on_line``: in place of printing the lines.
        """
        from tf_operator.client.run import job_run, own_machine, own_server  # noqa: PLC0415 (as above)

        order = job_run.read(source, self.namespace, replaces=replace, on_line=on_line)
        if self.choice is None or self.choice.is_chosen:
            order = order.on_this_machine() if self.choice and self.choice.runs_here else order
            return await job_run.run(self.of_kind(order.kind), order, self._clock)
        await own_machine.check_network(order.bodies)
        if warning := await own_machine.gpu_warning(order.bodies):
            order.say(f"warning: {warning}")
        async with (
            own_server.running() as kubeconfig,
            AsyncTFJobs(self._named_namespace, kubeconfig=kubeconfig, kind=order.kind) as jobs,
        ):
            return (await job_run.run(jobs, order.on_own_server(), self._clock)).without_server()

    async def train(
        self,
        train_func: Callable[..., object],
        *,
        replace: bool = False,
        on_line: "Callable[[LogLine], object] | None" = None,
        **options: "Unpack[TrainOptions]",
    ) -> "RunResult":
        """Run a function as ``run`` runs a manifest; ``options`` are the other arguments of ``TFJobs.train``.

        Only its source is sent. ``NotPossible``, before anything is created, for one that needs more.
        """
        from tf_operator.client.functions import function_job  # noqa: PLC0415 (as above)

        manifest = function_job.make(train_func, options, is_here=bool(self.choice and self.choice.runs_here))
        return await self.run(manifest, replace=replace, on_line=on_line)

    async def result(self, job: str | Job) -> Any:  # noqa: ANN401 (JSON)
        """What the function of a job returned; ``NotPossible``, with the reason, if there is no result."""
        from tf_operator.client.functions import returned  # noqa: PLC0415 (as above)

        current = await self.get(job)
        return returned.value(current, returned.message_of(await self.pods(current)))

    async def suspend(self, job: str | Job) -> Job:
        """Delete the pods of a job, and make none until it is resumed."""
        return await self._patch(await self._changeable(job), {"runPolicy": {"suspend": True}})

    async def resume(self, job: str | Job) -> Job:
        """Make the pods of a suspended job again."""
        return await self._patch(await self._changeable(job), {"runPolicy": {"suspend": False}})

    async def scale(self, job: str | Job, replicas: int, *, type: str = "Worker") -> Job:  # noqa: A002 (the field's name)
        """Change the number of replicas of one type; ``Invalid`` if the job neither is suspended nor may be scaled."""
        current = await self._changeable(job)
        return await self._patch(current, {"tfReplicaSpecs": {type_in(current, type): {"replicas": replicas}}})

    async def restart(self, job: str | Job, *, replica: str = "") -> tuple[JobPod, ...]:
        """Delete the pods whose programs have not ended, so that the operator makes new ones; those pods.

        It counts as a disruption, not towards ``backoffLimit``. What has ended stays. ``NotPossible`` for replicas
        that the job does not have, or under restart policy Never, whose job would fail.
        """
        current = await self._changeable(job)
        running = pods.to_restart(current, await self.pods(current), replica)
        for pod in () if self._is_dry_run else running:
            await self.client.delete(PODS, ObjectKey(pod.namespace, pod.name), uid=pod.uid)
        return running

    async def delete(self, job: str | Job, *, foreground: bool = False) -> None:
        """Delete a job with its pods: the job first, or with ``foreground`` when its pods have ended."""
        self._check_change()
        target = await self._resolve(job)
        key, propagation = self._key(target), "Foreground" if foreground else "Background"
        await self.client.delete(self.api.resource, key, uid=target.uid, propagation=propagation)

    async def _changeable(self, job: str | Job) -> Job:
        """The job as it is now, if it is one whose spec this client knows how to change."""
        self._check_change()
        fresh = await self.get(job)
        if self.api is not registry.DEFAULT:
            raise NotPossible(f"{fresh.kind} of {self.api.resource.group} cannot be changed here: edit it with kubectl")
        if fresh.is_finished:
            raise NotPossible(f"{fresh.kind} {fresh.name} has {fresh.phase.lower()}: submit it again to run it again")
        return fresh

    def _check_change(self) -> None:
        if self.choice is not None:
            self.choice.check_change()

    async def _patch(self, job: Job, spec: Body) -> Job:
        """Change this very job, and none that has its name by now."""
        body, is_dry = {"metadata": {"uid": job.uid}, "spec": spec}, self._is_dry_run
        return self._job(await self.client.merge_patch(self.api.resource, self._key(job), body, is_dry_run=is_dry))

    async def _resolve(self, job: str | Job) -> Job:
        return job if isinstance(job, Job) else await self.get(job)

    def _key(self, job: str | Job) -> ObjectKey:
        return ObjectKey(job.namespace, job.name) if isinstance(job, Job) else ObjectKey(self.namespace, job)

    def _job(self, body: Body, api: ServedAPI | None = None) -> Job:
        return read_job(body, api or self.api)

    @property
    def _opened(self) -> Transport:
        if self._missing:
            raise ConfigurationError(self._missing)
        if self._transport is None:
            raise RuntimeError("use it in 'async with'")
        return self._transport

    def _client(self, *, reply_within: float = REPLY_WITHIN) -> ApiClient:
        budget = TokenBucket(self._clock, qps=math.inf, burst=1)
        return ApiClient(self._opened, clock=self._clock, budget=budget, reply_within=reply_within)
