"""Which cluster is meant, how it is called, and whether it may be changed.

What is named wins: a context or a kubeconfig, then the variable KUBECONFIG. Then the local server of this user, if it
runs; then what kubectl would use, which is the current context of ``~/.kube/config``, or the cluster of this pod.

Nobody names a cluster that is only what is left. So where the local server has died, or where the last command without
a name was for another one, the choice has an objection: what is there may be read, but a change is refused, because a
job of the same name may run in production.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile
from pathlib import Path
from typing import Final

from tf_operator.client import last_cluster
from tf_operator.client.job import NotPossible
from tf_operator.client.local_transport import LocalTransport
from tf_operator.local import kubeconfig as local_kubeconfig
from tf_operator.local import state
from tf_operator.local.state import StateFolder
from tf_operator.machinery.clock import Clock
from tf_operator.machinery.transport.config import ClientConfig, ConfigSource
from tf_operator.machinery.transport.in_cluster import SERVICE_ACCOUNT, InCluster
from tf_operator.machinery.transport.kubeconfig import KubeConfig
from tf_operator.machinery.transport.transport import Transport

EMPTY: Final = "empty, and names no cluster"
POD_CONTEXT: Final = "in-cluster"
"""Names the cluster of this pod, where a context is named."""


class Origin(StrEnum):
    """How a choice came about."""

    NAMED = "named"
    LOCAL = "local"
    KUBECONFIG = "kubeconfig"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a cluster that nobody has named is not changed, and the ways on."""

    problem: str
    start: str
    """The command that starts the local server again; empty where that is not what is missing."""
    context: str
    """What names the cluster."""

    def sentence(self, naming: str) -> str:
        """For people, who name a cluster as in ``--context NAME``."""
        name = f"name the cluster ({naming.replace('NAME', self.context or 'NAME')})"
        ways = f"start it again ({self.start}), or {name}" if self.start else name
        return f"nothing was changed, because {self.problem}: {ways}"


class ClusterNotNamed(NotPossible):
    """It is unclear which cluster would be changed; ``objection`` says why."""

    def __init__(self, objection: Objection) -> None:
        super().__init__(objection.sentence('context="NAME"'))
        self.objection = objection


@dataclass(frozen=True, slots=True)
class ClusterChoice:
    kubeconfig: str | None
    context: str | None
    reason: str
    """For ``-v``: ``the context prod (--context)``."""
    origin: Origin = Origin.NAMED
    folder: StateFolder | None = None
    """That of the local server whose kubeconfig it is, even if the server does not run."""
    objection: Objection | None = None
    missing: str = ""
    """The file that KUBECONFIG names before the one that decides, and that is not there."""

    @property
    def is_chosen(self) -> bool:
        """Whether somebody has named it or runs it on this machine; else it is only what is left."""
        return self.origin in {Origin.NAMED, Origin.LOCAL}

    @property
    def runs_here(self) -> bool:
        """Whether a job that is run in one call runs on this machine: nobody runs it in a cluster that is left over."""
        return self.origin is not Origin.NAMED

    def source(self) -> ConfigSource:
        is_pod = self.origin is Origin.POD or (self.context == POD_CONTEXT and not self.kubeconfig and _is_in_pod())
        return InCluster() if is_pod else KubeConfig(self.kubeconfig, context=self.context)

    def name(self, config: ClientConfig) -> str:
        """How it is called, as in ``deleted in NAME``."""
        if is_local(self, config.host):
            return f"the local server at {config.host}"
        return config.context or "the cluster of this pod"

    def at(self, config: ClientConfig, environment: Mapping[str, str] = os.environ) -> "ClusterChoice":
        """The same, now that it is known where it leads.

        A file that is missing hands the choice on to the next one, as after ``cd`` if its path is relative. That is
        objected to where the previous command used another cluster.
        """
        last = last_cluster.read(environment) if self.missing else None
        if last is None or last.address == config.host:
            return self
        problem = f"KUBECONFIG names {self.missing}, which is not there, and the previous command used {last.name}"
        return replace(self, objection=self.objection or Objection(problem, "", config.context))

    def check_kubeconfig(self) -> None:
        """Raise ``NotPossible`` when it is that of a local server that is gone.

        Of several files the next one would be read, and lead to another cluster.
        """
        if self.folder and not self.folder.kubeconfig.exists():
            raise NotPossible(stopped(self))

    def check_change(self) -> None:
        """Raise ``ClusterNotNamed`` unless it is sure that this cluster is meant."""
        if self.objection:
            raise ClusterNotNamed(self.objection)


