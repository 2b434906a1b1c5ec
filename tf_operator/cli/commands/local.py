"""``tfjob local``: a server of one's own that runs jobs on this machine, started, stopped and found.

    up          starts it in the background, and returns when it serves
    down        ends it; with --purge nothing of it is left
    status      whether it runs, and where
    kubeconfig  the file for kubectl

All that it keeps is in one folder (``local.state``), which also says who runs: there may be a server for each folder.
Exit codes: 0 done; 1 it does not run, or cannot; 2 wrong usage.
"""

import argparse
import os
import select
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tf_operator.cli.grammar import Commands
from tf_operator.cli.run import local_flags
from tf_operator.client import display, last_cluster
from tf_operator.client.cluster import Origin
from tf_operator.client.last_cluster import LastCluster
from tf_operator.local import short_paths, state
from tf_operator.local.node.gpus import devices, gpu_settings, journal
from tf_operator.local.node.gpus.devices import GpuError
from tf_operator.local.node.processes import spawner
from tf_operator.local.state import AlreadyOwned, LocalServer, StateError, StateFolder

_GIBIBYTE: Final = 1 << 30
STARTED_WITHIN: Final = 60.0
"""Seconds for ``up``; on a machine with nothing else to do it takes one."""
ENDED_WITHIN: Final = 40.0
"""Seconds for ``down`` until it kills the server, beside the grace period of what runs."""
_SILENT_FOR: Final = 1.0
"""Seconds until a command says what it waits for."""
_IGNORE, _ENFORCE = "ignore", "enforce"
_READY: Final = b"1"
"""What a server says to the command that has started it; anything else says why it cannot serve."""
_DESCRIPTION: Final = """\
Runs training jobs without a cluster: a Kubernetes API server, the operator, and a node that runs pods as your own
processes. kubectl works with it: export KUBECONFIG=$(tfjob local kubeconfig)."""

_ABOUT_UP: Final = """
Pods use the environment variables, the virtual environment and the working directory of this shell, as they are at this
moment. To set variables for one job, use tfjob run --env-file, or env in the manifest; to change them for all jobs,
'down' and 'up' again."""


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "local", help="run jobs on this machine, without a cluster", description=_DESCRIPTION, allow_abbrev=False
    )
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    up = _add_verb(verbs, "up", _up, "start the server in the background", about=_ABOUT_UP)
    local_flags.add_gpu_arguments(up)
    up.add_argument(
        "--requests",
        choices=(_IGNORE, _ENFORCE),
        default=_IGNORE,
        help=f"what requests of CPU and memory do; {_ENFORCE}: jobs wait until they are free; default: {_IGNORE}",
    )
    up.add_argument("--foreground", action="store_true", help="serve until Ctrl-C, with the log on standard error")
    for name in ("--ready-fd", "--lock-fd"):  # descriptors that ``up`` passes to its server
        up.add_argument(name, type=int, default=-1, help=argparse.SUPPRESS)
    down = _add_verb(verbs, "down", _down, "stop the server and everything it runs; its jobs stay for the next 'up'")
    down.add_argument("--purge", action="store_true", help="also delete all jobs, logs and volumes")
    _add_verb(verbs, "status", _status, "report whether and where the server is running, and which pod has which GPU")
    _add_verb(verbs, "kubeconfig", _kubeconfig, "print the path of the kubeconfig")


def _add_verb(
    verbs: Commands, name: str, run: Callable[[StateFolder, argparse.Namespace], int], text: str, *, about: str = ""
) -> argparse.ArgumentParser:
    description = f"{text[0].upper()}{text[1:]}.{about}"
    parser = verbs.add_parser(name, help=text, description=description, allow_abbrev=False)
    parser.add_argument(
        "--state-dir",
        type=Path,
        metavar="FOLDER",
        help="folder for all state; default: $XDG_STATE_HOME/tf-operator/local",
    )
    parser.set_defaults(run=lambda arguments: _run(run, arguments))
    return parser


