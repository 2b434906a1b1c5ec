"""``tfjob wait``."""

import pytest

from support.embedded.embedded_jobs import EmbeddedJobs
from support.fake_clock import FakeClock
from tf_operator.cli import main
from tf_operator.cli.commands import wait
from tf_operator.client import WaitTimeout


async def test_a_wait_that_is_over_names_the_time_that_was_given_for_all_jobs(monkeypatch):
    cluster = EmbeddedJobs(FakeClock())
    cluster.job("a")
    async with cluster.client() as jobs:

        async def end_late(name, **options):
            raise WaitTimeout(await jobs.get(name), options["timeout"] / 2)  # half of it went to a job before

        monkeypatch.setattr(jobs, "wait", end_late)
        with pytest.raises(WaitTimeout, match="a has no status after 90 s"):
            await wait._wait(jobs, main.make_parser("wait").parse_args(["wait", "a", "--timeout", "90"]))
