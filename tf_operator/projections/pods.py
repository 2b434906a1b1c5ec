"""Pods: how they stand, how their containers ended, and why a Pending one waits.

Why a pod is Pending is in the kubelet's words, or in the scheduler's, or says who is next where both are silent. It
is read from the pod's own status alone. The Events of a pod often say more, such as which Secret is missing; they are
not watched, but read once where the status names no more than a stage (``pod_events``). ``planning.pending`` decides
what is reported, and after how long.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from sys import intern
from typing import Any, Final, NamedTuple

import msgspec

from tf_operator.dialects.served import ServedAPI
from tf_operator.job import constants, naming, restart_rules
from tf_operator.job.profile import NameStyle
from tf_operator.job.record import MOST_AVOIDED, ReplicaType
from tf_operator.job.report import ContainerLine
from tf_operator.job.restart_rules import RestartRules
from tf_operator.job.training_job import NetworkPolicyMode, RestartPolicy
from tf_operator.machinery.cache.interning import InternPool
from tf_operator.meta import parse_time
from tf_operator.planning.bodies import resize_sidecar
from tf_operator.planning.pods import termination_message
from tf_operator.planning.snapshot import NOWHERE, STOP_AFTER, Container, Host, MainContainer, Pod
from tf_operator.projections import pod_parts
from tf_operator.projections.children import Child, ChildMeta, Owner, owner_reader

_LONGEST_AVOIDED: Final = MOST_AVOIDED * 254
"""Characters: names have 253. What is longer is no list of ours, but somebody's who would fill the memory."""
_LONGEST_REQUEST: Final = 64
"""Characters; what is longer is none."""
_RESTART_POLICIES: Final = {str(policy): policy for policy in RestartPolicy}
_OVER: Final = frozenset({"Succeeded", "Failed"})
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_STARTING: Final = frozenset({"", "ContainerCreating", "PodInitializing", restart_rules.RESTARTING_ALL})
"""Reasons for waiting that every pod has while its node prepares it."""


class _Annotations(msgspec.Struct, frozen=True, gc=False):
    """Of the annotations of a pod, those that something is derived from."""

    avoided_nodes: str = msgspec.field(name=constants.AVOIDED_NODES_ANNOTATION, default="")
    cluster_size: str = msgspec.field(name=resize_sidecar.SIZES_ANNOTATION, default="")
    memory_limit: str = msgspec.field(name=constants.MEMORY_ANNOTATION, default="")
    network: str = msgspec.field(name=constants.NETWORK_ANNOTATION, default="")
    restart_request: str = msgspec.field(name=resize_sidecar.REQUEST_ANNOTATION, default="")


_NO_ANNOTATIONS: Final = _Annotations()


class _PodMeta(ChildMeta, frozen=True, rename="camel"):
    annotations: _Annotations = _NO_ANNOTATIONS


class _RawPod(msgspec.Struct, frozen=True):
    metadata: _PodMeta
    spec: pod_parts.RawPodSpec = pod_parts.RawPodSpec()
    status: pod_parts.RawPodStatus = pod_parts.RawPodStatus()


class CachedPod(Child, frozen=True):
    """A pod; ``pod`` is ``None`` when its name is not that of a replica."""

    pod: Pod | None


_read_raw: Final = msgspec.json.Decoder(_RawPod).decode
_intern: Final = InternPool().intern
_intern_owner: Final = InternPool().intern
_intern_start: Final = InternPool().intern


@cache
def pod_reader(apis: tuple[ServedAPI, ...], *, is_labelled: bool = True) -> Callable[[msgspec.Raw | bytes], CachedPod]:
    """Reads the pods of the jobs of these APIs.

    Of its containers, those are kept that decide in one of these APIs; which of them it is here, planning knows. How
    all of them stand is kept only for the API that shows it.
    """
    owner_of = owner_reader(apis, is_labelled=is_labelled)
    deciding = {profile.container: profile.container for api in apis for profile in api.profiles}
    styles = {
        (api.resource.group, api.resource.kind): tuple({profile.names for profile in api.profiles}) for api in apis
    }
    showing = {(api.resource.api_version, api.resource.kind) for api in apis if api.shows_containers}

    def read_pod(raw: msgspec.Raw | bytes) -> CachedPod:
        raw_pod = _read_raw(raw)
        owner = owner_of(raw_pod.metadata)
        replica = _replica(raw_pod.metadata.name, owner, styles) if owner.uid else None
        pod = _pod(raw_pod, *replica, deciding) if replica else None
        if pod and showing and (owner.api_version, owner.kind) in showing:
            pod = pod.changed(containers=_lines(raw_pod.status.container_statuses))
        return CachedPod(*raw_pod.metadata.core(), _intern_owner(owner.uid), pod)

    return read_pod


