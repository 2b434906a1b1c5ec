"""What replicas use: figures of the metrics API."""

import pytest

from support.embedded.embedded_jobs import EmbeddedJobs
from support.fake_clock import FakeClock
from tf_operator.client import NotPossible, usage
from tf_operator.client.job import read_job
from tf_operator.client.pods import read_pod
from tf_operator.dialects import registry


def test_the_use_of_all_containers_of_a_replica_is_added_up():
    cluster = EmbeddedJobs(FakeClock())
    stored = cluster.job()
    job = read_job(stored, registry.DEFAULT)
    pods = [read_pod(job, cluster.pod(stored, replica), registry.DEFAULT) for replica in ("worker-0", "chief-0")]
    usages = [{"cpu": "1500m", "memory": "1Gi"}, {"cpu": "250000000n", "memory": "524288Ki"}, {"cpu": "?"}, None]
    metrics = [{"metadata": {"name": "j-worker-0"}, "containers": [{"usage": usage} for usage in usages]}]

    table = usage.usage_of(pods, metrics)

    assert table == (usage.ReplicaUsage("worker-0", "j-worker-0", 1.75, 1536 * 2**20, "n"),)
    assert str(table) == ("REPLICA    POD          CPU     MEMORY   NODE\nworker-0   j-worker-0   1750m   1536Mi   n")
    assert "<tr><td>worker-0</td><td>j-worker-0</td><td>1750m</td><td>1536Mi</td>" in table._repr_html_()


def test_the_use_of_each_gpu_is_read_beside_that_of_all():
    cluster = EmbeddedJobs(FakeClock())
    job = read_job(stored := cluster.job(), registry.DEFAULT)
    pod = read_pod(job, cluster.pod(stored, "worker-0"), registry.DEFAULT)
    whole = {"nvidia.com/gpu.1": "700m", "nvidia.com/gpu-memory.1": "6Gi", "nvidia.com/gpu-memory-total.1": "24Gi"}
    part = {"nvidia.com/gpu-memory.0-2": "1Gi", "nvidia.com/gpu-memory-total.0-2": "10Gi"}
    usages = [{"nvidia.com/gpu": "700m", "nvidia.com/gpu-memory": "6Gi", **whole}, {**part, "cpu": "1"}]
    metrics = [{"metadata": {"name": "j-worker-0"}, "containers": [{"usage": usage} for usage in usages]}]

    (used,) = usage.usage_of([pod], metrics)

    first, second = usage.GpuUsage("1", 0.7, 6 << 30, 24 << 30), usage.GpuUsage("0:2", None, 1 << 30, 10 << 30)
    assert used.gpus == (first, second)
    assert (used.gpu, used.gpu_memory, used.cpu) == (0.7, 6 << 30, 1.0)


async def test_a_cluster_without_a_metrics_api_is_told_what_it_needs():
    cluster = EmbeddedJobs(FakeClock())
    cluster.job()
    async with cluster.client() as jobs:
        with pytest.raises(NotPossible, match="there is no metrics API: a cluster needs the metrics-server"):
            await jobs.top("j")
