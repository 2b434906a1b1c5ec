"""A line to a server that is cut: connections that have carried so many bytes to it are reset.

with CutLine.to(server.port, after=500_000, times=2) as line:
connect(line.port)
"""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self


class CutLine:
    """Passes bytes on; made by ``CutLine.to``."""

    def __init__(self, target: int, *, after: int, times: int) -> None:
        self.cuts = 0
        self._target = target
        self._after = after
        self._times = times
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: set[socket.socket] = set()

    @classmethod
    @contextmanager
    def to(cls, target: int, *, after: int, times: int) -> Iterator[Self]:
        line = cls(target, after=after, times=times)
        thread = threading.Thread(target=line._accept)
        thread.start()
        try:
            yield line
        finally:
            line._listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            line._listener.close()

    def _accept(self) -> None:
        threads = []
        with suppress(OSError):  # closed
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                self._open |= {near, far}
                for ends in ((near, far, self._after), (far, near, None)):
                    threads.append(threading.Thread(target=self._pass_on, args=ends))
                    threads[-1].start()
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        for one in self._open:
            one.close()

    def _pass_on(self, source: socket.socket, sink: socket.socket, after: int | None) -> None:
        passed = 0
        with suppress(OSError):
            while piece := source.recv(65536):
                passed += len(piece)
                if after is not None and passed > after and self.cuts < self._times:
                    self.cuts += 1
                    source.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    break
                sink.sendall(piece)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
