"""What the end of a program means, and what to do about it: exit codes, causes of failures, restarts."""

import re
import signal
from typing import Final, NamedTuple

from tf_operator import quantity
from tf_operator.client.explanation import attempts
from tf_operator.client.explanation.situation import Situation
from tf_operator.client.job import Job
from tf_operator.client.pods import JobPod
from tf_operator.job.memory import MemoryLimit
from tf_operator.job.profile import OOM_KILLED
from tf_operator.job.record import FailureCause, JobPhase, ReplicaType
from tf_operator.job.restart_rules import RESTARTING_ALL
from tf_operator.planning.pods import avoided_nodes as avoiding
from tf_operator.planning.pods import termination_message
from tf_operator.planning.snapshot import MainContainer

_STEPS: Final = {
    FailureCause.INVALID_SPEC: "fix the fields that are named, check with tfjob plan, delete the job, submit it again",
    FailureCause.DEADLINE_EXCEEDED: "raise spec.runPolicy.activeDeadlineSeconds, delete the job and submit it again",
    FailureCause.STARTUP_DEADLINE_EXCEEDED: "see why its pods did not run (tfjob events JOB), or raise"
    " spec.runPolicy.startupDeadlineSeconds",
    FailureCause.PROGRESS_DEADLINE_EXCEEDED: "find out where it hangs, or raise"
    " spec.runPolicy.progressPolicy.deadlineSeconds, delete the job and submit it again",
    FailureCause.REPLICA_LOST: "use restartPolicy OnFailure or ExitCode, with which a lost pod is replaced",
}
_CODES: Final = {
    126: "its command cannot be executed: fix command, or the file's permissions",
    127: "its command was not found: fix command, or the image",
    139: "its program crashed in native code: look for mismatched versions of TensorFlow, CUDA and drivers",
    143: "it was stopped, and did not end with exit code 0",
}
_KILLED: Final = 128
_MISSING_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_LOCAL: Final = "ImageNotUsed"
"""The reason of the event that names the interpreter, where no image is used."""
_INTERPRETER: Final = re.compile(r"in the environment of (.+)")


class FailureLog(NamedTuple):
    """The log that says why a program failed."""

    pod: JobPod
    is_previous: bool = False
    """Whether it is that of the run before the last restart in place."""


def reasons(situation: Situation) -> tuple[str, ...]:
    """Why a job has failed: the condition's message and the first failure, if that says more."""
    job, first = situation.job, situation.job.first_failure
    sentences = [_without_title(job)] if job.message else []
    if first and first.exit_code is not None:
        is_in_message = first.pod in job.message and f"code {first.exit_code}" in job.message
        how = _with_cause(ending(first.exit_code, first.reason), first.message)
        sentences += [] if is_in_message else [f"the first failure: pod {first.pod} ended with {how}"]
    elif ended := _failed_pod(situation):
        pod, end = ended
        how = _with_cause(ending(end.exit_code or 0, end.reason), end.message)
        sentences.append(f"{pod.replica} (pod {pod.name}) ended with {how}")
    return (*sentences, *attempts.sentences(situation))


def failure_log(situation: Situation) -> FailureLog | None:
    """Whose log says why a program failed; ``None`` where its termination message does, or nothing has failed."""
    if situation.job.phase is JobPhase.FAILED:
        ended = _failed_pod(situation)
        return FailureLog(ended[0]) if ended and not ended[1].message else None
    restarted = ((pod, pod.state.last_termination) for pod in situation.pods if pod.restarts)
    silent = (pod for pod, end in restarted if end and end.exit_code and not end.message and _is_own(end))
    pod = next(silent, None)
    return FailureLog(pod, is_previous=True) if pod else None


def steps(situation: Situation) -> tuple[str, ...]:
    job, first = situation.job, situation.job.first_failure
    cause = job.spec.record.failure
    advised = [_STEPS[cause].replace("JOB", job.name)] if cause in _STEPS else []
    failed = _failed_pod(situation)
    code = first.exit_code if first else failed[1].exit_code if failed else None
    reason = first.reason if first else failed[1].reason if failed else ""
    if advice := missing_module(situation) or _advice(code, reason):
        advised.append(advice)
    pod = next((each for each in situation.pods if first and each.name == first.pod), failed and failed[0])
    if pod:
        advised.append(f"tfjob logs {job.name} --replica {pod.replica}")
    elif cause not in _STEPS and situation.are_pods_known:
        field = job.spec.profile.words.clean_up
        advised.append(f"its pod is gone, and the log with it: keep pods by {field} None, or collect logs")
    return tuple(advised)


def missing_module(situation: Situation) -> str:
    """What to do if the program imports what its Python does not have; empty unless it says so."""
    messages = [
        situation.job.message,
        situation.job.first_failure.message if situation.job.first_failure else "",
        *situation.log,
    ]
    messages += [pod.main.message for pod in situation.pods if pod.main]
    if not (missing := next(filter(None, map(_MISSING_MODULE.search, messages)), None)):
        return ""
    newest_first = reversed(situation.events)
    interpreter = next((_INTERPRETER.search(event.message) for event in newest_first if event.reason == _LOCAL), None)
    if interpreter is None:
        return f"the image has no module {missing[1]}: install its package there, or send it along with the program"
    return (
        f"{interpreter[1]} has no module {missing[1]}: install its package there, or name another Python with"
        " tfjob run FILE --python PATH"
    )


