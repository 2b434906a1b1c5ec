"""What the page of a job shows of jobs as no CRD of ours allows them."""

from datetime import UTC, datetime

from support.jobs.builders import tfjob
from tf_operator.cli.ui import job_page
from tf_operator.client.explanation.situation import Situation
from tf_operator.client.job import read_job
from tf_operator.dialects import registry


def test_a_job_that_asks_for_two_billion_replicas_costs_no_more_than_a_large_one():
    body = tfjob("j").workers(2**31 - 1).body()
    body["status"] = {"firstFailure": {"pod": "j-worker-12345", "exitCode": 1}}
    job = read_job(body, registry.DEFAULT)
    situation = Situation(job, (), (), datetime.now(UTC), are_pods_known=True, log=())

    shown = job_page.replicas(situation)
    assert (len(shown["rows"]), shown["count"]) == (job_page.MOST_REPLICAS, 2**31 - 1)
    assert job_page.overview(situation)["failure"]["replica"] == "worker-12345"
