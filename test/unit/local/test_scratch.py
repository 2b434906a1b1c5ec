"""The folder of one command, whatever becomes of the command."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.settle import eventually
from tf_operator.local import scratch
from tf_operator.local.node.processes.spawner import start_time_of

_COMMAND = """
from tf_operator.local import scratch
with scratch.folder() as folder:
    print(folder.path, flush=True)
    input()
"""


async def start(tmp_path, **variables):
    command = [sys.executable, "-c", _COMMAND]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return await asyncio.create_subprocess_exec(*command, **pipes, env={"TMPDIR": str(tmp_path), **variables})


def children(pid):
    return map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


async def killed_with_its_remover(tmp_path):
    """The folder that a command leaves when it and the process beside it are killed at the same moment."""
    process = await start(tmp_path)
    folder = Path((await process.stdout.readline()).decode().strip())
    for pid in (*children(process.pid), process.pid):
        os.kill(pid, signal.SIGKILL)
    await process.wait()
    return folder


async def test_a_folder_is_gone_after_sigkill_though_a_program_makes_it_again(tmp_path, tmp_path_factory):
    """While the remover sleeps."""
    programs = tmp_path_factory.mktemp("programs")
    make = f'folder=$(cat {programs}/folder); [ ! -e "$folder" ] && mkdir -p "$folder/saved" && echo > {programs}/made'
    (programs / "sleep").write_text(f"#!/bin/sh\n{make}\n")
    (programs / "sleep").chmod(0o755)
    process = await start(tmp_path, PATH=f"{programs}:/usr/bin:/bin")
    folder = Path((await process.stdout.readline()).decode().strip())
    assert folder.parent == tmp_path
    (programs / "folder").write_text(str(folder))

    process.kill()
    await process.wait()

    await eventually(lambda: (programs / "made").exists() and list(tmp_path.iterdir()) == [])


async def test_the_next_command_ends_what_is_left_when_all_was_killed_and_leaves_others_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    others = tmp_path / "tfjob-run-somebody"
    others.mkdir(mode=0o755)
    running = await start(tmp_path)
    folder_of_running = Path((await running.stdout.readline()).decode().strip())
    left = await killed_with_its_remover(tmp_path)
    program = await asyncio.create_subprocess_exec("sleep", "1000", start_new_session=True)
    (left / scratch.PROCESSES).mkdir()
    (left / scratch.PROCESSES / str(program.pid)).write_text(start_time_of(program.pid))

    with scratch.folder() as folder:
        assert {*tmp_path.iterdir()} == {others, folder_of_running, folder.path}

    assert await program.wait() == -signal.SIGKILL
    await running.communicate(b"\n")


def test_a_folder_that_is_used_is_locked_for_those_who_delete_what_is_old(tmp_path, monkeypatch):
    """systemd-tmpfiles locks each folder exclusively, and leaves alone one that is locked, with all that is in it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with scratch.folder() as folder:
        descriptor = os.open(folder.path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)

    assert list(tmp_path.iterdir()) == []
