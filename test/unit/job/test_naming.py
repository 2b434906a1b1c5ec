"""Names and labels of children; and which replica a name is."""

import pytest

from support.jobs.builders import tfjob
from support.jobs.snapshots import job_of
from tf_operator.job import naming
from tf_operator.job.profile import NameStyle
from tf_operator.job.record import ReplicaType


@pytest.mark.parametrize(
    ("name", "replica"),
    [
        ("mnist-worker-0", (ReplicaType.WORKER, 0)),
        ("mnist-ps-12", (ReplicaType.PS, 12)),
        ("mnist-evaluator-999999", (ReplicaType.EVALUATOR, 999999)),
        ("mnist-worker-01", None),
        ("mnist-worker-1000000", None),
        ("mnist-worker--1", None),
        ("mnist-worker-", None),
        ("mnist-Worker-0", None),
        ("mnist-foo-0", None),
        ("mnist2-worker-0", None),
        ("other-worker-0", None),
        ("mnist-worker-٣", None),
    ],
)
def test_a_child_is_known_by_its_name(name, replica):
    assert naming.replica_of("mnist", name, NameStyle.STABLE) == replica


@pytest.mark.parametrize(
    ("name", "replica"),
    [
        ("mnist-worker-76no-0", (ReplicaType.WORKER, 0)),
        ("mnist-ps-1-12-k3x9q", (ReplicaType.PS, 12)),
        ("mnist-worker-0", None),
        ("mnist-worker-123456789-0", None),
        ("mnist-worker-76no-0-k3x9", None),
        ("mnist-worker-76NO-0", None),
        ("other-worker-76no-0", None),
    ],
)
def test_a_child_with_a_generated_name_is_known_by_it(name, replica):
    assert naming.replica_of("mnist", name, NameStyle.GENERATED) == replica


def test_a_name_that_no_object_has_is_nobodys_and_not_kept():
    """An owner reference may have one of a megabyte."""
    name, asked = "j" * 254, naming._replica_of.cache_info().misses

    assert naming.replica_of(name, f"{name}-worker-0", NameStyle.STABLE) is None
    assert naming.replica_of("j", f"j-{name}-0", NameStyle.STABLE) is None
    assert naming._replica_of.cache_info().misses == asked


def test_the_services_of_this_very_job_are_selected_by_its_uid():
    job = job_of(tfjob("mnist").workers(1))
    labels = naming.service_labels(job, ReplicaType.WORKER, 0)

    selected = dict(part.split("=") for part in naming.services_selector(job).split(","))

    assert selected.items() <= labels.items()
    assert selected["training.kubeflow.org/job-uid"] == "job-uid"