async def connection(
    choice: ClusterChoice, clock: Clock
) -> tuple[ClientConfig, AbstractAsyncContextManager[Transport]]:
    # Imported here: whoever brings a transport needs no HTTP.
    from tf_operator.machinery.transport.connection import Connection  # noqa: PLC0415
    from tf_operator.machinery.transport.shared_config import SharedConfig  # noqa: PLC0415

    choice.check_kubeconfig()
    config = SharedConfig(choice.source(), clock=clock)
    connected = Connection(config, clock=clock, user_agent="tfjob", pool_size=0)
    return await config.first(), _to_local(choice, connected, clock) if choice.folder else connected


@asynccontextmanager
async def _to_local(
    choice: ClusterChoice, connection: AbstractAsyncContextManager[Transport], clock: Clock
) -> AsyncIterator[Transport]:
    async with connection as opened:
        yield LocalTransport(opened, lambda: stopped(choice), clock)


def choose(
    kubeconfig: str | None = None,
    context: str | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    follows_kubectl: bool = False,
) -> ClusterChoice:
    """The cluster that is meant. ``follows_kubectl``: kubectl's own choice, whether or not a local server runs."""
    if choice := named(kubeconfig, context, environment):
        return choice
    if not follows_kubectl and (choice := local(environment)):
        return choice
    choice = _of_kubectl(environment)
    objection = None if follows_kubectl else _objection(choice, environment)
    return replace(choice, objection=objection or _objection_to_variable(choice, environment))


def named(
    kubeconfig: str | None, context: str | None, environment: Mapping[str, str] = os.environ
) -> ClusterChoice | None:
    """The cluster that somebody names; ``None`` when none is named. An empty name is a mistake: ``NotPossible``."""
    for word, name in (("context", context), ("kubeconfig", kubeconfig)):
        if name == "":
            raise NotPossible(f"{word} is {EMPTY}")
    variable = environment.get("KUBECONFIG", "")
    files = [kubeconfig] if kubeconfig else [file for file in variable.split(os.pathsep) if file]
    if context == local_kubeconfig.CONTEXT and not files:
        kubeconfig = str(StateFolder(state.default_folder(environment)).kubeconfig)
    folder = None
    if context in {None, local_kubeconfig.CONTEXT}:
        folder = _folder_of([kubeconfig] if kubeconfig else files, environment)
    if context:
        return ClusterChoice(kubeconfig, context, f"the context {context} (--context)", folder=folder)
    if kubeconfig:
        return ClusterChoice(kubeconfig, None, f"the kubeconfig {kubeconfig} (--kubeconfig)", folder=folder)
    if files:
        reason = f"the kubeconfig {variable} (KUBECONFIG)"
        return ClusterChoice(None, None, reason, folder=folder, missing=_missing(files))
    return None


def local(environment: Mapping[str, str] = os.environ) -> ClusterChoice | None:
    """The local server of this user, if it runs."""
    folder = StateFolder(state.default_folder(environment))
    if folder.server() is None:
        return None
    reason, context = f"the local server of {folder.path}", local_kubeconfig.CONTEXT
    # By its name: whoever logs in to a cluster while KUBECONFIG has this file makes that one the current one in it.
    return ClusterChoice(str(folder.kubeconfig), context, reason, Origin.LOCAL, folder)


