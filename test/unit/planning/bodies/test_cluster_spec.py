"""TF_CONFIG, byte for byte; and how often the large part of it is worked out."""

import json
import re
import subprocess
from functools import partial

import pytest
from msgspec import structs

from support.jobs.builders import TFJobBuilder, tfjob
from support.jobs.snapshots import job_of, snapshot_of
from support.jobs.templates import Template
from tf_operator.job.record import ReplicaType
from tf_operator.meta import ObjectKey
from tf_operator.planning import spec_problems
from tf_operator.planning.bodies import cluster_spec
from tf_operator.planning.plan import make_plan


def config(job, kind, index):
    return cluster_spec.tf_config(job_of(job), kind, index)


def test_a_type_without_replicas_is_an_empty_list():
    """training-operator: TestClusterSpec."""
    job = tfjob("j").workers(1).replicas("Chief", 0)

    assert json.loads(config(job, ReplicaType.WORKER, 0))["cluster"].keys() == {"chief", "worker"}


def test_without_servers_a_dynamic_worker_has_an_empty_list_of_them():
    """1.9 writes null, which TensorFlow refuses."""
    job = tfjob("j").workers(2).dynamic_workers()

    assert json.loads(config(job, ReplicaType.WORKER, 0))["cluster"]["ps"] == []


@pytest.mark.parametrize(
    ("ports", "number"),
    [
        ([{"name": "tfjob-port", "containerPort": 5}], 5),
        ([{"name": "x", "containerPort": 5}], 2222),
        ([{"name": "tfjob-port", "containerPort": "5"}], 2222),
        ([3, None], 2222),
        ({}, 2222),
    ],
    ids=["ours", "another", "a text", "no ports", "no list"],
)
def test_the_port_is_the_one_of_the_agreed_name(ports, number):
    job = job_of(tfjob().workers(2, template=Template().main(ports=ports)))

    assert cluster_spec.port_of(job, job.replicas[0]) == number


def test_the_part_that_all_have_in_common_is_rendered_once_for_a_thousand_workers(monkeypatch):
    rendered = []
    full = cluster_spec.full_cluster
    monkeypatch.setattr(cluster_spec, "full_cluster", lambda job, domain: rendered.append(1) or full(job, domain))
    creates = make_plan(snapshot_of(tfjob().workers(1000))).actions

    for action in creates:
        action.body()

    assert (len(creates), len(rendered)) == (1000, 1)


def test_ten_thousand_workers_fit_the_sparse_form():
    job = tfjob().chief().workers(10_000).parameter_servers(100).tf_config_format("Sparse")

    assert spec_problems.of_new(job_of(job)) == ()


@pytest.mark.parametrize("size", [131_061, 131_062])
def test_linux_starts_a_process_with_the_longest_tf_config_and_with_none_longer(size):
    def start():
        return subprocess.run(["/bin/true"], env={"TF_CONFIG": "x" * size}, check=True)

    if size <= 131_061:
        start()
    else:
        with pytest.raises(OSError, match="Argument list too long"):
            start()


def test_a_template_with_its_own_tf_config_has_no_limit():
    own = Template().main(env=[{"name": "TF_CONFIG", "value": "{}"}])

    assert spec_problems.of_new(job_of(tfjob().workers(10_000, template=own))) == ()


@pytest.mark.parametrize("workers", [1, 10, 101])
@pytest.mark.parametrize("mode", ["Replica", "Job"])
@pytest.mark.parametrize("form", [TFJobBuilder.dynamic_workers, partial(TFJobBuilder.replicas, kind="Chief", count=0)])
def test_the_size_is_that_of_the_last_replica(form, mode, workers):
    job = job_of(form(tfjob("j").workers(workers).service_mode(mode)))
    longest = cluster_spec.tf_config(job, ReplicaType.WORKER, workers - 1)

    assert cluster_spec.size(job, job.spec_of(ReplicaType.WORKER)) == len(longest.encode())


@pytest.mark.parametrize("mode", ["Replica", "Job"])
def test_the_number_that_is_said_to_fit_is_the_last_that_does(mode):
    builder = tfjob("a-name").parameter_servers(20).service_mode(mode)
    (problem,) = spec_problems.of_new(job_of(builder.workers(10_000)))
    fitting = int(re.search(r"at most (\d+)", problem.rule)[1])

    for count, fits in ((fitting, True), (fitting + 1, False)):
        job = job_of(builder.workers(count))
        longest = cluster_spec.tf_config(job, ReplicaType.WORKER, count - 1)
        assert (len(longest.encode()) <= 131_061) is fits
        assert (spec_problems.of_new(job) == ()) is fits


@pytest.mark.parametrize("mode", ["Replica", "Job"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_job_that_is_not_measured_fits_with_the_longest_names(is_sparse, mode):
    builder = tfjob("j" * 63).workers(128).service_mode(mode)
    job = job_of(builder.dynamic_workers() if is_sparse else builder)
    job = structs.replace(job, key=ObjectKey("n" * 63, job.key.name))
    size = cluster_spec.size(job, job.replicas[0], domain=".".join(["d" * 61] * 4))

    assert size < 131_061 / 2
