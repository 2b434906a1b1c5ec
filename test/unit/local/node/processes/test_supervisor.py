"""Real processes: how they end, and that none is left."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import coverage
import pytest
import pytest_asyncio

from support.settle import eventually
from tf_operator.local.node.processes import spawner
from tf_operator.local.node.processes import supervisor as processes_module
from tf_operator.local.node.processes.supervisor import Launch, Processes
from tf_operator.local.process_identity import start_time

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Watcher:
    def __init__(self):
        self.pid, self.problem, self.status, self.pieces = 0, "", None, []
        self.event = asyncio.Event()

    @property
    def output(self):
        return b"".join(self.pieces).decode()

    def on_started(self, pid):
        self.pid = pid
        self.event.set()

    def on_failed(self, problem):
        self.problem = problem
        self.event.set()

    def on_output(self, data):
        self.pieces.append(data)

    def on_ended(self, status):
        self.status = status
        self.event.set()

    async def ended(self):
        async with asyncio.timeout(60):
            while self.status is None and not self.problem:
                self.event.clear()
                await self.event.wait()
        return self


@pytest.fixture(scope="module", autouse=True)
def _spawner_is_measured(tmp_path_factory):
    """The spawner starts without any package; where the tests are measured, its lines are, too."""
    measuring = coverage.Coverage.current()
    if measuring is None:
        yield
        return
    python = tmp_path_factory.mktemp("measured") / "python"
    options = f"--branch --parallel-mode --data-file={measuring.config.data_file} --include='*/spawner.py'"
    python.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} -m coverage run --rcfile= {options} "$@"\n')
    python.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes_module, "sys", SimpleNamespace(executable=str(python)))
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def start(tmp_path_factory, _spawner_is_measured):
    folder = tmp_path_factory.mktemp("node") / "processes"
    processes = Processes(folder)
    processes.open()

    def run(*argv, cwd="/", network=(), **env):
        watcher = Watcher()
        watcher.identity = f"run {len(started)}"
        started.append(watcher)
        processes.start(
            watcher.identity, Launch(argv, {"PATH": os.environ["PATH"], **env}, cwd, network=network), watcher
        )
        return watcher

    started = []
    run.processes = processes
    yield run
    processes.close()
    assert list(folder.iterdir()) == []
    assert not any(is_alive(watcher.pid) for watcher in started if watcher.pid)


def hold_loop(seconds):
    time.sleep(seconds)


def is_alive(pid):
    """A zombie is not: its parent may be a process that never asks for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def marked(identity):
    """The processes of a container, wherever they are."""
    pids = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"{spawner.MARK}={identity}".encode() in file.read_bytes().split(b"\0"):
                pids.append(file.parent.name)
    return pids


@pytest.mark.parametrize(
    ("script", "status", "output"),
    [
        ("exit 3", 3, ""),
        ("echo out; echo err >&2", 0, "out\nerr\n"),
        ("kill -9 $$", -9, ""),
        ('echo "$A in $PWD"', 0, "a in /usr\n"),
        ("trap '' TERM; kill -TERM $$; read x; echo \"read $?\"", 0, "read 1\n"),
        ("head -c 300000 /dev/zero | tr '\\0' x", 0, "x" * 300_000),
    ],
)
async def test_a_process_is_reported_with_its_output_and_how_it_ended(start, script, status, output):
    watcher = await start("sh", "-c", script, cwd="/usr", A="a").ended()
    assert (watcher.status, watcher.output) == (status, output)


@pytest.mark.parametrize(
    ("argv", "cwd", "problem"),
    [
        (["no-such-program"], "/", 'exec: "no-such-program": No such file or directory'),
        (["sh"], "/no/such/folder", 'exec: "/no/such/folder": No such file or directory'),
        (["/etc/passwd"], "/", 'exec: "/etc/passwd": Permission denied'),
    ],
)
async def test_a_program_that_cannot_be_started_is_reported(start, argv, cwd, problem):
    assert (await start(*argv, cwd=cwd).ended()).problem == problem


@pytest.mark.parametrize("path", ["/no/such/network", "/dev/null"])
async def test_a_program_whose_network_is_not_there_is_not_started(start, path):
    watcher = await start("sh", "-c", "echo started", network=(path,)).ended()
    assert watcher.problem.startswith('exec: "the network of its job": ')
    assert watcher.output == ""


@pytest.mark.parametrize("way", ["sleep 100 &", "setsid sleep 100 &", "(setsid sh -c 'sleep 100 & sleep 99' &)"])
async def test_what_a_process_leaves_behind_is_killed_with_it(start, way):
    watcher = await start("sh", "-c", f"{way}\nsleep 0.1; exit 0").ended()
    assert watcher.status == 0
    await eventually(lambda: not marked(watcher.identity))


