"""The plan of a manifest: checked first, as ``tfjob plan`` checks it."""

from collections.abc import Sequence
from dataclasses import replace

from tf_operator.client.job import NotPossible
from tf_operator.client.manifests import files, validate
from tf_operator.client.manifests.validate import Validation
from tf_operator.client.plan import dry_run
from tf_operator.client.plan.job_plan import JobPlan
from tf_operator.job.training_job import FieldError
from tf_operator.meta import key_of
from tf_operator.planning.snapshot import DEFAULT_SETTINGS


class InvalidManifest(NotPossible):
    """The manifest is invalid; ``errors`` names each field and its rule."""

    def __init__(self, where: str, errors: Sequence[FieldError]) -> None:
        super().__init__("\n".join(f"{where}: {error}" for error in errors))
        self.errors = tuple(errors)


def check(manifest: files.Manifest, namespace: str) -> Validation:
    """What is to be said about a job's manifest; ``InvalidManifest`` when it has errors."""
    validation = validate.check(manifest.body, namespace=key_of(manifest.body).namespace or namespace)
    if validation.errors:
        raise InvalidManifest(manifest.where, validation.errors)
    return validation


def make(source: files.Source, namespace: str) -> JobPlan:
    """The plan of the job in a manifest or file. ``namespace``: of a job that does not name its own."""
    validation = check(files.one_job(files.read_source(source)), namespace)
    plan = dry_run.run(validation.job, DEFAULT_SETTINGS)
    return replace(plan, warnings=(*map(str, validation.warnings), *plan.warnings))
