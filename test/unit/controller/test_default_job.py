"""What the operator sends about a job that asks for nothing new: the same, byte for byte, in each version.

``default_job.txt`` was recorded before jobs could restart as a whole. Whoever adds a field leaves it as it is: jobs
without the field cost no request and no byte more. ``RECORD=1`` writes it again, for a change that is meant for all.
"""

import os
from pathlib import Path

from support.embedded.pod_events import everything_runs, fails, is_drained, resume, succeeds, suspend, time_passes
from support.embedded.simulator import Simulator
from support.jobs.builders import tfjob

RECORDING = Path(__file__).with_name("default_job.txt")
LIFE = (
    everything_runs,
    fails("worker-0", 137),
    time_passes(2),
    everything_runs,
    is_drained("worker-0"),
    time_passes(2),
    suspend,
    resume,
    everything_runs,
    succeeds("chief-0"),
    time_passes(60),
)


class Recorder(Simulator):
    """It keeps the writes as they are sent."""

    writes_as_sent = ""

    async def on_request(self, request):
        await super().on_request(request)
        if request.method != "GET":
            query = "".join(f" {name}={value}" for name, value in sorted(request.query.items()))
            body = (request.body or b"").decode()
            self.writes_as_sent += f"{request.method} {request.path}{query} {request.content_type} {body}\n"


def test_the_writes_about_a_job_without_new_fields_are_those_of_before():
    job = tfjob("job").chief(restart="ExitCode").workers(1, restart="ExitCode")
    recorder = Recorder(job.backoff_limit(2).clean_pods("Running").ttl(60).body())
    for move in LIFE:
        recorder.settle()
        if not recorder.is_deleted:
            move(recorder)
    recorder.settle()

    if os.environ.get("RECORD"):
        RECORDING.write_text(recorder.writes_as_sent)
    assert recorder.writes_as_sent == RECORDING.read_text()
