"""``tfjob wait``: until jobs have finished, or are in another phase."""

import argparse
import sys
from typing import Final

from tf_operator.cli import session, target
from tf_operator.cli.grammar import Commands
from tf_operator.client import AsyncTFJobs, JobPhase, WaitTimeout
from tf_operator.machinery.clock import SystemClock
from tf_operator.text import printable

_PHASES: Final = {str(phase).lower(): phase for phase in JobPhase if phase}
_EPILOG: Final = """\
exit codes: 0 all jobs succeeded (or reached the phase of --for); 1 a job failed (or ended in another phase); 124 timed
out"""


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "wait",
        help="wait until jobs have finished",
        description="Waits until jobs have succeeded or failed, and reports which.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument("name", nargs="+", metavar="JOB", help="name of a job")
    parser.add_argument(
        "--for", dest="phase", choices=tuple(_PHASES), metavar="PHASE", help="wait for this phase instead"
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        metavar="TIME",
        help="give up after this time, as in 90, 90s, 10m or 2h; default: never",
    )
    target.add_arguments(parser, changes=False)
    parser.set_defaults(run=lambda arguments: session.run(arguments, _wait))


def seconds(text: str) -> float:
    """A time on the command line: ``90``, ``90s``, ``10m`` or ``2h``."""
    unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1:], 0)
    try:
        value = float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write 90s, 10m or 2h")
    return value


async def _wait(jobs: AsyncTFJobs, arguments: argparse.Namespace) -> int:
    phase, clock = _PHASES.get(arguments.phase), SystemClock()
    end = clock.monotonic() + arguments.timeout if arguments.timeout else None
    is_well = True
    for name in [session.name_of(it, jobs) for it in arguments.name]:
        left = max(0.001, end - clock.monotonic()) if end else None
        try:
            job = await jobs.wait(name, until=phase, timeout=left)
        except WaitTimeout as error:  # with the time that was given, not what was left of it for this job
            raise WaitTimeout(error.job, arguments.timeout) from None
        reason = f": {printable(job.message)}" if job.message and job.phase is not JobPhase.SUCCEEDED else ""
        sys.stdout.write(f"{job.kind} {job.namespace}/{job.name} {job.phase.lower()}{reason}\n")
        is_well = is_well and job.phase is (phase or JobPhase.SUCCEEDED)
    return 0 if is_well else session.FAILED
