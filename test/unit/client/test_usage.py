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


async def test_a_cluster_without_a_metrics_api_is_told_what_it_needs():
    cluster = EmbeddedJobs(FakeClock())
    cluster.job()
    async with cluster.client() as jobs:
        with pytest.raises(NotPossible, match="there is no metrics API: a cluster needs the metrics-server"):
            await jobs.top("j")
