"""What the controller keeps of a job between reconciles, and may lose at any time.

Nothing here decides how a job ends: that is in its status.
"""

from collections.abc import Callable

from tf_operator.controller.departed_pods import DepartedPods
from tf_operator.controller.progress.reports import DEFAULT_PACE, Pace, ProgressReports
from tf_operator.controller.rejections import Rejections
from tf_operator.controller.status_batches import StatusBatches
from tf_operator.job.training_job import TrainingJob
from tf_operator.machinery.clock import Clock


class JobNotes:
    """Four things, each by the UID of the job."""

    def __init__(
        self,
        clock: Clock,
        phase_of: Callable[[str], str | None],
        job_of: Callable[[str], TrainingJob | None],
        pace: Pace = DEFAULT_PACE,
    ) -> None:
        """``phase_of``: where the job of this UID stands; ``None`` if there is none, and nothing is kept of it.

        ``job_of``: the job itself, which may have to be decoded.
        """

        def exists(uid: str) -> bool:
            return phase_of(uid) is not None

        self.rejections = Rejections(clock, exists)
        self.departed_pods = DepartedPods(phase_of, job_of)
        self.status_batches = StatusBatches(clock, exists)
        self.progress_reports = ProgressReports(clock, phase_of, pace)

    def begin_term(self) -> None:
        """This process leads from now on: what was refused, created or seen before is the predecessor's affair."""
        self.rejections.begin_term()
        self.departed_pods.begin_term()
        self.status_batches.begin_term()
        self.progress_reports.begin_term()

    def end_term(self) -> None:
        """This process stands by from now on, and keeps no more than a leader may have to know."""
        self.departed_pods.end_term()

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self.rejections.forget(uid)
        self.departed_pods.forget(uid)
        self.status_batches.forget(uid)
        self.progress_reports.forget(uid)

    def __len__(self) -> int:
        pods = len(self.departed_pods)
        return pods + len(self.rejections) + len(self.status_batches) + len(self.progress_reports)