_Styles = Mapping[tuple[str, str], Iterable[NameStyle]]
"""How the children of a kind of owner are named; by group and kind."""


def _replica(name: str, owner: Owner, styles: _Styles) -> tuple[ReplicaType, int] | None:
    owner_styles = styles[owner.api_version.rpartition("/")[0], owner.kind]
    for style in owner_styles:
        if replica := naming.replica_of(owner.name, name, style):
            return replica
    return None


def _pod(raw_pod: _RawPod, kind: Any, index: int, deciding: Mapping[str, str]) -> Pod:  # noqa: ANN401
    status = raw_pod.status
    wait = _wait(status, raw_pod.spec) if status.phase == "Pending" else _NO_WAIT
    deciders = [entry for entry in status.container_statuses if entry.name in deciding]
    restarting = "" if status.phase in _OVER else _restart_of_all(status)
    is_restarting = restarting == "True" or (restarting != "" and _begins_again(deciders, wait))
    size = raw_pod.metadata.annotations.cluster_size
    resizes = _resizes(status) if size else 0
    containers = [
        _decider(
            entry, raw_pod.spec, ends=restarting != "True", resizes=resizes, has_rules=restarting != "" and not size
        )
        for entry in deciders
    ]
    main = containers[0] if containers else None
    disruption = _disruption(status)
    wait = _NO_WAIT if is_restarting else wait
    if size and resize_sidecar.ATTEMPT in resize_sidecar.entries(size) and status.phase == "Running":
        wait = _back_off(deciders)
    pod = Pod(
        raw_pod.metadata.name,
        raw_pod.metadata.uid,
        kind,
        index,
        _intern(status.phase),
        reason=_intern(status.reason) or (disruption.reason if disruption else ""),
        message=status.message or (disruption.message if disruption else _failed_init(status)),
        restart_policy=_RESTART_POLICIES.get(raw_pod.spec.restart_policy),
        container=deciding[main.name] if main else "",
        main=main.state if main else None,
        max_exit_code=_worst_exit(status.container_statuses),
        pending_reason=wait.reason,
        waits_since=wait.since,
        is_starting=wait.is_starting,
        created_at=_intern_start(raw_pod.metadata.creation_timestamp),
        host=_host(raw_pod),
        version=raw_pod.metadata.resource_version,
    )
    few = _what_few_have(raw_pod, containers, resizes=resizes)
    if disruption:
        few |= {"is_disrupted": True, "disrupted_at": parse_time(disruption.last_transition_time)}
    if is_restarting:
        few["is_restarting"] = True
    if size:
        few |= {"restarts_together": resizes, "is_deaf": not is_restarting and _is_deaf(status, deciders)}
    return pod.changed(**few) if few else pod


def _what_few_have(raw_pod: _RawPod, containers: Sequence[Container], *, resizes: int) -> dict[str, object]:
    """What is the same for most pods. To pass it for each, by its names, takes an eighth of the time to read one."""
    few = _of_annotations(raw_pod.metadata.annotations)
    if raw_pod.metadata.deletion_timestamp is not None:
        few |= {"is_terminating": True, "deletion_deadline": parse_time(raw_pod.metadata.deletion_timestamp)}
    for main in containers[:1]:
        if main.last_termination or main.restart_rules or main.restarts_by_rule or len(containers) > 1:
            few |= {
                "last_termination": main.last_termination,
                "restart_rules": main.restart_rules,
                "restarts_by_rule": main.restarts_by_rule,
                "others": tuple(containers[1:]),
            }
    if restarts := _restarts(raw_pod.status, resizes=resizes):
        few["restarts"] = restarts
    if raw_pod.spec.active_deadline_seconds == STOP_AFTER:
        few["is_stopped"] = True
    return few


def _of_annotations(annotations: _Annotations) -> dict[str, object]:
    """Of the annotations of a pod all but the nodes to avoid."""
    if annotations == _NO_ANNOTATIONS:
        return {}
    return {
        "cluster_size": _intern(annotations.cluster_size),
        "restart_request": annotations.restart_request[:_LONGEST_REQUEST],
        "memory_limit": _intern(annotations.memory_limit),
        "is_isolated": annotations.network == NetworkPolicyMode.JOB,
    }


def _host(raw_pod: _RawPod) -> Host:
    if node := raw_pod.spec.node_name:
        return _shared(Host(intern(node), _has_unhealthy_device(raw_pod.status)))
    avoided = raw_pod.metadata.annotations.avoided_nodes
    return Host(avoided=_intern(avoided)) if 0 < len(avoided) <= _LONGEST_AVOIDED else NOWHERE


