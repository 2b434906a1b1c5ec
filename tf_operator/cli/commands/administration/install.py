"""``tfjob install``: the operator in a cluster, or a newer one in its place."""

import argparse
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Final

from tf_operator.cli import session, target
from tf_operator.cli.commands import doctor, image
from tf_operator.cli.commands.wait import seconds
from tf_operator.cli.grammar import Commands
from tf_operator.cli.usage import UsageError
from tf_operator.client import AsyncTFJobs, NotPossible, cluster
from tf_operator.client.cluster import ClusterChoice
from tf_operator.client.images import image_name
from tf_operator.client.images.image_name import ImageName
from tf_operator.client.installation import objects
from tf_operator.client.installation.objects import NAME, Values
from tf_operator.machinery.clock import SystemClock

if TYPE_CHECKING:
    from tf_operator.client.installation.cluster_check import InstallationPlan

_READY_WITHIN: Final = 180.0
_DESCRIPTION: Final = """\
Installs the operator (CRD, permissions and Deployment), waits until it runs, and prints the findings of tfjob doctor.
To upgrade, repeat it with all options; objects that are no longer part of it are removed. Nothing is changed if the API
server would reject any of it, or if another operator serves the same jobs.

Helm has more options."""


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "install",
        help="install the operator in a cluster, or upgrade it",
        description=_DESCRIPTION,
        epilog="exit codes: 0 the operator runs; 1 it does not; 124 it is installed, but was not ready in time",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--image", default="", metavar="IMAGE", help="the operator's image, by the name under which nodes pull it"
    )
    which.add_argument(
        "--registry",
        default="",
        metavar="REGISTRY",
        help="build the image, push it to this registry, as in registry.example.com/team, and install it",
    )
    parser.add_argument(
        "--base",
        default="",
        metavar="IMAGE",
        help=f"with --registry: image to begin with; default: {image_name.OPERATOR_BASE}",
    )
    parser.add_argument("--ca", default="", metavar="FILE", help="with --registry: its certificate authorities, as PEM")
    parser.add_argument(
        "--watch",
        action="append",
        default=[],
        metavar="NAMESPACE",
        help="serve jobs in this namespace only, without permissions in others; may be repeated; default: serve all",
    )
    names = objects.features()
    parser.add_argument(
        "--with",
        dest="features",
        action="append",
        default=[],
        choices=names,
        metavar="FEATURE",
        help=f"one of {', '.join(names)}; may be repeated",
    )
    parser.add_argument("--dry-run", action="store_true", help="check, print the objects as YAML, and change nothing")
    parser.add_argument("--no-wait", dest="waits", action="store_false", help="do not wait until it runs")
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=_READY_WITHIN,
        metavar="TIME",
        help=f"wait for this time at most, as in 90s or 10m; default: {_READY_WITHIN:g}s",
    )
    target.add_arguments(parser, changes=True, of_operator=NAME)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    choice = target.choose(arguments)

    async def verb(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
        return await _install(jobs, arguments, choice)

    return session.run(arguments, verb, choice=choice)


async def _install(jobs: AsyncTFJobs, arguments: argparse.Namespace, choice: ClusterChoice) -> int:
    from tf_operator.client.installation import cluster_check, installer  # noqa: PLC0415 (only this command needs them)

    refuse_local(jobs, choice)
    values = _values(arguments)
    plan = await cluster_check.plan(jobs.client, values, jobs.api.crd.load())
    if arguments.dry_run:
        _print(plan)
        return 0
    if arguments.registry:
        target = image_name.parse_target(values.image)
        digest = await image.push_operator(target, base=arguments.base, tls=image.tls_of(arguments.ca))
        objects.set_image(plan.applied, f"{target}@{digest}")
    await installer.install(jobs.client, plan, lambda line: sys.stdout.write(f"{line} {session.where(jobs)}\n"))
    return await _wait(jobs, arguments, choice) if arguments.waits else 0


def refuse_local(jobs: AsyncTFJobs, choice: ClusterChoice) -> None:
    if cluster.is_local(choice, jobs.host):
        raise NotPossible("the local server has the operator in it: --context names a cluster")


def _values(arguments: argparse.Namespace) -> Values:
    everywhere = [name for name in arguments.features if objects.needs_everywhere(name)]
    if arguments.watch and everywhere:
        raise NotPossible(
            f"--with {everywhere[0]} needs permissions in all namespaces, and --watch {arguments.watch[0]} is for one:"
            " leave out either, or install with Helm, which has both (watch.namespaces)"
        )
    if arguments.image and (arguments.base or arguments.ca):
        raise UsageError("--base and --ca are for the image that --registry makes")
    return Values(
        image=str(_image(arguments)),
        namespace=arguments.namespace,
        job_namespaces=tuple(arguments.watch),
        features=tuple(arguments.features),
    )


def _image(arguments: argparse.Namespace) -> ImageName:
    if not arguments.registry:
        return image_name.parse(arguments.image)
    return image_name.parse_target(f"{arguments.registry.rstrip('/')}/{NAME}:{metadata.version(NAME)}")


def _print(plan: "InstallationPlan") -> None:
    from tf_operator.client.manifests import kube_yaml  # noqa: PLC0415 (as above)

    sys.stdout.write("---\n".join(kube_yaml.write(body) for body in plan.applied))
    for body in plan.removed:
        session.say(f"{objects.name_of(body)} would be deleted")


async def _wait(jobs: AsyncTFJobs, arguments: argparse.Namespace, choice: ClusterChoice) -> int:
    from tf_operator.client.installation import readiness  # noqa: PLC0415 (as above)

    session.say("Waiting until the operator runs ...")
    try:
        await readiness.wait_ready(jobs.client, arguments.namespace, SystemClock(), within=arguments.timeout)
    except readiness.NotReady as error:
        return session.failed(str(error), session.TIMED_OUT)
    return await doctor.report(jobs, choice)
