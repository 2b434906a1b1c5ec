"""What was chosen: a command line and an environment, read into one frozen value.

``parse`` is a pure function. Arguments are written as Go's flag package reads them, because manifests for the Go
operator are: one dash or two, ``--flag=value`` or ``--flag value``, a switch alone or with ``=``. The command line
wins over the environment, and that over the defaults in ``flags``. What is wrong becomes an ``OptionError``: one line
that names the flag, the value and the rule. What is harmless and meaningless becomes one of ``Options.warnings``.

Neighbours: ``flags`` is the table, ``flag_types`` the spelling of values, ``run`` the reader of the result.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from tf_operator.app.options import flag_types, flags, ignored_flags
from tf_operator.app.options import progress as progress_options
from tf_operator.app.options.errors import OptionError
from tf_operator.app.options.flag import Flag
from tf_operator.app.options.flag_types import Address
from tf_operator.dialects import registry
from tf_operator.dialects.served import ServedAPI
from tf_operator.machinery.election.leaderelection import ElectionConfig
from tf_operator.meta import ObjectKey
from tf_operator.planning.bodies import gang
from tf_operator.planning.child_kinds import kinds
from tf_operator.planning.child_kinds.kind import ChildKind
from tf_operator.planning.job_queue.schedule import QueueRules
from tf_operator.planning.kueue import state

_JSON_LOGS, _GANG = "json-log-format", "enable-gang-scheduling"
_OLD_SWITCHES = {_JSON_LOGS, _GANG}
"""Of the first tf-operators: the operator still does what they say."""
_METRICS, _HEALTH = Address("", 8080), Address("", 8081)
_ZAP_LEVELS = {"debug": "debug", "info": "info", "warn": "warning", "error": "error", "panic": "error"}


class Tensorboards(StrEnum):
    """Who runs the TensorBoards that jobs ask for."""

    NONE = "none"
    """Nobody."""
    SERVE = "serve"
    """This process."""
    EXTERNAL = "external"
    """Another controller runs objects of kind TensorBoard; this process, what jobs have without such an object."""


class Kueue(StrEnum):
    """Who makes the Workloads of jobs that name a queue."""

    NONE = "none"
    """Not this process: Kueue itself, if it still has code for TFJobs."""
    EXTERNAL = "external"
    """This process, as an external framework of Kueue."""


@dataclass(frozen=True, slots=True)
class RestartDelay:
    """How the replacements of one replica are spaced, in seconds."""

    base: float = 1.0
    cap: float = 300.0
    reset_after: float = 600.0


@dataclass(frozen=True, slots=True)
class ElectionOptions:
    """Which Lease decides who works."""

    namespace: str = "tf-operator"
    name: str = "tf-operator"
    config: ElectionConfig = field(default_factory=ElectionConfig)


@dataclass(frozen=True, slots=True)
class Protection:
    """That /metrics is served by TLS, to whom the apiserver allows it; and with which files."""

    certificate: str = ""
    """Empty: the process makes a certificate itself."""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where older versions are converted, and what certificate is served there: one of a Secret, or one in files."""

    address: Address
    secret: ObjectKey | None = None
    host: str = ""
    folder: str = ""
    versions: frozenset[str] = frozenset()
    """The older versions that the API server serves: users can write what only these have."""