async def test_what_has_left_its_group_and_lost_its_mark_is_killed_when_nothing_else_runs(start):
    other = start("sleep", "100")
    script = "env -i setsid sleep 100 & echo $!; until grep -qx sleep /proc/$!/comm; do sleep 0.01; done"
    watcher = await start("sh", "-c", script).ended()
    stray = int(watcher.output)
    await start("true").ended()
    assert start_time(stray)  # it may be one of the other's

    start.processes.signal(other.identity, signal.SIGKILL)
    await other.ended()
    await eventually(lambda: not start_time(stray))


async def test_a_signal_reaches_the_main_process_and_sigkill_the_group(start):
    # A child of the shell ignores SIGTERM; the shell ends by it, at once or when it is its turn.
    polite = start("sh", "-c", "trap 'echo term; exit 5' TERM; echo up; while :; do sleep 0.05; done")
    await eventually(lambda: polite.output == "up\n")
    start.processes.signal(polite.identity, signal.SIGTERM)
    assert ((await polite.ended()).status, polite.output) == (5, "up\nterm\n")
    stubborn = start("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    await eventually(lambda: stubborn.output == "up\n")
    start.processes.signal(stubborn.identity, signal.SIGTERM)
    start.processes.signal(stubborn.identity, signal.SIGKILL)
    assert (await stubborn.ended()).status == -9


async def test_a_flood_of_output_is_read_in_bounded_pieces_while_others_go_on(start):
    flood = start("yes")
    for _ in range(20):
        assert (await start("echo", "x").ended()).status == 0
    assert 0 < max(map(len, flood.pieces)) <= 16 * 1024
    start.processes.signal(flood.identity, signal.SIGKILL)
    assert (await flood.ended()).status == -9


async def test_a_watcher_that_raises_costs_no_other_one_its_news(start):
    broken = start("true")
    broken.on_started = broken.on_ended = lambda _: 1 / 0
    others = [start("echo", "x") for _ in range(5)]
    hold_loop(0.3)  # so that the news of all of them come in one piece
    assert [(await other.ended()).status for other in others] == [0] * 5


def patient_spawner(folder):
    """One that waits longer for programs that are to end, because machines of tests are slow now and then."""
    path, text = folder / "patient_spawner.py", Path(spawner.__file__).read_text()
    assert "_ENDED_WITHIN = 1.0" in text
    path.write_text(text.replace("_ENDED_WITHIN = 1.0", "_ENDED_WITHIN = 60.0"))
    return str(path)


async def up(folder, script):
    """A node of its own, and a program in it that does this at SIGTERM."""
    processes, watcher = Processes(folder / "processes"), Watcher()
    processes.open()
    argv = ["sh", "-c", f"trap '{script}' TERM; echo up; while :; do sleep 0.02; done"]
    processes.start("x", Launch(argv, {"PATH": os.environ["PATH"]}, str(folder)), watcher)
    await eventually(lambda: watcher.output == "up\n")
    return processes, watcher


async def test_programs_may_save_what_they_have_when_the_node_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(spawner, "__file__", patient_spawner(tmp_path))
    processes, _ = await up(tmp_path, "echo bye; echo saved > saved; exit")
    processes.close()
    assert (tmp_path / "saved").read_text() == "saved\n"


async def test_programs_that_do_not_end_when_the_node_ends_are_killed(tmp_path):
    processes, stubborn = await up(tmp_path, "")
    processes.close()
    assert not is_alive(stubborn.pid)


async def test_when_the_spawner_is_killed_all_processes_end_and_the_next_ones_start(start):
    lost = start("sleep", "100")
    await eventually(lambda: lost.pid)
    os.kill(start.processes._process.pid, signal.SIGKILL)
    assert (await lost.ended()).status == -9
    await eventually(lambda: not is_alive(lost.pid))
    assert (await start("echo", "again").ended()).output == "again\n"


_SUPERVISOR = """
import asyncio, sys
from pathlib import Path
from tf_operator.local.node.processes import spawner
from tf_operator.local.node.processes.supervisor import Launch, Processes
from types import SimpleNamespace
spawner.__file__ = sys.argv[3]
async def main():
    processes = Processes(Path(sys.argv[1]))
    processes.open()
    pids = []
    watcher = SimpleNamespace(on_started=pids.append, on_output=lambda _: print(*pids, flush=True))
    script = "trap 'echo saving; echo saved > saved; exit' TERM; setsid sleep 99 & echo up; while :; do sleep 0.1; done"
    processes.start("x", Launch(["sh", "-c", script], {"PATH": "/usr/bin:/bin"}, sys.argv[2]), watcher)
    await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_a_killed_supervisor_takes_all_processes_with_it_and_they_may_print_what_they_save(tmp_path):
    command = [sys.executable, "-c", _SUPERVISOR, str(tmp_path / "p"), str(tmp_path), patient_spawner(tmp_path)]
    supervisor = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    pid = int(await supervisor.stdout.readline())
    supervisor.kill()
    await supervisor.wait()
    await eventually(lambda: not is_alive(pid) and not marked("x"))
    assert (tmp_path / "saved").read_text() == "saved\n"


def sleeping(*argv):
    return subprocess.Popen(argv or ["sleep", "100"], stdout=subprocess.PIPE, start_new_session=True)


async def test_what_an_earlier_node_has_left_is_killed_unless_its_number_is_another_ones_now(tmp_path):
    with sleeping() as left, sleeping() as other:
        (tmp_path / str(left.pid)).write_text(spawner.start_time_of(left.pid))
        (tmp_path / str(other.pid)).write_text("1")
        (tmp_path / "1234567").write_text("1")
        assert spawner.kill_left_over(tmp_path) == [left.pid]
        assert left.wait() == -9
        assert list(tmp_path.iterdir()) == []
        assert is_alive(other.pid)
        other.kill()


async def test_an_earlier_spawner_that_is_still_ending_may_forget_a_group_meanwhile(tmp_path, monkeypatch):
    def start_time(pid):
        (tmp_path / str(pid)).unlink()
        return ""

    monkeypatch.setattr(spawner, "start_time_of", start_time)
    for pid in ("1234567", "1234568"):
        (tmp_path / pid).write_text("1")

    assert spawner.kill_left_over(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


async def test_the_group_of_a_leader_that_nobody_has_reaped_is_killed(tmp_path):
    with sleeping("sh", "-c", "sleep 100 & echo $!") as left:
        member = int(left.stdout.readline())
        await eventually(lambda: not is_alive(left.pid))
        (tmp_path / str(left.pid)).write_text(spawner.start_time_of(left.pid))
        assert spawner.kill_left_over(tmp_path) == [left.pid]
        await eventually(lambda: not is_alive(member))


@pytest.fixture
def no_linux(tmp_path, monkeypatch):
    """The spawner as it runs elsewhere: without /proc, prctl, and (macOS before Python 3.13) waitid."""
    text = Path(spawner.__file__).read_text()
    for here, there in (
        ('sys.platform == "linux"', "False"),
        ("/proc/", "/nowhere/"),
        ("import os\n", "import os\ndel os.waitid\n"),
    ):
        assert here in text
        text = text.replace(here, there)
    (tmp_path / "elsewhere.py").write_text(text)
    monkeypatch.setattr(spawner, "__file__", str(tmp_path / "elsewhere.py"))
    monkeypatch.setattr(spawner, "_IS_LINUX", False)


@pytest.mark.usefixtures("no_linux")
async def test_processes_run_and_end_on_other_systems_than_linux(tmp_path):
    processes, watchers = Processes(tmp_path / "processes"), {}
    processes.open()
    try:
        for script in ("sleep 100 & echo $!; exit 3", "sleep 100", "trap '' TERM; sleep 100"):
            watchers[script] = Watcher()
            processes.start(script, Launch(["sh", "-c", script], {"PATH": os.environ["PATH"]}, "/"), watchers[script])
        ended, lost, stubborn = watchers.values()
        assert (await ended.ended()).status == 3
        await eventually(lambda: not is_alive(int(ended.output)))

        await eventually(lambda: lost.pid and stubborn.pid)
        os.kill(processes._process.pid, signal.SIGKILL)
        assert (await lost.ended()).status == -9
        await eventually(lambda: not is_alive(lost.pid) and not is_alive(stubborn.pid))
    finally:
        processes.close()


@pytest.mark.usefixtures("no_linux")
async def test_what_an_earlier_node_has_left_is_found_by_ps_on_other_systems(tmp_path):
    with sleeping() as left, sleeping() as other:
        (folder := tmp_path / "processes").mkdir()
        (folder / str(left.pid)).write_text(spawner.start_time_of(left.pid))
        (folder / str(other.pid)).write_text("Sun Nov  1 00:00:00 2020")
        assert spawner.kill_left_over(folder) == [left.pid]
        assert left.wait() == -9
        assert is_alive(other.pid)
        other.kill()


async def test_a_program_that_cannot_be_noted_does_not_run(tmp_path):
    processes, watcher = Processes(tmp_path / "processes"), Watcher()
    processes.open()
    try:
        (tmp_path / "processes").rmdir()  # as when the disk is full
        processes.start("unnoted", Launch(["sleep", "100"], {"PATH": os.environ["PATH"]}, "/"), watcher)
        assert "No such file" in (await watcher.ended()).problem
        assert children(processes._process.pid) == []
    finally:
        (tmp_path / "processes").mkdir(exist_ok=True)
        processes.close()


async def test_a_variable_that_is_no_utf_8_reaches_the_program_as_it_is(start):
    run = start("/bin/sh", "-c", 'printf %s "$ODD" | od -An -tx1', ODD=os.fsdecode(b"\xff\xfe"))
    assert (await run.ended()).output.split() == ["ff", "fe"]