def is_local(choice: ClusterChoice, address: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a server of this user, in which the operator runs, serves at the address of a cluster.

    This machine says so, and no object in the cluster, which one of its tenants could forge.
    """
    running = (choice.folder or StateFolder(state.default_folder(environment))).server()
    return running is not None and running.address == address


def stopped(choice: ClusterChoice, environment: Mapping[str, str] = os.environ) -> str:
    """What to say when a cluster cannot be reached because it is a local server that does not run; else nothing."""
    folder = choice.folder
    if folder is None or folder.server():
        return ""
    other = "" if choice.kubeconfig else " (or unset KUBECONFIG)"
    return f"the local server of {folder.path} does not run: {folder.command('up', environment)} starts it{other}"


def _of_kubectl(environment: Mapping[str, str]) -> ClusterChoice:
    """What kubectl would use when no cluster is named."""
    if _is_in_pod(environment) and not Path("~/.kube/config").expanduser().is_file():
        return ClusterChoice(None, None, "the cluster of this pod", Origin.POD)
    return ClusterChoice(None, None, "the current context", Origin.KUBECONFIG)


def _objection(choice: ClusterChoice, environment: Mapping[str, str]) -> Objection | None:
    """Why it is not sure that this cluster is meant."""
    folder = StateFolder(state.default_folder(environment))
    last, start = last_cluster.read(environment), folder.command("up", environment)
    if folder.exists():
        state_of = "is starting" if folder.process() else "does not run"
        problem = f"the local server of {folder.path} {state_of}"
    elif last and last.origin == Origin.LOCAL:
        problem = "the local server, which earlier commands used, is gone"
    elif last == last_cluster.UNKNOWN:
        path = last_cluster.path(environment)
        problem, start = f"{path}, which records what earlier commands used, is damaged", ""
    elif last and last.origin and last.origin != choice.origin:
        problem, start = f"earlier commands used {last.name}, and this one would use {choice.reason}", ""
    else:
        return None
    return Objection(problem, start, _context_of(choice))


def _objection_to_variable(choice: ClusterChoice, environment: Mapping[str, str]) -> Objection | None:
    """That KUBECONFIG is set and has nothing but separators, as of two variables that are empty."""
    if not environment.get("KUBECONFIG"):
        return None
    return Objection("KUBECONFIG names no file", "", _context_of(choice))


def _context_of(choice: ClusterChoice) -> str:
    """What names this choice as a context; empty when that cannot be known."""
    if choice.origin is Origin.POD:
        return POD_CONTEXT
    return _current_context(Path("~/.kube/config").expanduser())


def _current_context(path: Path) -> str:
    # Imported here: only a refusal and several files need it, and a job on this machine has to start within a second.
    from tf_operator.machinery.transport import kubeconfig_files  # noqa: PLC0415

    return kubeconfig_files.current_context(path)


def _is_in_pod(environment: Mapping[str, str] = os.environ) -> bool:
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT / "token").is_file()


def _folder_of(files: list[str], environment: Mapping[str, str]) -> StateFolder | None:
    """The folder of the local server whose kubeconfig decides, which may be gone.

    Of several files the first one with a current context decides.
    """
    for file in files:
        path = Path(file).expanduser().absolute()
        folder = StateFolder(path.parent)
        is_local_folder = folder.exists() or folder.path == StateFolder(state.default_folder(environment)).path
        if is_local_folder and path == folder.kubeconfig:
            return folder
        if len(files) > 1 and _current_context(path):
            return None
    return None


def _missing(files: list[str]) -> str:
    """The first file that is not there, of those before the one with a current context; empty if all are."""
    paths = [Path(file).expanduser() for file in files]
    passed = takewhile(lambda path: not _current_context(path), paths) if len(paths) > 1 else ()
    return next((str(path) for path in passed if not path.exists()), "")
