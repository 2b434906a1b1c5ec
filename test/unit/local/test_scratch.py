"""The folder of one command, whatever becomes of the command."""

import asyncio
import subprocess
import sys
from pathlib import Path

from support.settle import eventually

_COMMAND = """
from tf_operator.local import scratch
with scratch.folder() as folder:
    print(folder.path, flush=True)
    input()
"""


async def test_a_folder_is_gone_after_sigkill_though_a_program_makes_it_again(tmp_path):
    command = [sys.executable, "-c", _COMMAND]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = await asyncio.create_subprocess_exec(*command, **pipes, env={"TMPDIR": str(tmp_path)})
    folder = Path((await process.stdout.readline()).decode().strip())
    assert folder.parent == tmp_path

    process.kill()
    await process.wait()
    await eventually(lambda: not folder.exists())
    (folder / "saved at SIGTERM").mkdir(parents=True)

    await eventually(lambda: list(tmp_path.iterdir()) == [])
