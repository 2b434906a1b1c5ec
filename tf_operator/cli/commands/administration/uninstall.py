"""``tfjob uninstall``: takes away what ``tfjob install`` has made; jobs stay."""

import argparse
import sys

from tf_operator.cli import session, target
from tf_operator.cli.commands.administration.install import refuse_local
from tf_operator.cli.grammar import Commands
from tf_operator.client import AsyncTFJobs, NotPossible
from tf_operator.client.installation.objects import NAME
from tf_operator.meta import key_of
from tf_operator.text import printable


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "uninstall",
        help="remove the operator that tfjob install has installed",
        description="Removes what tfjob install has created, also the roles of users. Jobs, their pods and the CRD"
        " stay: pods keep running, without restarts or status updates, and a new installation takes them over. The"
        " namespace stays if it contains anything else.",
        allow_abbrev=False,
    )
    parser.add_argument("--crds", action="store_true", help="delete the CRD, too, and with it all jobs and their pods")
    parser.add_argument("--yes", action="store_true", help="do not ask before jobs are deleted")
    target.add_arguments(parser, changes=True, of_operator=NAME)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    choice = target.choose(arguments)

    async def verb(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
        refuse_local(jobs, choice)
        return await _uninstall(jobs, arguments)

    return session.run(arguments, verb, choice=choice)


async def _uninstall(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    from tf_operator.client.installation import cluster_check, installer  # noqa: PLC0415 (only this command needs them)

    ours = await cluster_check.list_ours(jobs.client)
    if not [body for body in ours if arguments.crds or body["kind"] != "CustomResourceDefinition"]:
        await _refuse_helm(jobs)
        session.say(f"tfjob install has made nothing {session.where(jobs)}")
        return 0
    for body in ours:
        if body["kind"] == "Deployment" and key_of(body).namespace != arguments.namespace:
            raise NotPossible(
                f"the operator is installed in namespace {key_of(body).namespace}: name it with --namespace"
            )
    if arguments.crds and not arguments.yes and any(body["kind"] == "CustomResourceDefinition" for body in ours):
        await _confirm(jobs)
    await installer.uninstall(
        jobs.client,
        ours,
        lambda line: sys.stdout.write(f"{line} {session.where(jobs)}\n"),
        with_crds=arguments.crds,
    )
    return 0


async def _refuse_helm(jobs: AsyncTFJobs) -> None:
    from tf_operator.client import changes  # noqa: PLC0415 (as above)
    from tf_operator.client.installation import objects, ownership  # noqa: PLC0415
    from tf_operator.machinery.transport.requests import EVERYWHERE  # noqa: PLC0415

    for deployment in (await changes.list_all(jobs.client, objects.DEPLOYMENTS, EVERYWHERE)).items:
        if release := ownership.helm_release(deployment):
            raise NotPossible(f"Helm has installed the operator, as the release {release}: helm uninstall removes it")


async def _confirm(jobs: AsyncTFJobs) -> None:
    """Ask before jobs are deleted; ``NotPossible`` unless somebody says yes."""
    from tf_operator.client import changes  # noqa: PLC0415 (as above)
    from tf_operator.machinery.transport.requests import EVERYWHERE  # noqa: PLC0415

    stored = (await changes.list_all(jobs.client, jobs.api.resource, EVERYWHERE)).items
    number, places = len(stored), len({key_of(body).namespace for body in stored})
    what = f"{number} {jobs.api.resource.kind}{'s'[: number != 1]} in {places} namespace{'s'[: places != 1]}"
    loss = f"with the CRD {what} and their pods are deleted {session.where(jobs)}"
    if not sys.stdin.isatty():
        raise NotPossible(f"nothing was changed: {loss}; --yes confirms it")
    sys.stderr.write(f"{printable(loss[0].upper() + loss[1:])}. Go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise NotPossible("nothing was changed")