def restarts(situation: Situation) -> tuple[str, ...]:
    """Which replicas were restarted in place or by new pods, and how they ended before."""
    lines = [*attempts.sentences(situation)]
    lines += [
        f"{pod.replica} was restarted {_times(pod.restarts)}, the last time after {_last_end(pod)}"
        for pod in situation.pods
        if pod.restarts and pod.state.last_termination
    ]
    limit = situation.job.spec.run_policy.backoff_limit
    if number := situation.job.spec.record.counted_restarts:
        field = " (backoffLimit)" if situation.job.spec.profile.words.run_policy else ""
        limited = f"the job has used {number} of {limit} restarts{field}"
        unlimited = f"the job was restarted {_times(number)}, without a limit{field}"
        lines.append(unlimited if limit is None else limited)
    return tuple(lines)


def avoided_nodes(situation: Situation) -> tuple[str, ...]:
    """Which nodes new pods avoid, since when, and why."""
    spec = situation.job.spec
    avoided = avoiding.names(spec, () if spec.record.is_finished else spec.record.avoided_nodes)
    return tuple(
        f"{entry.node} avoided{f' since {entry.time:%H:%M} UTC' if entry.time else ''}: {avoiding.describe(entry)}"
        for entry in spec.record.avoided_nodes
        if entry.node in avoided
    )


def growths(situation: Situation) -> tuple[str, ...]:
    """Which types have more memory than their templates say, and what these should say."""
    job = situation.job.spec.in_force()
    grown = ((spec.type, spec.memory) for spec in job.replicas if spec.memory and spec.memory.is_grown)
    return tuple(_growth(kind, memory, job.record.of(kind).oom_restarts) for kind, memory in grown)


def _growth(kind: ReplicaType, memory: MemoryLimit, kills: int) -> str:
    sizes = [quantity.memory(limit) for limit in memory.path]
    after = f"{kills} OOM kill{'' if kills == 1 else 's'}"
    return f"{kind.label} memory grew {' -> '.join(sizes)} after {after}; set limits.memory: {sizes[-1]}"


def restart_steps(situation: Situation) -> tuple[str, ...]:
    job = situation.job
    again = next((pod for pod in situation.pods if pod.state.last_termination), None)
    if again is None:
        return (f"tfjob events {job.name}", f"tfjob logs {job.name} -f")
    end = again.state.last_termination
    advice = _advice(end.exit_code, end.reason) if end else ""
    logs = f"tfjob logs {job.name} --replica {again.replica}" + (" --previous" if end and _is_own(end) else "")
    return (advice, logs) if advice else (logs,)


def ending(code: int, reason: str = "") -> str:
    if reason == RESTARTING_ALL:
        return "a rule restarted all containers of its pod"
    title = f" ({reason})" if reason and reason not in {"Error", "Completed"} else ""
    try:
        name = signal.Signals(code - _KILLED).name if code > _KILLED else ""
    except ValueError:
        name = ""
    return f"exit code {code}" + (title or (f" ({name})" if name else ""))


def _without_title(job: Job) -> str:
    """Its message, without what the line above it says already."""
    for title in (f"{job.kind} {job.namespace}/{job.name}", f"Job {job.name}"):
        if job.message.startswith(beginning := f"{title} has failed because "):
            return job.message.removeprefix(beginning)
    return job.message


def _with_cause(how: str, message: str) -> str:
    cause = termination_message.summary(message)
    return f"{how}: {cause}" if cause else how


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _is_own(end: "MainContainer") -> bool:
    """Whether the container ended by itself, and its kubelet keeps the log."""
    return end.reason != RESTARTING_ALL


def _advice(code: int | None, reason: str) -> str:
    if reason == OOM_KILLED:
        return "it used more memory than its limit: raise resources.limits.memory, or use smaller batches"
    if reason == RESTARTING_ALL:
        return ""
    if code == _KILLED + signal.SIGKILL:
        return "it was killed from outside: by its node, or because it did not stop in its grace period"
    return _CODES.get(code or 0, "")


def _failed_pod(situation: Situation) -> tuple[JobPod, MainContainer] | None:
    """The pod that failed first, of those that are there: the job's own first failure, or else the earliest."""
    first = situation.job.first_failure
    ended = [(pod, pod.main) for pod in situation.pods if pod.main and pod.main.exit_code]
    return min(
        ended,
        key=lambda failed: (first is None or failed[0].name != first.pod, str(failed[1].finished_at)),
        default=None,
    )


def _last_end(pod: JobPod) -> str:
    end = pod.state.last_termination
    return _with_cause(ending(end.exit_code or 0, end.reason), end.message) if end else "an unknown end"
