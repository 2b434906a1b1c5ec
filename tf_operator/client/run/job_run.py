"""A job from its manifest to its end, on whatever API server: submitted, its lines passed on, explained."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from tf_operator.client.explanation import checks
from tf_operator.client.explanation.situation import Explanation
from tf_operator.client.functions import returned
from tf_operator.client.job import FAILED, Job, deleted
from tf_operator.client.logs import LogLine, print_line
from tf_operator.client.manifests import files
from tf_operator.client.manifests.files import Source
from tf_operator.client.plan import manifest_plan
from tf_operator.client.run import following, local_objects, submission, tensorflow_lines
from tf_operator.client.run.following import JobWatcher
from tf_operator.client.run.submission import Submitter
from tf_operator.dialects import registry
from tf_operator.job.record import JobPhase
from tf_operator.local.node.machine import user_python
from tf_operator.machinery.clock import Clock
from tf_operator.meta import Body


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a job ended. ``print`` and notebooks show why."""

    job: Job
    explanation: Explanation
    message: str = field(default="", repr=False)
    """The termination message of the deciding replica, if it has one."""

    def without_server(self) -> "RunResult":
        """The same where the server has ended with the job."""
        return replace(self, explanation=self.explanation.without_server())

    @property
    def exit_code(self) -> int:
        """0, or that of the job's first failure."""
        return FAILED if self.job.exit_code is None else self.job.exit_code

    @property
    def result(self) -> Any:  # noqa: ANN401 (JSON)
        """What the function of ``train`` returned; ``NotPossible``, with the reason, if there is no result."""
        return returned.value(self.job, self.message)

    def __str__(self) -> str:
        return str(self.explanation)

    def _repr_html_(self) -> str:
        return self.explanation._repr_html_()


class JobRunner(Submitter, JobWatcher, Protocol):
    """What ``AsyncTFJobs`` does with a job that is run."""


@dataclass(frozen=True, slots=True)
class RunOrder:
    bodies: tuple[Body, ...]
    kind: str
    """As in ``tfjob.kubeflow.org``."""
    replaces: bool
    on_line: Callable[[LogLine], object]

    def say(self, text: str) -> None:
        """Pass on a line that is no replica's."""
        self.on_line(LogLine("", "", text))

    def on_this_machine(self) -> "RunOrder":
        """The same with the folder and the Python of this process, where a server has others."""
        python, folder = user_python(os.environ), str(Path.cwd())
        bodies = (local_objects.prepared(body, default_python=python, folder=folder) for body in self.bodies)
        return replace(self, bodies=tuple(bodies))

    def on_own_server(self) -> "RunOrder":
        """The same without the lines that TensorFlow prints about itself, unless somebody asks for them."""
        if not tensorflow_lines.are_hidden(os.environ, self.bodies):
            return self
        on_line = self.on_line
        return replace(self, on_line=lambda line: None if tensorflow_lines.is_one(line.text) else on_line(line))


def read(source: Source, namespace: str, *, replaces: bool, on_line: Callable[[LogLine], object] | None) -> RunOrder:
    """What is to be run; ``InvalidManifest`` for a job that would be refused."""
    manifests = files.read_source(source)
    manifest = files.one_job(manifests)
    manifest_plan.check(manifest, namespace)
    resource = next(api.resource for entry in manifests if (api := registry.api_of(entry.body)))
    kind = f"{resource.kind}.{resource.group}".lower()
    return RunOrder(tuple(entry.body for entry in manifests), kind, replaces, on_line or print_line)


async def run(jobs: JobRunner, order: RunOrder, clock: Clock) -> RunResult:
    """Create the objects, and follow the job to its end; an interruption leaves it. ``NotFound`` if it is deleted."""

    async def pass_on(line: LogLine) -> None:
        order.on_line(line)

    said = set[JobPhase]()

    async def say_wait(latest: Job) -> None:
        is_waiting = latest.phase is JobPhase.QUEUED or latest.spec.record.pending is not None
        if is_waiting and latest.phase not in said:
            said.add(latest.phase)
            order.say(latest.message)

    (job,) = await submission.submit(jobs, order.bodies, replaces=order.replaces)
    job = await following.follow(jobs, job, on_job=say_wait, logs=following.pass_lines(jobs, job, pass_on))
    if not job.is_finished:
        raise deleted(job)
    end = await following.end_of(jobs, job, clock)
    return RunResult(job, checks.explain(end), returned.message_of(end.pods))