@dataclass(frozen=True, slots=True)
class Options:
    """Everything that can be chosen about the process."""

    namespaces: tuple[str, ...] = ()
    """Empty: all of them."""
    apis: tuple[ServedAPI, ...] = (registry.DEFAULT,)
    """Those that are served, each once."""
    controller_config_file: str = ""
    gang_scheduler: str = ""
    finds_gang_scheduler: bool = False
    """Whether the first one that is installed is taken."""
    gang_schedulers_by_job: tuple[str, ...] = ()
    """Those that jobs may choose by their annotation."""
    tensorboards: Tensorboards = Tensorboards.NONE
    child_kinds: tuple[ChildKind, ...] = field(default_factory=lambda: _child_kinds({}))
    """What jobs get beside their replicas."""
    isolates_jobs: bool = False
    """Whether jobs that do not say who may connect to their pods get a NetworkPolicy, too."""
    restarts_in_place: bool = False
    """Whether jobs that want it keep their pods in a resize, and their containers start again."""
    kueue: Kueue = Kueue.NONE
    kueue_version: str = state.VERSIONS[0]
    """In which Workloads are read and written."""
    job_queue: QueueRules | None = None
    """``None``: no job waits until it fits, unless it is to be a gang and there is no gang scheduler."""
    queue_rules: QueueRules = field(default_factory=QueueRules)
    """Those of the job queue, if it has one."""
    workers: int = 16
    overrides_existing_controller: bool = False
    drain_timeout: float = 8.0
    kubeconfig: str | None = None
    """``None``: the pod's service account, or the file that ``kubectl`` would take."""
    is_in_cluster: bool = False
    qps: float = 500.0
    burst: int = 1000
    election: ElectionOptions | None = field(default_factory=ElectionOptions)
    """``None``: this process is the only one."""
    restart_delay: RestartDelay = RestartDelay()
    metrics_address: Address | None = _METRICS
    metrics_protection: Protection | None = None
    """``None``: everybody who can connect may read them."""
    health_address: Address | None = _HEALTH
    webhook: Webhook | None = None
    """``None``: nothing is converted."""
    progress: progress_options.ProgressOptions | None = None
    """``None``: nobody reports."""
    log_format: str = "json"
    log_level: str = "info"
    logs_ended_jobs: bool = True
    pod_name: str = ""
    cluster_domain: str = ""
    warnings: tuple[str, ...] = ()

    def without_tensorboards(self, api: ServedAPI) -> str:
        """Why no TensorBoards of its jobs are run; empty where they are.

        Where another version has the field, an annotation keeps it in the stored one, and anybody can write that: so it
        counts only while users may write the field itself.
        """
        if self.tensorboards is Tensorboards.NONE:
            return "this operator runs with --tensorboards=none"
        version, older = api.tensorboards_in, self.webhook.versions if self.webhook else ()
        is_served = version == api.resource.version or version in older
        return "" if is_served else f"it belongs to {version}, which is not one of --conversion-webhook-versions"


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Options:
    """Read the arguments after ``run``; ``OptionError`` when they, or a variable, are invalid."""
    reading = _Reading()
    for name, value in _split(arguments):
        reading.take(name, value)
    for flag in flags.FLAGS:
        reading.fill(flag, environment)
    warnings = (*reading.warnings, *_unknown(reading.values["enable-scheme"]))
    return _options(reading.values, warnings, environment)


def _options(values: Mapping[str, Any], warnings: tuple[str, ...], environment: Mapping[str, str]) -> Options:
    kubeconfig = values["kubeconfig"] or environment.get("KUBECONFIG") or None
    apis = _apis(values)
    return Options(
        namespaces=tuple(dict.fromkeys(values["namespace"])),
        apis=apis,
        controller_config_file=values["controller-config-file"],
        gang_scheduler=gang.scheduler(values["gang-scheduler-name"]),
        finds_gang_scheduler=values.get(_GANG, False) and not values["gang-scheduler-name"],
        gang_schedulers_by_job=tuple(filter(None, map(gang.scheduler, values["gang-schedulers-by-job"]))),
        tensorboards=Tensorboards(values["tensorboards"]),
        child_kinds=_child_kinds(values),
        isolates_jobs=values["network-policies"] == "all",
        restarts_in_place=values["restart-in-place"],
        kueue=Kueue(values["kueue"]),
        job_queue=_queue_rules(values) if values["job-queue"] else None,
        queue_rules=_queue_rules(values),
        workers=values["controller-threads"],
        overrides_existing_controller=values["override-existing-controller"],
        drain_timeout=values["drain-timeout"],
        kubeconfig=values["kubeconfig"] or None,
        is_in_cluster=not kubeconfig and bool(environment.get("KUBERNETES_SERVICE_HOST")),
        qps=values["kube-api-qps"],
        burst=values["kube-api-burst"],
        election=_election(values) if values["leader-elect"] else None,
        restart_delay=_restart_delay(values),
        metrics_address=values["metrics-bind-address"],
        metrics_protection=_protection(values),
        health_address=values["health-probe-bind-address"],
        webhook=_webhook(values, apis),
        progress=progress_options.read(values, environment),
        log_format=values["log-format"],
        log_level=values["log-level"],
        logs_ended_jobs=values["log-ended-jobs"],
        pod_name=environment.get("MY_POD_NAME", ""),
        cluster_domain=_cluster_domain(environment),
        warnings=warnings,
    )


