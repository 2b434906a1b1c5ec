"""The end of a local server of this process's own, beside what else has its pipe."""

import asyncio
import os
import sys

from tf_operator.client.run import own_server


async def test_a_server_is_told_to_end_although_a_forked_process_has_its_pipe_too():
    program = [sys.executable, "-c", "import sys; sys.stdin.buffer.raw.read(1)"]
    process = await asyncio.create_subprocess_exec(*program, stdin=asyncio.subprocess.PIPE)
    of_a_child = os.dup(process.stdin.get_extra_info("pipe").fileno())
    try:
        async with asyncio.timeout(30):
            await own_server._end(process)
    finally:
        os.close(of_a_child)

    assert process.returncode == 0
