"""Whether pods have the time to save a checkpoint before they are killed.

A pod that is evicted or deleted gets SIGTERM, and SIGKILL after its grace period. How long saving takes only the
program knows: of one that does not report it, nothing is said.
"""

from tf_operator.job import templates
from tf_operator.job.progress import Progress
from tf_operator.job.training_job import TrainingJob


def too_short(job: TrainingJob, progress: Progress | None) -> str:
    """What is too short, by both numbers, and what to set instead; empty if nothing is, or nobody knows.

    That of the replica which reports: it is the one that saves.
    """
    save = progress.longest_save if progress and progress.checkpoint else None
    spec = job.spec_of(job.main_replica[0]) if save else None
    if save is None or spec is None or save <= (grace := templates.grace_seconds(spec)):
        return ""
    return (
        f"saving a checkpoint took {save} s, and a pod that is evicted or deleted is killed after {grace} s:"
        f" set {spec.path}.template.spec.terminationGracePeriodSeconds to more than {save}"
    )