def _apis(values: Mapping[str, Any]) -> tuple[ServedAPI, ...]:
    requested = [api for kind in values["enable-scheme"] if (api := registry.find(kind))]
    apis = tuple(dict.fromkeys(requested)) or (registry.DEFAULT,)
    if len({api.controller for api in apis}) < len(apis):
        raise OptionError("--enable-scheme: names a kind in two versions; it is reconciled in one")
    is_fork = values["v1alpha1-exit-codes"] == "fork"
    return tuple(map(registry.with_codes_of_fork, apis)) if is_fork else apis


def _unknown(kinds: Iterable[str]) -> Iterator[str]:
    for kind in kinds:
        if registry.find(kind) is None:
            yield f"--enable-scheme={kind} changes nothing: this operator does not know the kind"


def _election(values: Mapping[str, Any]) -> ElectionOptions:
    seconds = values["leader-election-lease-duration"]
    if not seconds.is_integer():
        raise OptionError("--leader-election-lease-duration: must be whole seconds")
    try:
        config = ElectionConfig(
            lease_duration=int(seconds),
            renew_deadline=values["leader-election-renew-deadline"],
            retry_period=values["leader-election-retry-period"],
        )
    except ValueError as error:
        raise OptionError(f"--leader-election-...: {error}") from None
    return ElectionOptions(values["leader-election-namespace"], values["leader-election-id"], config)


def _restart_delay(values: Mapping[str, Any]) -> RestartDelay:
    base, cap = values["restart-delay-base"], values["restart-delay-cap"]
    if base > cap:
        raise OptionError(f"--restart-delay-base: {base:g}s is longer than --restart-delay-cap, {cap:g}s")
    return RestartDelay(base, cap, values["restart-delay-reset"])


def _child_kinds(values: Mapping[str, Any]) -> tuple[ChildKind, ...]:
    return tuple(kind for kind in kinds.ALL if values.get(kind.flag, not kind.flag) not in {False, "none"})


def _queue_rules(values: Mapping[str, Any]) -> QueueRules:
    names = ("shrink-after", "grow-after", "resize-interval", "reserve-after")
    shrink, grow, interval, reserve = (timedelta(seconds=values[f"job-queue-{name}"]) for name in names)
    return QueueRules(shrink, grow, interval, reserve or None)


def _protection(values: Mapping[str, Any]) -> Protection | None:
    folder, address = values["metrics-cert-path"], values["metrics-bind-address"]
    if not values["metrics-secure"]:
        if folder:
            raise OptionError("--metrics-cert-path: needs --metrics-secure, or metrics are served without TLS")
        return None
    if address and address.port and address == values["health-probe-bind-address"]:
        raise OptionError("--metrics-secure: the kubelet has no token, so probes need an address of their own")
    if not folder:
        return Protection()
    return Protection(f"{folder}/{values['metrics-cert-name']}", f"{folder}/{values['metrics-cert-key']}")


def _webhook(values: Mapping[str, Any], apis: Iterable[ServedAPI]) -> Webhook | None:
    address, secret, host, folder = (
        values[f"conversion-webhook-{name}"] for name in ("bind-address", "secret", "host", "cert-path")
    )
    if address is None:
        return None
    versions = frozenset(values["conversion-webhook-versions"])
    convertible = [version for api in apis for version in api.conversion.versions]
    if unknown := sorted(versions.difference(convertible)):
        allowed = ", ".join(convertible) or "a kind that is served"
        raise OptionError(f"--conversion-webhook-versions: {', '.join(unknown)}: must be of {allowed}")
    if bool(secret) == bool(folder):
        rule = "needs either --conversion-webhook-secret or --conversion-webhook-cert-path"
        raise OptionError(f"--conversion-webhook-bind-address: {rule}")
    if folder:
        return Webhook(address, folder=folder, versions=versions)
    if not host:
        raise OptionError("--conversion-webhook-secret: needs --conversion-webhook-host, for its certificate")
    return Webhook(address, secret=ObjectKey(values["leader-election-namespace"], secret), host=host, versions=versions)


