"""``tfjob top``: figures of the metrics API."""

from support.embedded_jobs import EmbeddedJobs
from support.fake_clock import FakeClock
from tf_operator.cli import top_command
from tf_operator.client.job import read_job
from tf_operator.client.pods import read_pod
from tf_operator.dialects import registry


def test_the_use_of_all_containers_of_a_replica_is_added_up():
    cluster = EmbeddedJobs(FakeClock())
    stored = cluster.job()
    job = read_job(stored, registry.DEFAULT)
    pods = tuple(read_pod(job, cluster.pod(stored, replica), registry.DEFAULT) for replica in ("worker-0", "chief-0"))
    usages = [{"cpu": "1500m", "memory": "1Gi"}, {"cpu": "250000000n", "memory": "524288Ki"}, {"cpu": "?"}, None]
    metrics = [{"metadata": {"name": "j-worker-0"}, "containers": [{"usage": usage} for usage in usages]}]

    assert top_command.table(pods, metrics) == [
        "REPLICA    POD          CPU     MEMORY   NODE\n",
        "worker-0   j-worker-0   1750m   1536Mi   n\n",
    ]
