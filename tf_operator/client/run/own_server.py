"""A local server of this process's own, for one job: the API server, the operator and the node, in another process.

It ends with the block, or with this process, however that ends: it holds the other end of a pipe. Nothing is left.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tf_operator.client.job import NotPossible
from tf_operator.client.local_transport import ServerGone
from tf_operator.client.run import tensorflow_lines

_PROGRAM: Final = "tf_operator.app.own_server"
"""Above this package: it is started as a program, as ``tfjob local up`` starts its server."""


@asynccontextmanager
async def running() -> AsyncIterator[str]:
    """The kubeconfig of the server. When the block is left, programs have their grace periods.

    Another interruption meanwhile kills them.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # no module is imported from the working directory
        "-m",
        _PROGRAM,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C at the terminal is for this process alone
        env=tensorflow_lines.quieter(os.environ),
    )
    try:
        line = await process.stdout.readline() if process.stdout else b""
        if not line:
            raise NotPossible("the server on this machine has not started; tfjob local up says why")
        yield os.fsdecode(line.rstrip(b"\n"))
    except ServerGone as error:
        raise NotPossible("the server on this machine was killed, and the job with it: run it again") from error
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin:
        # A byte, because the pipe does not end as long as a process that was forked meanwhile has it, too.
        process.stdin.write(b"\n")
        process.stdin.close()
    interruption: asyncio.CancelledError | None = None
    while process.returncode is None:
        try:
            await process.wait()
        except asyncio.CancelledError as error:
            interruption = error
            process.terminate()
    if interruption:
        raise interruption