@lru_cache(maxsize=4096)
def _shared(host: Host) -> Host:
    """The pods of a node have the same: one of equal ones is kept."""
    return host


def _has_unhealthy_device(status: pod_parts.RawPodStatus) -> bool:
    allocated = (entry for container in status.container_statuses for entry in container.allocated_resources_status)
    return any(device.health == "Unhealthy" for entry in allocated for device in entry.resources)


def _restart_of_all(status: pod_parts.RawPodStatus) -> str:
    """Whether the kubelet has ended all containers to start them again; empty in pods without a rule for that."""
    return next((entry.status for entry in status.conditions if entry.type == "AllContainersRestarting"), "")


def _begins_again(deciders: Sequence[pod_parts.RawContainerStatus], wait: "_Wait") -> bool:
    """Whether a Pending pod has run before, and its init containers run again, without any trouble."""
    return wait is not _NO_WAIT and not wait.is_in_trouble and any(entry.last_state.terminated for entry in deciders)


def _decider(
    entry: pod_parts.RawContainerStatus, spec: pod_parts.RawPodSpec, *, ends: bool, resizes: int, has_rules: bool
) -> Container:
    """A container that decides; unless ``ends``, the kubelet has ended it, and starts it again."""
    rules = next((_restart_rules(container) for container in spec.containers if container.name == entry.name), None)
    by_rule = max(entry.restart_count - resizes, 0) if rules or has_rules else 0
    return Container(entry.name, _main(entry.state) if ends else None, _last_end(entry), rules, by_rule)


def _restart_rules(container: pod_parts.RawContainerSpec) -> RestartRules | None:
    return _read_rules(container.restart_policy, container.restart_policy_rules) if container.restart_policy else None


@lru_cache(maxsize=256)
def _read_rules(policy: str, rules: tuple[pod_parts.RawRestartRule, ...] | None) -> RestartRules | None:
    """Pods of all jobs have the same few: one of equal ones is kept."""
    return restart_rules.read({"restartPolicy": policy, "restartPolicyRules": msgspec.to_builtins(rules)})


def _resizes(status: pod_parts.RawPodStatus) -> int:
    """How often the sidecar of resizes has had the kubelet restart all containers; it is counted when it has exited."""
    return next((entry.restart_count + _restarts_all(entry, status) for entry in _sidecars(status)), 0)


def _sidecars(status: pod_parts.RawPodStatus) -> Iterator[pod_parts.RawContainerStatus]:
    return (entry for entry in status.init_container_statuses if entry.name == resize_sidecar.SIDECAR)


def _restarts_all(sidecar: pod_parts.RawContainerStatus, status: pod_parts.RawPodStatus) -> bool:
    """Whether it has exited so that the kubelet starts all containers again; in a pod that is over it does not."""
    ended = sidecar.state.terminated
    return ended is not None and ended.exit_code == resize_sidecar.EXIT_CODE and status.phase not in _OVER


def _is_deaf(status: pod_parts.RawPodStatus, deciders: Sequence[pod_parts.RawContainerStatus]) -> bool:
    """A kubelet that starts all containers again begins with the sidecar; both times are its own.

    Also of a program that has ended since: it was of the run before.
    """
    sidecars = (entry for entry in _sidecars(status) if not _restarts_all(entry, status))
    sidecar, program = (next(filter(None, map(_start, each)), None) for each in (sidecars, deciders))
    return sidecar is not None and program is not None and sidecar > program


def _start(container: pod_parts.RawContainerStatus) -> datetime | None:
    """When it was started last, also if it has ended since; ``None`` if all are just being started again."""
    if ended := container.state.terminated:
        return None if ended.reason == restart_rules.RESTARTING_ALL else _started_at(ended)
    return container.state.running.started_at if container.state.running else None


def _restarts(status: pod_parts.RawPodStatus, *, resizes: int) -> int:
    """Of all containers, without those by resizes. What restarted all of them together, is one."""
    containers = (*status.container_statuses, *status.init_container_statuses)
    if not any(entry.restart_count for entry in containers):
        return 0
    counts = [max(entry.restart_count - resizes, 0) for entry in containers]
    together = min(counts, default=0) if _restart_of_all(status) else 0
    return sum(count - together for count in counts) + together


def _main(state: pod_parts.RawState) -> MainContainer | None:
    if state.terminated:
        ended = state.terminated
        message = "" if ended.reason == restart_rules.RESTARTING_ALL else ended.message
        return MainContainer(ended.exit_code, _intern(ended.reason), message, _started_at(ended), ended.finished_at)
    return _intern_start(MainContainer(started_at=state.running.started_at)) if state.running else None


