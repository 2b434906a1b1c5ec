"""``tfjob run`` without a cluster: the API server, the operator and the node in this process, for one job.

When the command ends, nothing is left: no process, no port, no folder. ``tfjob local up`` is for what shall stay.
"""

import argparse
import sys
from collections.abc import Sequence

from tf_operator.app import local
from tf_operator.cli import run_command, session
from tf_operator.cli.manifests import Manifest
from tf_operator.cli.milestones import Milestones
from tf_operator.cli.run_job import RunOptions
from tf_operator.client import AsyncTFJobs
from tf_operator.dialects import registry
from tf_operator.local import scratch
from tf_operator.local.state import StateFolder


def run(arguments: argparse.Namespace, found: Sequence[Manifest]) -> int:
    """Run the job among these objects; the exit code."""
    session.say(f"without a cluster: images are not used, programs run with {arguments.python or sys.executable}")
    with scratch.folder() as folder:
        return session.ended(lambda: _run(arguments, found, folder))


async def _run(arguments: argparse.Namespace, found: Sequence[Manifest], folder: StateFolder) -> int:
    reached = Milestones(session.say, is_on=arguments.verbose)
    apis = tuple(api for api in registry.SERVED if any(api.has(manifest.body) for manifest in found))
    options = local.LocalOptions(folder, local.this_interpreter(), apis)
    async with local.live(options, on_step=reached.reached) as cluster:
        jobs = AsyncTFJobs(arguments.namespace, kind=arguments.kind, transport=cluster.transport, clock=cluster.clock)
        async with jobs:
            kept = RunOptions(is_lasting=False, is_interactive=sys.stdin.isatty() and sys.stderr.isatty())
            return await run_command.follow(jobs, found, arguments, options=kept, milestones=reached)
