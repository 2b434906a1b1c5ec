"""``tfjob run``: a job from its manifest to its end, with its progress, its logs and its exit code."""

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from tf_operator.cli import session, target
from tf_operator.cli.grammar import Commands
from tf_operator.cli.manifests import submission
from tf_operator.cli.run import job_run, local_flags
from tf_operator.cli.run.local_flags import LocalFlagError
from tf_operator.client import AsyncTFJobs, cluster
from tf_operator.client.cluster import ClusterChoice
from tf_operator.dialects import registry
from tf_operator.local.node.machine import user_python
from tf_operator.meta import Body

_EPILOG: Final = """\
exit codes: 0 the job succeeded; 1, or the code of its first failure; 2 wrong usage; 130 interrupted. Ctrl-C asks
whether to stop a job in a cluster; without a terminal, it goes on. A local job always stops, also on SIGTERM (143)
and when its terminal closes (129): its programs get their grace period, and a second Ctrl-C kills them"""


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "run",
        help="run a job to completion",
        description="Submits a job, streams its progress and logs, and exits with the job's exit code. Runs locally"
        " unless you name a cluster.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    submission.add_arguments(parser, "one job and the objects that it needs")
    parser.add_argument("--no-logs", action="store_true", help="show the progress only")
    parser.add_argument("--rm", action="store_true", help="delete the job when it has ended")
    local_flags.add_arguments(parser)
    target.add_arguments(parser, changes=True)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    objects = submission.read_one(arguments)
    if objects is None:
        return session.FAILED
    (resource,) = (api.resource for it in objects if (api := registry.api_of(it.body)))
    arguments.kind = f"{resource.kind}.{resource.group}"
    choice = target.named(arguments)
    chooses_gpus = arguments.gpus or arguments.share_gpus
    if choice and (arguments.python or arguments.mount or arguments.env_file or chooses_gpus):
        rule = "--python, --mount, --env-file, --gpus and --share-gpus are for this machine"
        return session.failed(f"{rule}, and {choice.reason} is used", session.USAGE)
    server = None if choice else cluster.local()
    if server and chooses_gpus:
        rule = f"{server.reason} has its GPUs from 'tfjob local up', which takes --gpus and --share-gpus"
        return session.failed(rule, session.USAGE)
    try:
        objects = (
            objects if choice else [replace(it, body=_on_this_machine(it.body, arguments, server)) for it in objects]
        )
    except LocalFlagError as error:
        return session.failed(str(error), session.USAGE)
    choice = choice or server
    if choice is None:
        from tf_operator.cli.run import without_cluster  # noqa: PLC0415 (the operator is needed here only)

        return without_cluster.run(arguments, objects)
    if server:
        local_flags.explain_images(f"on {server.reason}", arguments)
        local_flags.explain_network([manifest.body for manifest in objects])
        session.say(
            "their variables are those of the shell in which 'tfjob local up' was typed; --env-file adds others"
        )

    async def verb(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
        return await job_run.follow(jobs, objects, arguments)

    return session.run(arguments, verb, choice=choice)


def _on_this_machine(body: Body, arguments: argparse.Namespace, server: ClusterChoice | None) -> Body:
    """An object with what the flags say, and with folder and Python of this shell where a server has others."""
    if server is None:
        return local_flags.prepared(body, arguments)
    return local_flags.prepared(body, arguments, default_python=user_python(os.environ), folder=str(Path.cwd()))
