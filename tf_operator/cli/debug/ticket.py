"""Everything that is known of a job in one text, without secrets.

Nothing is copied from manifest or pods but what is named here: values of variables, command lines and annotations are
left out, and Secrets are never read. What programs have printed is there as they printed it, but for values of their
variables.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from tf_operator.cli import output
from tf_operator.cli.debug.redaction import Redaction
from tf_operator.client import Job, JobPod, display
from tf_operator.client.explanation import checks
from tf_operator.client.explanation.situation import Situation
from tf_operator.client.manifests import kube_yaml, validate
from tf_operator.client.plan import dry_run
from tf_operator.job.training_job import ReplicaSpec
from tf_operator.meta import Body, mapping_of, objects_of, rfc3339, text_of
from tf_operator.planning.snapshot import DEFAULT_SETTINGS
from tf_operator.text import printable

_LEFT_OUT: Final = """\
Left out: values of environment variables (a name such as $TOKEN stands for one), command lines, annotations, Secrets.
Logs and messages are as the programs wrote them: read them before you pass this on."""
_CONTAINERS: Final = ("initContainers", "containers")
_OF_VOLUME: Final = frozenset({"name"})


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    name: str
    """``worker-0``, or ``worker-0.previous`` for the run before its last restart in place."""
    lines: tuple[str, ...]
    refusal: str = ""
    """Why there are none."""

    def __str__(self) -> str:
        return "\n".join(map(printable, self.lines)) or self.refusal or "(nothing)"


@dataclass(frozen=True, slots=True)
class Ticket:
    situation: Situation
    logs: tuple[ReplicaLog, ...]
    versions: tuple[str, ...]
    """Lines about this program and the cluster."""

    def text(self, *, last: int) -> str:
        """All of it, with the ``last`` lines of each log."""
        job = self.situation.job
        redaction = self._redaction()
        parts = [f"{job.kind} {job.namespace}/{job.name} on {rfc3339(self.situation.now)}\n{_LEFT_OUT}"]
        parts += [f"== {heading}\n{redaction.text(text)}" for heading, text in self._sections(redaction) if text]
        for log in self.logs:
            end = replace(log, lines=log.lines[-last:])
            parts.append(f"== Log of {log.name}\n{redaction.text(str(end))}")
        return "\n\n".join(parts) + "\n"

    def log_files(self) -> Iterator[tuple[str, str]]:
        """Names and texts of the logs."""
        redaction = self._redaction()
        return ((f"{log.name}.log", f"{redaction.text(str(log))}\n") for log in self.logs)

    def _redaction(self) -> Redaction:
        return Redaction([self.situation.job.body, *(pod.body for pod in self.situation.pods)])

    def _sections(self, redaction: Redaction) -> Iterator[tuple[str, str]]:
        situation = self.situation
        job, now = situation.job, situation.now
        yield "Versions", "\n".join(self.versions)
        yield "Explanation", "\n".join((str(checks.explain(situation)), *situation.notes))
        if failure := job.first_failure:
            code = "" if failure.exit_code is None else f"exit code {failure.exit_code}"
            parts = (failure.pod, failure.container, code, failure.reason, failure.message)
            yield "First failure", printable(", ".join(filter(None, parts)))
        yield "Templates", "\n".join(line for spec in job.spec.replicas for line in _template(spec))
        yield "Plan", _plan(job)
        yield "Status", kube_yaml.write(redaction.value(mapping_of(job.body.get("status")))).rstrip()
        yield "Replicas", "".join(_replicas(situation.pods, now)).rstrip()
        yield "Events", "".join(output.event_table(situation.events, now=now)).rstrip()


def _plan(job: Job) -> str:
    """What was planned when the job was new, or why this version would not accept it."""
    validation = validate.check(job.body)
    if validation.errors:
        return "\n".join(map(str, validation.errors))
    return "".join(dry_run.run(validation.job, DEFAULT_SETTINGS).text()).rstrip()


def _template(spec: ReplicaSpec) -> Iterator[str]:
    pod = mapping_of(spec.template.get("spec"))
    yield f"{spec.type}: {spec.count}, restartPolicy {spec.restart_policy}"
    for container in (entry for kind in _CONTAINERS for entry in objects_of(pod.get(kind))):
        yield f"  {printable(text_of(container, 'name'))}: {printable(text_of(container, 'image'))}"
        names = ", ".join(_variables(container))
        yield from (f"    variables: {names}",) if names else ()
        for field, amounts in mapping_of(container.get("resources")).items():
            amounts_text = ", ".join(f"{name} {amount}" for name, amount in mapping_of(amounts).items())
            yield f"    {field}: {printable(amounts_text)}"
        mounts = [
            f"{entry.get('name')} at {entry.get('mountPath')}" for entry in objects_of(container.get("volumeMounts"))
        ]
        yield from (f"    mounts: {printable(', '.join(mounts))}",) if mounts else ()
    volumes = [
        f"{entry.get('name')} ({', '.join(entry.keys() - _OF_VOLUME) or 'emptyDir'})"
        for entry in objects_of(pod.get("volumes"))
    ]
    yield from (f"  volumes: {printable(', '.join(volumes))}",) if volumes else ()


def _variables(container: Body) -> Iterator[str]:
    """Names, and from what the values come."""
    for entry in objects_of(container.get("env")):
        origin = ", ".join(mapping_of(entry.get("valueFrom")))
        yield printable(f"{text_of(entry, 'name')} ({origin})" if origin else text_of(entry, "name"))
    for entry in objects_of(container.get("envFrom")):
        yield printable(f"those of {', '.join(key for key in entry if key != 'prefix')}")


def _replicas(pods: Iterable[JobPod], now: datetime) -> Iterator[str]:
    rows = [
        [pod.replica, pod.name, output.state_of(pod), str(pod.restarts), pod.node or "-", display.age(pod.created, now)]
        for pod in pods
    ]
    return display.table(["REPLICA", "POD", "STATE", "RESTARTS", "NODE", "AGE"], rows)
