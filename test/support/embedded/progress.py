"""Programs of a ``Simulator`` that report how far they are."""

from typing import Final

from support.embedded.controller_harness import Harness
from support.embedded.pod_events import Move
from support.embedded.simulator import Simulator
from tf_operator.controller.progress.intake import Outcome, ProgressIntake, TokenOwner
from tf_operator.job.progress import Progress
from tf_operator.planning.bodies.progress_reporting import ProgressServer
from tf_operator.planning.snapshot import Settings

LISTENING: Final = Settings(progress=ProgressServer("https://operator", authority="a certificate"))
"""The settings of an operator that takes reports."""


def intake_of(operator: Harness) -> ProgressIntake:
    pods, notes = operator.caches.pods.store, operator.notes
    return ProgressIntake(operator.jobs, operator.decoded, pods, operator.queue, notes.progress_reports)


def reports(step: int | None = None, percentage: int | None = None) -> Move:
    """The program of the job reports, and the operator takes it."""

    def report(simulator: Simulator) -> None:
        intake = intake_of(simulator.operator)
        simulator.operator.sync()
        progress = Progress(percentage, step=step, time=simulator.now)
        assert intake.take(simulator.key, TokenOwner(simulator.job.uid), progress) is Outcome.TAKEN

    return report


def is_taken_over(simulator: Simulator) -> None:
    """Another operator leads, and has heard nothing."""
    simulator.restart()