def _run(run: Callable[[StateFolder, argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    folder = StateFolder(arguments.state_dir or state.default_folder(os.environ))
    try:
        return run(folder, arguments)
    except StateError as error:
        sys.stderr.write(f"tfjob local: {error}\n")
        return 1


def _up(folder: StateFolder, arguments: argparse.Namespace) -> int:
    if arguments.foreground:
        owned = StateFolder(folder.path, lock=arguments.lock_fd)
        return _serve(owned, arguments)
    folder.check()
    if server := _start(folder, arguments):
        sys.stdout.write(f"The server runs already: {_description(server)}.\n")
        if arguments.gpus or arguments.share_gpus or arguments.requests != _IGNORE:
            sys.stderr.write("It stays as it is: --gpus, --share-gpus and --requests count after")
            sys.stderr.write(f" '{folder.command('down')}'.\n")
    else:
        server = folder.process()
        if server is None or not server.is_serving:
            sys.stderr.write(f"tfjob local: the server has not started; {folder.log} ends with:\n{_last_lines(folder)}")
            return 1
        sys.stdout.write(f"The server runs: {_description(server)}.\n")
    _remember(folder, server)
    sys.stdout.write(f"  export KUBECONFIG={shlex.quote(str(folder.kubeconfig))}\n")
    if os.environ.get("KUBECONFIG", str(folder.kubeconfig)) != str(folder.kubeconfig):
        sys.stdout.write("Before that, commands in this shell are for another cluster, which KUBECONFIG names.\n")
    sys.stdout.write(f"'{folder.command('down')}' ends it.\n")
    return 0


def _remember(folder: StateFolder, running: LocalServer) -> None:
    """From now on commands that name no cluster are for this server: none of them goes elsewhere when it has died.

    One with a folder of its own has to be named: before that, none of them changes another cluster.
    """
    is_default = folder.path == StateFolder(state.default_folder(os.environ)).path
    name, origin = f"the local server at {running.address}", Origin.LOCAL if is_default else Origin.NAMED
    last_cluster.write(LastCluster(running.address, name, origin))


def _start(folder: StateFolder, arguments: argparse.Namespace) -> LocalServer | None:
    """Start the server in a session of its own, and return when it serves, or has ended; or return the one that serves.

    It inherits the lock, so that at no moment another command takes the folder for free.
    """
    lock = _wait_free(folder)
    if isinstance(lock, LocalServer):
        return lock
    reading, writing = os.pipe()
    with ExitStack() as stack:
        stack.callback(os.close, reading)
        stack.callback(os.close, lock)
        try:
            folder.record("")  # until the server says so itself
            log = os.open(folder.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        except OSError as error:  # a full disk; by itself it would be taken for that of standard output
            raise StateError(f"{folder.path} cannot be written: {error.strerror}") from error
        stack.callback(os.close, log)
        # -P: no module is imported from the folder in which the command happens to be typed.
        command = [sys.executable, "-P", "-m", "tf_operator.cli", "local", "up", "--foreground"]
        command += [f"--state-dir={folder.path}", f"--ready-fd={writing}", f"--lock-fd={lock}"]
        command += [f"--gpus={arguments.gpus}", *(["--share-gpus"] if arguments.share_gpus else [])]
        command += [f"--requests={arguments.requests}"]
        try:
            process = subprocess.Popen(  # noqa: S603 (our own program)
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                pass_fds=(writing, lock), cwd=Path.cwd(),
            )  # fmt: skip
        finally:
            os.close(writing)
        answer = b""
        try:
            answer = os.read(reading, 4096) if select.select([reading], [], [], STARTED_WITHIN)[0] else b""
        finally:
            if answer != _READY:
                process.kill()
                process.wait()
        if answer not in {b"", _READY}:
            raise StateError(answer.decode(errors="replace"))
        process.returncode = 0  # it goes on, and nobody waits for it
    return None


def _wait_free(folder: StateFolder) -> int | LocalServer:
    """A lock of the folder, or the server that serves in it. One that is starting, or ending, is waited for."""
    began, is_silent = time.monotonic(), True  # noqa: TID251 (there is no event loop)
    while (server := folder.process()) is None or not server.is_serving:
        try:
            return folder.lock(patience=0)
        except AlreadyOwned as error:
            patience, waited = _patience_with(server), time.monotonic() - began  # noqa: TID251 (as above)
            if waited > patience:
                raise
            if is_silent and waited > _SILENT_FOR:
                is_silent = False
                sys.stderr.write(f"Waiting up to {patience:g} s: {error}.\n")
        time.sleep(0.02)  # noqa: TID251 (as above)
    return server


def _patience_with(server: LocalServer | None) -> float:
    """The seconds until the folder should be free, or the server serve.

    Who has the folder and has not said so is a server at the start of its start, whose ``up`` was killed perhaps.
    """
    return ENDED_WITHIN + server.ends_within if server and server.is_ending else STARTED_WITHIN


def _down(folder: StateFolder, arguments: argparse.Namespace) -> int:
    folder.check()
    if not folder.exists():
        sys.stdout.write(f"Nothing runs: there is no {folder.path}.\n")
        return 0
    ended = "Nothing runs."
    with ExitStack() as stack:
        for is_last in (False, False, True):
            if running := folder.process():
                if not running.process.is_here:
                    raise AlreadyOwned(folder.owner())
                _end(folder, running)
                ended = f"Ended: {_description(running)}."
            try:
                stack.enter_context(folder.owned(patience=STARTED_WITHIN))
                break
            except AlreadyOwned:  # by a server that an ``up`` is starting, perhaps
                if is_last or folder.process() is None:
                    raise
        # Also after a server that was killed: its processes and files are cleaned up here.
        _clean_up(folder)
        if arguments.purge:
            folder.purge()
    remainder = f"{folder.path} is deleted." if arguments.purge else f"The jobs are kept in {folder.path}."
    sys.stdout.write(f"{ended} {remainder}\n")
    return 0


def _clean_up(folder: StateFolder) -> None:
    processes = folder.node / "processes"
    if processes.is_dir():
        spawner.kill_left_over(processes)
    shutil.rmtree(folder.node / "pods", ignore_errors=True)
    short_paths.remove(folder.node)
    folder.forget()


def _end(folder: StateFolder, running: LocalServer) -> None:
    """End a server with its programs, which have their grace periods; Ctrl-C kills them."""
    running.process.signal(signal.SIGTERM)
    try:
        _wait_ended(folder, running)
    except KeyboardInterrupt:
        sys.stderr.write("\nKilling all programs.\n")
        running.process.signal(signal.SIGTERM)
        _wait_ended(folder, running)


def _wait_ended(folder: StateFolder, running: LocalServer) -> None:
    began, is_silent = time.monotonic(), True  # noqa: TID251 (there is no event loop)
    while running.process.is_alive:
        ending, waited = folder.process() or running, time.monotonic() - began  # noqa: TID251 (as above)
        if waited > ENDED_WITHIN + ending.ends_within:
            running.process.signal(signal.SIGKILL)
        if is_silent and waited > _SILENT_FOR and ending.ends_within:
            is_silent = False
            text = f"Waiting up to {ending.ends_within:g} s for programs to end; Ctrl-C kills them.\n"
            sys.stderr.write(text)
        time.sleep(0.02)  # noqa: TID251 (as above)


def _status(folder: StateFolder, _: argparse.Namespace) -> int:
    folder.check()
    server = folder.server()
    if server and server.is_ending:
        ending = f"{_description(server)}, state in {folder.path}"
        text = f"The server is ending: {ending}; '{folder.command('up')}' starts another one."
    elif server:
        text = f"The server runs: {_description(server)}, state in {folder.path}."
    else:
        text = f"No server runs in {folder.path}; '{folder.command('up')}' starts one."
    sys.stdout.write(f"{text}\n")
    sys.stdout.writelines(_gpu_lines())
    return 0 if server and server.is_serving else 1


def _gpu_lines() -> Iterator[str]:
    """The GPUs of the machine, who has them, and what they do."""
    try:
        machine, loads = devices.find(), devices.loads()
    except GpuError as error:
        sys.stderr.write(f"tfjob local: {error}\n")
        return
    holders = journal.read_all(gpu_settings.journal_folder(os.environ))
    rows = []
    for device in machine:
        pods, load = holders.get(device.uuid, []), loads.get(device.uuid)
        used = "-" if load is None or load.used is None else f"{round(load.used * 100)} %"
        memory = f"{load.memory / _GIBIBYTE:.1f}/{load.total_memory / _GIBIBYTE:.1f} GiB" if load else "-"
        rows.append([device.index, device.name, "busy" if pods else "free", used, memory, ", ".join(pods) or "-"])
    if rows:
        yield from display.table(["GPU", "NAME", "STATE", "LOAD", "MEMORY", "PODS"], rows)


def _kubeconfig(folder: StateFolder, _: argparse.Namespace) -> int:
    # Also where none runs: KUBECONFIG=$(tfjob local kubeconfig) must not be empty, which would mean another cluster.
    # Nor may it be somebody else's file, which may name programs that kubectl runs.
    try:
        folder.check()
    except StateError:
        sys.stdout.write(f"{os.devnull}\n")
        raise
    sys.stdout.write(f"{folder.kubeconfig}\n")
    sys.stdout.flush()
    if folder.server() is None:
        raise StateError(f"no server runs in {folder.path}; '{folder.command('up')}' starts one")
    return 0


def _description(server: LocalServer) -> str:
    where = "" if server.process.is_here else " of another container"
    return f"{server.address or 'starting'}, process {server.process.pid}{where}"


def _last_lines(folder: StateFolder) -> str:
    lines = folder.read(folder.log.name).decode(errors="replace").splitlines()[-10:]
    return "".join(f"  {line}\n" for line in lines)


def _serve(folder: StateFolder, arguments: argparse.Namespace) -> int:
    ready, lock = arguments.ready_fd, arguments.lock_fd
    for descriptor in (ready, lock):
        if descriptor >= 0:
            os.set_inheritable(descriptor, False)  # noqa: FBT003 (the function's own order)
    starter = StartingCommand(ready)
    from tf_operator.app import local  # noqa: PLC0415 (only this command needs the operator, and it takes its time)
    from tf_operator.local.apiserver.storage.journal import UnusableJournal  # noqa: PLC0415 (as above)

    try:
        if lock >= 0:
            folder.record("")
        gpus = local.GpuChoice(arguments.gpus, shares=arguments.share_gpus)
        enforces = arguments.requests == _ENFORCE
        return local.serve(folder, gpus, enforces_requests=enforces, on_ready=lambda: starter.tell(_READY))
    except (sqlite3.Error, UnusableJournal) as error:
        way_out = f"'{folder.command('down --purge')}' deletes it with all jobs, logs and volumes; the data of volumes,"
        way_out += f" in {folder.node / 'claims'}, stays if the file alone is moved away"
        problem = StateError(f"{folder.journal} cannot be used ({error}); {way_out}")
    except StateError as error:
        problem = error
    except GpuError as error:
        problem = StateError(str(error))
    except OSError as error:  # a full disk, or no 127.0.0.1 as in a container with IPv6 alone
        problem = StateError(f"the server cannot run: {error}")
    starter.tell(str(problem).encode()[:4000])
    raise problem


class StartingCommand:
    """The command that has started this server, and waits for its first word; nobody for a descriptor below 0.

    When it is killed before, nobody knows of a server, and this one ends.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self.watching = threading.Thread(target=self._watch, args=(descriptor,), name="starter", daemon=True)
        """Ends with the command."""
        if descriptor >= 0:
            self.watching.start()

    def tell(self, text: bytes) -> None:
        """Say it, unless something was said before."""
        descriptor = self._taken()
        if descriptor >= 0:
            try:
                os.write(descriptor, text)
            except BrokenPipeError:
                os.kill(os.getpid(), signal.SIGTERM)
            os.close(descriptor)

    def _watch(self, descriptor: int) -> None:
        """End this server when nobody can read what it says, which is an error of the pipe."""
        poll = select.poll()
        poll.register(descriptor, 0)
        poll.poll()
        if self._taken() >= 0:
            os.kill(os.getpid(), signal.SIGTERM)

    def _taken(self) -> int:
        """The descriptor, for whoever is the first to need it."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, -1
        return descriptor
