"""Starting servers through the supervisor and waiting until they are ready.

Between plane_servers (what to start) and control_plane (what a plane is). Invariant: after `start`
a server has answered for itself; otherwise the error has the end of its log.
"""

import time
from typing import Any, Final

from lab.control_plane import directory as plane_directory
from lab.control_plane import servers as plane_servers
from lab.control_plane.directory import Layout
from lab.control_plane.link import SupervisorLink
from lab.control_plane.servers import ServerSpec
from lab.tools.get import programs

# A plane is usually ready in 3 to 5 seconds; a machine that is busy with six of them takes longer.
_READY_SECONDS: Final = 60.0
_PORT_ATTEMPTS: Final = 5
_PORT_TAKEN: Final = "address already in use"
_TAIL_LINES: Final = 20


class ServerFailedError(Exception):
    """A server ended or did not become ready; the message ends with the tail of its log."""

    def __init__(self, name: str, event: str, tail: str) -> None:
        super().__init__(f"{name} {event}; the end of its log:\n{tail or '(its log is empty)'}")
        self.tail = tail


class Launcher:
    """Starts the servers of one plane."""

    def __init__(self, layout: Layout, link: SupervisorLink) -> None:
        self._layout = layout
        self._link = link

    def start(self, *specs: ServerSpec) -> None:
        """Start all of *specs* together and return when every one is ready; raise ServerFailedError."""
        offsets = [self._spawn_fresh(spec) for spec in specs]
        for spec, offset in zip(specs, offsets, strict=True):
            self._wait_through_taken_ports(spec, offset)

    def start_again(self, name: str) -> None:
        """Start the ended server *name* with the flags and the port that it had."""
        record = self._record(name)
        self._wait_ready(name, self._spawn(name, record["binary"], record["argv"], record["port"], record["url"]))

    def _spawn_fresh(self, spec: ServerSpec) -> int:
        port = plane_servers.free_port(spec.host)
        argv = spec.argv(programs(spec.binary)[spec.binary], port)
        return self._spawn(spec.name, spec.binary, argv, port, spec.url(port))

    def _spawn(self, name: str, binary: str, argv: list[str], port: int, url: str) -> int:
        """Start a server and return where in its log this start begins."""
        log = self._layout.log(name)
        offset = log.stat().st_size if log.exists() else 0
        self._link.ask("spawn", name=name, binary=binary, argv=argv, port=port, url=url, log=str(log))
        return offset

    def _wait_through_taken_ports(self, spec: ServerSpec, offset: int) -> None:
        """Between our look at a port and the server's bind somebody may have taken it: choose again."""
        for _ in range(_PORT_ATTEMPTS - 1):
            try:
                return self._wait_ready(spec.name, offset)
            except ServerFailedError as failure:
                if _PORT_TAKEN not in failure.tail:
                    raise
            offset = self._spawn_fresh(spec)
        return self._wait_ready(spec.name, offset)

    def _wait_ready(self, name: str, offset: int) -> None:
        record = self._record(name)
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            is_ready = plane_servers.is_ready(self._layout, binary=record["binary"], url=record["url"])
            # In this order: an answer counts only if our server was still there after it was given.
            code = self._link.ask("exited", name=name)["code"]
            if code is not None:
                raise ServerFailedError(name, f"ended with code {code}", self._tail(name, offset))
            if is_ready:
                return
            if time.monotonic() > deadline:
                problem = f"was not ready after {_READY_SECONDS:.0f} s"
                raise ServerFailedError(name, problem, self._tail(name, offset))
            time.sleep(0.1)

    def _tail(self, name: str, offset: int) -> str:
        text = self._layout.log(name).read_bytes()[offset:].decode(errors="replace")
        return "\n".join(text.splitlines()[-_TAIL_LINES:])

    def _record(self, name: str) -> dict[str, Any]:
        state = plane_directory.read_state(self._layout.root)
        assert state is not None, "the supervisor wrote it before it answered the first command"
        record: dict[str, Any] = state["servers"][name]
        return record
