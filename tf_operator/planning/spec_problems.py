"""What is wrong with the spec of a job, and whether it ends the job or is only reported.

A new job with any problem is refused. A job that training-operator 1.9 has started goes on as 1.9 ran it, if 1.9
accepts what we refuse: then its condition says what is wrong. No edit ends a job that runs (``invalid_edits``).
"""

from typing import Final

from msgspec import structs

from tf_operator.job import constants
from tf_operator.job.training_job import FieldError, ReplicaSpec, TFConfigFormat, TrainingJob
from tf_operator.job.validation import validate
from tf_operator.planning.bodies import children, cluster_spec
from tf_operator.planning.job_view import JobView

_MOST_PROBLEMS = 5
FITS_ALWAYS: Final = 128
"""So many replicas fit into a TF_CONFIG with the longest names and domain that there are: it need not be measured."""


def of_new(job: TrainingJob, domain: str = "") -> tuple[FieldError, ...]:
    """Everything that is wrong with a job that has not been started."""
    return validate(job) or _too_large_environment(job, domain)


def fatal(view: JobView) -> tuple[FieldError, ...]:
    """The problems with which no job can be run."""
    snapshot, problems = view.snapshot, view.problems
    if not problems and not snapshot.pods:
        problems = _too_large_environment(snapshot.job, snapshot.settings.cluster_domain)
    is_started = bool(snapshot.pods) or snapshot.job.record.start_time is not None
    return () if is_started and all(problem.is_tolerated for problem in problems) else problems


def tolerated(view: JobView) -> tuple[FieldError, ...]:
    """The problems with which a job goes on."""
    return tuple(problem for problem in view.problems if problem.is_tolerated)


def remark(view: JobView) -> str:
    """What is said of an edit that is ignored; empty when there is none."""
    if view.snapshot.ignored:
        return f"Its spec is invalid, and what is wrong with it is ignored: {text(view.snapshot.ignored)}."
    if view.snapshot.is_under_way and (problems := fatal(view)):
        effect = "until it is corrected, its pods stay as they are, and the job does not end"
        return f"Its spec is invalid: {text(problems)}; {effect}."
    return ""


def text(problems: tuple[FieldError, ...]) -> str:
    """The problems in one line of bounded length."""
    more = f"; and {len(problems) - _MOST_PROBLEMS} more" if len(problems) > _MOST_PROBLEMS else ""
    return "; ".join(str(problem) for problem in problems[:_MOST_PROBLEMS]) + more


def _too_large_environment(job: TrainingJob, domain: str) -> tuple[FieldError, ...]:
    """No process starts with a longer TF_CONFIG: without this check its pods would fail one after the other."""
    if job.pod_count <= FITS_ALWAYS:
        return ()
    size = _largest_tf_config(job, domain)
    if size <= cluster_spec.MOST_BYTES:
        return ()
    largest = max(job.replicas, key=lambda spec: spec.count)
    fitting = _fitting_count(job, largest, domain)
    field, sparse = job.profile.words.tf_config_format, TFConfigFormat.SPARSE
    is_open = field and job.tf_config_format is not sparse
    advice = f"; with {field} {sparse} a replica sees only the replicas that it needs" if is_open else ""
    rule = (
        f"must be at most {fitting} with names of this length, is {largest.count}: {constants.TF_CONFIG} would have"
        f" {size} bytes, and Linux starts no process with more than {cluster_spec.MOST_BYTES}{advice}"
    )
    return (FieldError(f"{largest.path}.replicas", rule),)


def _largest_tf_config(job: TrainingJob, domain: str) -> int:
    own = children.types_with_own_tf_config(job)
    specs = [spec for spec in job.replicas if spec.count and spec.type not in own]
    return max((cluster_spec.size(job, spec, domain=domain) for spec in specs), default=0)


def _fitting_count(job: TrainingJob, spec: ReplicaSpec, domain: str) -> int:
    """How many replicas of this type fit beside the others: the size grows with the count, so it is bisected."""
    least, most = 0, spec.count
    while most - least > 1:
        middle = (least + most) // 2
        others = tuple(
            structs.replace(entry, count=middle) if entry.type is spec.type else entry for entry in job.replicas
        )
        fits = _largest_tf_config(structs.replace(job, replicas=others), domain) <= cluster_spec.MOST_BYTES
        least, most = (middle, most) if fits else (least, middle)
    return least
