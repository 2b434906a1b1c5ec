"""The folder in which everything of one local server is, and the process that owns it.

    lock              held (flock) by the server; it is never deleted, but with the whole folder
    server.json       the server's process and address, while it runs; one of a dead process says: it was killed
    kubeconfig        who has it may do everything; of this user only
    progress.json     at which port programs report, and the secret of their tokens
    token, *.crt, *.key, journal.sqlite, history.sqlite, server.log, and what the node keeps

The folder belongs to this user alone (0700): one of somebody else, or a link to one, is refused, and nothing in it is
believed. So is a folder in which somebody else has put a file, and one with other things in it: ``purge`` deletes the
folder as a whole.
"""

import fcntl
import json
import os
import shlex
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tf_operator.local.process_identity import ProcessIdentity

LOCK = "lock"


class StateError(Exception):
    """The folder cannot be used; the message says why and what to do."""


class AlreadyOwned(StateError):
    """Another process has the folder."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server that runs, or one that was killed."""

    process: ProcessIdentity
    address: str
    """Its URL; empty until it serves."""
    is_ending: bool = False
    """Whether it was asked to end."""
    ends_within: float = 0.0
    """The seconds that its programs may take then."""

    @property
    def is_serving(self) -> bool:
        """Whether it has started, and goes on."""
        return bool(self.address) and not self.is_ending

    @property
    def activity(self) -> str:
        """What it does now: the end of a sentence about it."""
        if self.is_ending:
            return "is ending"
        return f"serves {self.address}" if self.address else "is starting"


def default_folder(environment: Mapping[str, str]) -> Path:
    """Where state is kept unless a command says otherwise."""
    state_home = environment.get("XDG_STATE_HOME", "")
    # The XDG specification: a path that is not absolute is to be ignored.
    base = Path(state_home) if Path(state_home).is_absolute() else Path.home() / ".local" / "state"
    return base / "tf-operator" / "local"


