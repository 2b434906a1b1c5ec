"""A port of this machine's loopback as the nodes of a cluster of ours have it, too, on their loopback.

So a registry on it has one name for whoever pushes and for containerd, which speaks HTTP with nobody else.
"""

import ctypes
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Final

_CLONE_NEWNET: Final = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def shared(port: int, *, node: int) -> Iterator[None]:
    """While the body runs, connections to the port on the node's loopback come here; ``node``: its first process."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        listener = pool.submit(_listen, port, node).result()
    sockets, threads = list[socket.socket](), list[threading.Thread]()
    acceptor = threading.Thread(target=_accept, args=(listener, port, sockets, threads))
    acceptor.start()
    try:
        yield
    finally:
        _end(listener)
        acceptor.join()  # from here on there are no more of either
        for each in sockets:
            _end(each)
        for thread in threads:
            thread.join()
        for each in (listener, *sockets):
            each.close()


def _listen(port: int, node: int) -> socket.socket:
    """In a thread that ends after it: it stays in the node's network, and what it opens belongs there."""
    network = os.open(f"/proc/{node}/ns/net", os.O_RDONLY)
    try:
        if _LIBC.setns(network, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot enter the network of {node}: {os.strerror(number)}")
        return socket.create_server(("127.0.0.1", port))
    finally:
        os.close(network)


def _accept(listener: socket.socket, port: int, sockets: list[socket.socket], threads: list[threading.Thread]) -> None:
    with suppress(OSError):  # the end of the listener
        while True:
            near, _ = listener.accept()
            sockets.append(near)
            far = socket.create_connection(("127.0.0.1", port))
            sockets.append(far)
            for source, target in ((near, far), (far, near)):
                threads.append(threading.Thread(target=_pump, args=(source, target)))
                threads[-1].start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _end(open_socket: socket.socket) -> None:
    """Wake whoever waits for it."""
    with suppress(OSError):
        open_socket.shutdown(socket.SHUT_RDWR)
