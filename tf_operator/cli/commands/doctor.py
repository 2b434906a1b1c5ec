"""``tfjob doctor``: what a cluster, or the permissions of its user, lack for training jobs; each with what to do."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Final

from msgspec import structs

from tf_operator.cli import access, diagnosis, session, target
from tf_operator.cli.diagnosis import Finding
from tf_operator.cli.grammar import Commands
from tf_operator.client import ApiError, AsyncTFJobs, Forbidden, NotFound, changes, cluster
from tf_operator.client.cluster import ClusterChoice
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.transport import discovery, requests, responses
from tf_operator.machinery.transport.requests import Resource, Scope
from tf_operator.meta import Body, ObjectKey
from tf_operator.planning.kueue import state

_CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", is_namespaced=False
)
_LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
_DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
_OURS: Final = "app.kubernetes.io/name=tf-operator"
_KUBEFLOWS: Final = "control-plane=kubeflow-training-operator"
_LEASE_NAMES: Final = ("tf-operator", "1ca428e5.training-operator.kubeflow.org")


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "doctor",
        help="check a cluster and your permissions",
        description="Checks the API server, the CRD, the operator, Kueue (if it is installed) and your permissions,"
        " and says how to get what is missing.",
        epilog="exit codes: 0 nothing is missing; 1 something is missing",
        allow_abbrev=False,
    )
    target.add_arguments(parser, changes=False)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    choice = target.choose(arguments)

    return session.run(arguments, lambda jobs, _: report(jobs, choice), choice=choice)


async def report(jobs: AsyncTFJobs, choice: ClusterChoice) -> int:
    """Print the findings; the exit code."""
    is_well = True
    async for finding in findings(jobs, choice):
        sys.stdout.write(f"{finding}\n")
        is_well = is_well and finding.is_well is not False
    return 0 if is_well else session.FAILED


async def findings(jobs: AsyncTFJobs, choice: ClusterChoice) -> AsyncIterator[Finding]:
    """What was found, in the order in which things depend on each other."""
    release = await discovery.release(jobs.client)
    yield Finding.well(f"the API server {release.get('gitVersion', '')} at {jobs.host} answers; it is {choice.reason}")
    is_local = cluster.is_local(choice, jobs.host)
    yield await _crd(jobs, is_local=is_local)
    if is_local:
        yield Finding.well("the operator is part of this server")
    else:
        async for finding in _operator(jobs):
            yield finding
        async for finding in _queues(jobs):
            yield finding
    yield await _permissions(jobs)


async def _crd(jobs: AsyncTFJobs, *, is_local: bool) -> Finding:
    key = ObjectKey("", diagnosis.crd_name(jobs.api))
    try:
        return diagnosis.of_crd(jobs.api, await jobs.client.get(_CRDS, key), is_local=is_local)
    except NotFound:
        return Finding.wrong(f"{jobs.api.resource} are not served: the CRD does not exist", diagnosis.INSTALL)
    except Forbidden:
        served = await discovery.served(jobs.client, jobs.api.resource.api_version)
        if any(entry.name == jobs.api.resource.plural for entry in served):
            return Finding.unknown(f"{jobs.api.resource} are served; you may not see by which release")
        return Finding.wrong(f"{jobs.api.resource} are not served", diagnosis.INSTALL)


async def _operator(jobs: AsyncTFJobs) -> AsyncIterator[Finding]:
    try:
        deployments = [
            body
            for selector in (_OURS, _KUBEFLOWS)
            for body in await _list_all(jobs, _DEPLOYMENTS, Scope("", selector))
        ]
        scopes = [Scope("", field_selector=f"metadata.name={name}") for name in _LEASE_NAMES]
        leases = [body for scope in scopes for body in await _list_all(jobs, _LEASES, scope)]
    except Forbidden:
        yield Finding.unknown(
            "you may not see whether an operator is running", "ask an administrator to run tfjob doctor"
        )
        return
    for finding in diagnosis.of_operator(leases, deployments, SystemClock().now()):
        yield finding


async def _queues(jobs: AsyncTFJobs) -> AsyncIterator[Finding]:
    profile = jobs.api.profile
    if not profile.suspend_path or not await _has_kueue(jobs):
        return
    try:
        by_operator = diagnosis.makes_workloads(await _list_all(jobs, _DEPLOYMENTS, Scope("", _OURS)))
        queued_job = await _try_queue(jobs)
    except ApiError as error:
        yield Finding.unknown(f"cannot find out whether jobs wait in queues of Kueue: {error}")
        return
    value: object = queued_job.get("spec")
    for name in profile.suspend_path:
        value = value.get(name) if isinstance(value, Mapping) else None
    yield diagnosis.of_queues(by_operator=by_operator, by_kueue=value is True)


async def _has_kueue(jobs: AsyncTFJobs) -> bool:
    return any([await discovery.served(jobs.client, f"{state.GROUP}/{version}") for version in state.VERSIONS])


async def _try_queue(jobs: AsyncTFJobs) -> Body:
    """What would be stored of a job with a queue, by a dry run: Kueue's own code is a webhook, which suspends it."""
    resource = jobs.api.resource
    template = {"spec": {"containers": [{"name": jobs.api.profile.container, "image": "none"}]}}
    job = {
        "metadata": {"name": "tfjob-doctor", "labels": {state.QUEUE: "tfjob-doctor"}},
        "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1, "template": template}}},
    }
    request = structs.replace(requests.create(resource, jobs.namespace, job), query={"dryRun": "All"})
    return responses.read_object(await jobs.client.send(request))


async def _list_all(jobs: AsyncTFJobs, resource: Resource, scope: Scope) -> list[Body]:
    return (await changes.list_all(jobs.client, resource, scope)).items


async def _permissions(jobs: AsyncTFJobs) -> Finding:
    needed = diagnosis.permissions(jobs.api)
    try:
        answers = await asyncio.gather(*(access.is_allowed(jobs, permission) for permission in needed))
    except ApiError as error:
        return Finding.unknown(f"your permissions cannot be checked: {error}")
    return diagnosis.of_permissions(
        [permission for permission, is_allowed in zip(needed, answers, strict=True) if not is_allowed], jobs.namespace
    )