class StateFolder:
    def __init__(self, path: Path, *, lock: int = -1) -> None:
        """Nothing is read or made yet. ``lock`` is a descriptor of ``lock()``, if this process was given one."""
        self.path = path.absolute()
        self._lock = lock

    @property
    def kubeconfig(self) -> Path:
        """For kubectl, while a server runs."""
        return self.path / "kubeconfig"

    @property
    def journal(self) -> Path:
        return self.path / "journal.sqlite"

    @property
    def history(self) -> Path:
        """Of jobs that have ended."""
        return self.path / "history.sqlite"

    @property
    def node(self) -> Path:
        return self.path / "node"

    @property
    def log(self) -> Path:
        return self.path / "server.log"

    def command(self, verb: str, environment: Mapping[str, str] = os.environ) -> str:
        """What a user types to do this with this very folder."""
        is_default = self.path == default_folder(environment)
        return f"tfjob local {verb}" + ("" if is_default else f" --state-dir {shlex.quote(str(self.path))}")

    def exists(self) -> bool:
        return os.path.lexists(self.path / LOCK)

    def create(self) -> None:
        """Make the folder, or check the one that is there; ``StateError`` if it must not be used.

        A file in it says that it is such a folder.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
            self._check()
            # From now on, whatever else is in the folder is ours.
            os.close(os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        except OSError as error:
            raise StateError(f"{self.path} cannot be used: {error.strerror}") from error

    def check(self) -> None:
        """``StateError`` if there is a folder that must not be used: nothing in it may be believed."""
        with suppress(OSError):  # there is none, or none that can be read
            self._check()

    def _check(self) -> None:
        status = self.path.lstat()
        if stat.S_ISLNK(status.st_mode):
            raise StateError(f"{self.path} is a link; name the folder itself with --state-dir")
        if not stat.S_ISDIR(status.st_mode):
            raise StateError(f"{self.path} is not a folder; choose another one with --state-dir")
        if status.st_uid != os.geteuid():
            raise StateError(f"{self.path} belongs to another user; choose another folder with --state-dir")
        if not self.exists() and any(self.path.iterdir()):
            raise StateError(f"{self.path} has other files in it; choose an empty folder with --state-dir")
        if stat.S_IMODE(status.st_mode) != 0o700:
            self.path.chmod(0o700)
        # From now on nobody else adds any. Who could before may have left a token that he knows.
        if foreign := next(filter(_is_foreign, self.path.iterdir()), None):
            problem = f"has a file of another user in it, {foreign.name}"
            raise StateError(f"{self.path} {problem}; choose another folder with --state-dir")

    def server(self) -> LocalServer | None:
        """The server that serves here, perhaps its last requests."""
        server = self.process()
        return server if server and server.address else None

    def process(self) -> LocalServer | None:
        """The server that runs here, even if it is still starting: then it has no address."""
        running = self._recorded()
        if running is None:
            return None
        # Of a process in another container, only the lock tells.
        return running if (running.process.is_alive if running.process.is_here else self._is_locked()) else None

    def record(self, address: str, *, is_ending: bool = False, ends_within: float = 0.0) -> None:
        """Say that this process, which owns the folder, serves at the address; empty: that it starts."""
        server = LocalServer(ProcessIdentity.current(), address, is_ending, ends_within)
        self.write("server.json", json.dumps(asdict(server)).encode())

    def forget(self) -> None:
        """No server runs any more, and nothing of one is left."""
        (self.path / "server.json").unlink(missing_ok=True)

    def _recorded(self) -> LocalServer | None:
        try:
            self._check()
            record = json.loads(self.read("server.json") or "null")
            return LocalServer(**record | {"process": ProcessIdentity(**record["process"])})
        except (StateError, OSError, ValueError, TypeError, KeyError):
            return None

    @contextmanager
    def owned(self, patience: float = 1.0) -> Iterator[None]:
        """Own the folder, which exists afterwards; ``AlreadyOwned`` when another process does."""
        descriptor = self._lock if self._lock >= 0 else self.lock(patience)
        try:
            yield
        finally:
            os.close(descriptor)

    def lock(self, patience: float = 1.0) -> int:
        """A descriptor that owns the folder until it is closed in each process that has it; otherwise as ``owned``."""
        self.create()
        path, until = self.path / LOCK, time.monotonic() + patience  # noqa: TID251 (there is no event loop yet)
        while True:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            except FileNotFoundError:  # purged at this moment
                self.create()
                continue
            try:
                if self._has_locked(descriptor):
                    return descriptor
            except BlockingIOError:
                # Somebody who is cleaning up has it for a moment; a server for long.
                if self.process() or time.monotonic() > until:  # noqa: TID251 (as above)
                    os.close(descriptor)
                    raise AlreadyOwned(self.owner()) from None
            os.close(descriptor)
            time.sleep(0.02)  # noqa: TID251 (as above)

    def lock_abandoned(self) -> int:
        """As ``lock``, of a folder whose owner was killed; -1 if this is none. Makes and changes nothing."""
        descriptor = -1
        with suppress(OSError, StateError):
            if not self.exists():
                return -1
            self._check()
            descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_NOFOLLOW)
            if self._has_locked(descriptor):
                return descriptor
        if descriptor >= 0:
            os.close(descriptor)
        return -1

    def _is_locked(self) -> bool:
        with suppress(OSError):
            descriptor = os.open(self.path / LOCK, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                os.close(descriptor)
        return False

    def _has_locked(self, descriptor: int) -> bool:
        """Whether the lock is ours now; ``BlockingIOError`` when it is another's."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # ``purge`` may have deleted the file since it was opened: then the lock is nobody's.
        path = self.path / LOCK
        return os.path.lexists(path) and os.path.samestat(os.fstat(descriptor), path.lstat())

    def owner(self) -> str:
        """Who has the folder, and how it is had: a sentence."""
        server = self.process()
        if server is None:
            return f"{self.path} is used by another process; try again"
        process = f"process {server.process.pid}"
        if not server.process.is_here:
            return f"{self.path} is used in another container, where {process} {server.activity}; end it there"
        way_out = f"'{self.command('down')}' {'kills its programs' if server.is_ending else 'ends it'}"
        return f"{self.path} is used by {process}, which {server.activity}; {way_out}"

    def read(self, name: str) -> bytes:
        """A file of the folder; empty when there is none."""
        try:
            return (self.path / name).read_bytes()
        except OSError:
            return b""

    def write(self, name: str, content: bytes) -> None:
        """Write a file that only this user may read, all of it or nothing."""
        descriptor, temporary = tempfile.mkstemp(dir=self.path, prefix=f".{name}-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            Path(temporary).replace(self.path / name)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def purge(self) -> None:
        """Delete the folder. Its owner calls this, when everything that wrote into it has ended."""
        try:
            # A training may have made a folder that nobody may read or write: it is opened before the walk enters it.
            for folder, names, _ in os.walk(self.path):
                for inner in (Path(folder, name) for name in names):
                    if not inner.is_symlink():
                        inner.chmod(0o700)
            # The lock last: it says that the folder is ours, also when this is broken off.
            for inner in (path for path in self.path.iterdir() if path.name != LOCK):
                if inner.is_dir() and not inner.is_symlink():
                    shutil.rmtree(inner)
                else:
                    inner.unlink(missing_ok=True)
            shutil.rmtree(self.path)
        except OSError as error:
            raise StateError(f"{self.path} cannot be deleted: {error}") from error
        if self.path.parent.name == default_folder({}).parent.name:
            with suppress(OSError):  # there is something else in it
                self.path.parent.rmdir()


def _is_foreign(file: Path) -> bool:
    """Whether it is there, and another user's."""
    with suppress(FileNotFoundError):
        return file.lstat().st_uid != os.geteuid()
    return False