def _started_at(ended: pod_parts.RawTerminated) -> datetime | None:
    """Of a program that could not be started containerd says 1970: it ended as it began."""
    return ended.finished_at if ended.started_at == _EPOCH else ended.started_at


def _last_end(container: pod_parts.RawContainerStatus) -> MainContainer | None:
    return _main(container.last_state) if container.last_state.terminated else None


def _lines(containers: Sequence[pod_parts.RawContainerStatus]) -> tuple[ContainerLine, ...]:
    return _share(tuple(ContainerLine(intern(entry.name), *_line_state(entry.state)) for entry in containers))


@lru_cache(maxsize=1024)
def _share(lines: tuple[ContainerLine, ...]) -> tuple[ContainerLine, ...]:
    """Pods of all jobs have the same few: one of equal ones is kept."""
    return lines


def _line_state(state: pod_parts.RawState) -> tuple[str, int | None]:
    if state.terminated:
        return "Terminated", state.terminated.exit_code
    return ("Running" if state.running else "Waiting"), None


def _worst_exit(containers: Sequence[pod_parts.RawContainerStatus]) -> int | None:
    ends = [entry.state.terminated for entry in containers if entry.state.terminated]
    return max(end.exit_code for end in ends) if ends and len(ends) == len(containers) else None


def _disruption(status: pod_parts.RawPodStatus) -> pod_parts.RawPodCondition | None:
    """Who is about to end the pod, or has, for a reason outside of it; none of which the pod's own status may tell."""
    targets = (entry for entry in status.conditions if entry.type == "DisruptionTarget" and entry.status == "True")
    return next(targets, None)


def _failed_init(status: pod_parts.RawPodStatus) -> str:
    """Which init container failed a pod, whose deciding container then never began."""
    for entry in status.init_container_statuses if status.phase == "Failed" else ():
        if (ended := entry.state.terminated) and ended.exit_code:
            cause = termination_message.summary(ended.message)
            return f"init container {entry.name} exited with code {ended.exit_code}" + (f": {cause}" if cause else "")
    return ""


class _Wait(NamedTuple):
    """Why a pod is Pending, and since when that stage of its start lasts."""

    reason: str = ""
    since: datetime | None = None
    is_starting: bool = False
    """Every pod goes through it; only a long wait is worth a message."""

    @property
    def is_in_trouble(self) -> bool:
        """Whether it is not what every pod goes through."""
        return bool(self.reason) and not self.is_starting


_NO_WAIT: Final = _Wait()


def _wait(status: pod_parts.RawPodStatus, spec: pod_parts.RawPodSpec) -> _Wait:
    scheduled = next((entry for entry in status.conditions if entry.type == "PodScheduled"), None)
    if scheduled is None and not spec.node_name:
        return _Wait(f"no scheduler has taken the pod (schedulerName {spec.scheduler_name})")
    since = parse_time(scheduled.last_transition_time) if scheduled else None
    if scheduled and scheduled.status == "False":
        return _Wait(_sentence(scheduled.reason, scheduled.message), since)
    since = max([*_init_ends(status), *([since] if since else [])], default=None)
    containers = (*status.init_container_statuses, *status.container_statuses)
    waiting = [entry.state.waiting for entry in containers if entry.state.waiting]
    if worded := next((state for state in waiting if state.reason not in _STARTING), None):
        return _Wait(_sentence(worded.reason, worded.message), since)
    if any(_is_past_its_node(entry.state) for entry in status.init_container_statuses):
        return _Wait(since=since)
    reason = next((state.reason for state in waiting if state.reason), "its node has not started it")
    return _Wait(reason, since, is_starting=True)


def _back_off(deciders: Sequence[pod_parts.RawContainerStatus]) -> _Wait:
    """Why a program that has failed is not started again yet. Its pod is Running all the same."""
    for entry in deciders:
        waiting, ended = entry.state.waiting, entry.last_state.terminated
        if waiting and ended and waiting.reason not in _STARTING:
            return _Wait(_sentence(waiting.reason, waiting.message), ended.finished_at)
    return _NO_WAIT


def _init_ends(status: pod_parts.RawPodStatus) -> Iterator[datetime]:
    ends = (entry.state.terminated for entry in status.init_container_statuses)
    return (end.finished_at for end in ends if end and not end.exit_code and end.finished_at)


def _is_past_its_node(state: pod_parts.RawState) -> bool:
    """Whether an init container runs, or has failed and will be started again."""
    return bool(state.running or (state.terminated and state.terminated.exit_code))


def _sentence(reason: str, message: str) -> str:
    return f"{reason}: {message}" if message else reason