def _cluster_domain(environment: Mapping[str, str]) -> str:
    """What is put behind host names in TF_CONFIG: it ends up in every job, so nonsense is refused here."""
    domain = environment.get("CUSTOM_CLUSTER_DOMAIN", "").strip(".")
    try:
        return flag_types.name(domain) if domain else ""
    except ValueError:
        raise OptionError(f"$CUSTOM_CLUSTER_DOMAIN is {domain!r}: must be a domain such as cluster.local") from None


class _Reading:
    """What has been read so far: the meaning of each flag, by name, and what there is to warn of."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.warnings: list[str] = []

    def take(self, name: str, value: str) -> None:
        """One flag of the command line; the last one wins, unless it may be repeated."""
        if flag := flags.BY_NAME.get(name):
            meaning = _read(flag, value, origin=f"--{name}={value}")
            is_more = flag.is_repeatable and flag.name in self.values
            self.values[flag.name] = self.values[flag.name] + meaning if is_more else meaning
        elif name == "zap-log-level":
            self._take_zap_level(value)
        elif name == "zap-encoder":
            self.take("log-format", value)
        elif name in _OLD_SWITCHES:
            self._take_old_switch(name, value)
        else:
            self.warnings.append(f"--{name} changes nothing: {ignored_flags.BY_NAME[name].reason}")

    def fill(self, flag: Flag, environment: Mapping[str, str]) -> None:
        """What the command line does not say: from the environment, or the default."""
        if flag.name in self.values:
            return
        variable = environment.get(flag.variable, "") if flag.variable else ""
        origin = f"${flag.variable} is {variable!r}"
        self.values[flag.name] = _read(flag, variable or flag.default, origin=origin)

    def _take_old_switch(self, name: str, value: str) -> None:
        try:
            is_on = flag_types.switch(value)
        except ValueError as error:
            raise OptionError(f"--{name}={value}: must be {error}") from None
        if name == _JSON_LOGS:
            self.take("log-format", "json" if is_on else "console")
        else:
            self.values[name] = is_on

    def _take_zap_level(self, level: str) -> None:
        """Zap's levels are words, or numbers that grow with the detail."""
        log_level = "debug" if level.isdecimal() and int(level) > 0 else _ZAP_LEVELS.get(level)
        if log_level is None:
            raise OptionError(f"--zap-log-level={level}: must be debug, info, warn, error or a number from 1")
        self.take("log-level", log_level)


def _read(flag: Flag, value: str, *, origin: str) -> object:
    try:
        return flag.read(value)
    except ValueError as error:
        raise OptionError(f"{origin}: must be {error}") from None


def _split(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            argument = next(rest, "")  # noqa: PLW2901 (what follows is no flag, and there is nothing else)
            if not argument:
                return
            raise OptionError(f"unexpected argument {argument!r}")
        name, has_value, value = _bare(argument).partition("=")
        if _is_switch(name):
            yield name, value if has_value else "true"
        elif has_value:
            yield name, value
        elif (following := next(rest, None)) is not None:
            yield name, following
        else:
            raise OptionError(f"--{name}: needs a value")


def _bare(argument: str) -> str:
    if not argument.startswith("-") or argument == "-":
        hint = ": a switch takes its value after '='" if argument.lower() in {"true", "false"} else ""
        raise OptionError(f"unexpected argument {argument!r}{hint}")
    return argument[1:].removeprefix("-")


def _is_switch(name: str) -> bool:
    """Whether the flag needs no value; ``OptionError`` when there is no such flag."""
    if flag := flags.BY_NAME.get(name) or ignored_flags.BY_NAME.get(name):
        return flag.is_switch
    if name in _OLD_SWITCHES:
        return True
    if name in {"zap-log-level", "zap-encoder"}:
        return False
    close = difflib.get_close_matches(name, flags.BY_NAME, n=1)
    hint = f"; did you mean --{close[0]}?" if close else "; see tf-operator run --help"
    raise OptionError(f"there is no flag --{name}{hint}")
