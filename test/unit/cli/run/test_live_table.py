"""The live table of a terminal."""

import io
import re

import pytest

from support.embedded.embedded_jobs import EmbeddedJobs
from support.fake_clock import FakeClock
from support.jobs.builders import tfjob
from tf_operator.cli.run.live_table import LiveTable
from tf_operator.client import JobEvent, LogLine
from tf_operator.client.job import read_job
from tf_operator.client.pods import read_pod
from tf_operator.dialects import registry


@pytest.mark.parametrize("count", [2, 40])
def test_the_table_shows_the_replicas_below_their_lines(monkeypatch, count):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    stream, cluster = io.StringIO(), EmbeddedJobs(FakeClock())
    cluster.job()
    stored = cluster.report(
        "j", "Running", startTime="2025-12-31T23:58:00Z", replicaStatuses={"Worker": {"restarts": 1}}
    )
    job = read_job(stored, registry.DEFAULT)
    pods = [read_pod(job, cluster.pod(stored, f"worker-{index}"), registry.DEFAULT) for index in range(count)]
    table = LiveTable(read_job(tfjob("j").body(), registry.DEFAULT), stream=stream, clock=FakeClock())

    table.show_line(LogLine("worker-0", "j-worker-0", "loss \x1b[31m0.1\x1b[0m"))
    table.show_event(JobEvent(None, "Warning", "R", "no [secret]", "Pod", "j-worker-0"))
    table.show_event(JobEvent(None, "Normal", "R", "all is well", "Pod", "j-worker-0"))
    table.show_job(job)
    table.show_pods(tuple(pods))
    table.pause()
    table.resume()
    table.close()

    screen = stream.getvalue()
    assert "worker-0 | loss 0.1\n" in screen
    assert "warning: no [secret]\n" in screen
    assert "all is well" not in screen
    assert "TFJob default/j  Running  2m  1 restart\n" in re.sub(" +\n", "\n", screen)
    assert re.search(r"worker-1 +is running +0 +n", screen)
    assert ("20 more" in screen) is (count == 40)


@pytest.mark.parametrize("is_finished", [False, True], ids=["that goes on", "that has ended"])
def test_a_replica_without_its_pod_is_shown_for_a_job(monkeypatch, is_finished):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    stream, cluster = io.StringIO(), EmbeddedJobs(FakeClock())
    stored = cluster.job()
    job = read_job(stored, registry.DEFAULT)
    pods = [read_pod(job, cluster.pod(stored, name), registry.DEFAULT) for name in ("chief-0", "worker-0", "worker-7")]
    restarts = {"restarts": 1, "restartRecords": [{"index": 0, "attempts": 1}]}
    ended = cluster.report("j", "Succeeded", replicaStatuses={"Worker": restarts}) if is_finished else stored
    table = LiveTable(job, stream=stream, clock=FakeClock())

    table.show_pods(tuple(pods))
    table.show_job(read_job(ended, registry.DEFAULT))
    table.show_pods(tuple(pods[:1]))
    table.close()

    last = stream.getvalue().rpartition("TFJob default/j")[2]
    assert bool(re.search(r"worker-0 +was deleted at the end", last)) is is_finished
    assert "worker-7" not in last
