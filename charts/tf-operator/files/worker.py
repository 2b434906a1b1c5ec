"""What each worker of the job of `helm test` does: find the others by TF_CONFIG, and shake hands with each of them.

It succeeds when it has reached every other worker, and every other worker has reached it: so names resolve, ports are
open, and the index of each worker is its own.
"""

import json
import os
import socket
import sys
import threading
import time

PATIENCE_SECONDS = 120.0


def main() -> int:
    """Shake hands; the exit code."""
    config = json.loads(os.environ["TF_CONFIG"])
    workers, index = config["cluster"]["worker"], config["task"]["index"]
    others = {number: address for number, address in enumerate(workers) if number != index}
    callers: set[int] = set()
    listener = socket.create_server(("", int(workers[index].rpartition(":")[2])))
    listener.settimeout(PATIENCE_SECONDS)
    door = threading.Thread(target=welcome, args=(listener, callers, len(others)), daemon=True)
    door.start()
    for number, address in others.items():
        call(address, index)
        sys.stdout.write(f"worker {index} has reached worker {number} at {address}\n")
    door.join(PATIENCE_SECONDS)
    sys.stdout.write(f"worker {index} was reached by {sorted(callers)}\n")
    return int(callers != set(others))


def welcome(listener: socket.socket, callers: set[int], expected: int) -> None:
    """Note who calls, until all have."""
    while len(callers) < expected:
        caller, _ = listener.accept()
        with caller:
            caller.settimeout(PATIENCE_SECONDS)
            callers.add(int(caller.recv(8)))


def call(address: str, index: int) -> None:
    """Say who we are; until the other one listens, and its name is known, try again."""
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=5) as line:
                line.sendall(str(index).encode())
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
