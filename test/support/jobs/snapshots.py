"""Jobs, and what is observed of them, as values: for tests of what is decided about objects that no schema lets in."""

from typing import Any

from support.embedded.simulator import MORNING
from support.jobs.builders import TFJobBuilder, merge
from support.resources import Json
from tf_operator.dialects.kubeflow import v1
from tf_operator.job.training_job import TrainingJob
from tf_operator.planning.snapshot import Snapshot

METADATA = {"namespace": "team", "uid": "job-uid", "resourceVersion": "1", "generation": 1}


def job_of(builder: TFJobBuilder, patch: Json | None = None) -> TrainingJob:
    """A stored job, over which somebody has written this patch."""
    return v1.API.read_object(merge(merge(builder.body(), {"metadata": METADATA}), patch or {}))


def snapshot_of(builder: TFJobBuilder, **observed: Any) -> Snapshot:  # noqa: ANN401
    """A new job, and what else is observed."""
    return Snapshot(job_of(builder), MORNING, **observed)
