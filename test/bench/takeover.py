"""How long nobody works when the leader ends: told by the clocks in the logs of both processes.

A standby waits with warm caches. With SIGTERM the leader gives its Lease back; after SIGKILL the Lease has to expire,
which takes the 15 s that it is good for, by default.
"""

import signal
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from contenders import operator_command, running

from lab.control_plane.plane import ControlPlane

LEASE_SECONDS = 15
SIGNALS = {"after SIGTERM": signal.SIGTERM, "after SIGKILL": signal.SIGKILL}


def measured() -> dict[str, float]:
    """Seconds from each signal to the moment when the other process works."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plane = stack.enter_context(ControlPlane.up(directory / "plane"))
        command = operator_command(plane)
        leader = stack.enter_context(running(command))
        seconds = {}
        for name, how in SIGNALS.items():
            # It has said that the Lease is another's before, or says so after, its caches are complete.
            standby = stack.enter_context(running(command, until="caches synced"))
            standby.wait_said("the Lease is held")
            began = time.monotonic()
            leader.end(how)
            standby.wait_said('"workers started"', every=0.01)
            seconds[name] = time.monotonic() - began
            leader = standby
        return seconds
