"""The state folder: whose it is, who owns it, and what is left of it."""

import errno
import os
import queue
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tf_operator.cli import main
from tf_operator.cli.commands import local
from tf_operator.local import process_identity, state
from tf_operator.local.process_identity import ProcessIdentity, start_time
from tf_operator.local.state import AlreadyOwned, StateError, StateFolder


@pytest.fixture
def folder(tmp_path):
    return StateFolder(tmp_path / "tf-operator" / "local")


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("/elsewhere", "/elsewhere/tf-operator/local"),
        ("", "/home/me/.local/state/tf-operator/local"),
        ("not/absolute", "/home/me/.local/state/tf-operator/local"),
    ],
)
def test_the_folder_is_where_the_xdg_specification_wants_it(monkeypatch, variable, expected):
    monkeypatch.setenv("HOME", "/home/me")
    assert state.default_folder({"XDG_STATE_HOME": variable}) == Path(expected)


def test_a_folder_is_owned_from_its_creation(folder):
    folder.create()
    folder.log.touch()

    with folder.owned():
        pass


def test_a_server_in_another_container_is_known_by_its_lock_and_left_alone(folder, monkeypatch, capsys):
    with folder.owned():
        folder.record("https://127.0.0.1:1")
        monkeypatch.setattr(process_identity, "own_space", lambda: "pid:[2]")
        assert folder.server().address == "https://127.0.0.1:1"
        assert not folder.server().process.is_alive
        where = f"used in another container, where process {os.getpid()} serves https://127.0.0.1:1; end it there"
        with pytest.raises(AlreadyOwned, match=where), folder.owned():
            pass
        sent = []
        monkeypatch.setattr(os, "kill", lambda *arguments: sent.append(arguments))
        assert main.main(["local", "down", f"--state-dir={folder.path}"]) == 1
        assert (where in capsys.readouterr().err, sent) == (True, [])
        assert main.main(["local", "up", f"--state-dir={folder.path}"]) == 0
        assert "runs already: https://127.0.0.1:1, process" in capsys.readouterr().out
    assert folder.server() is None


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (("",), "which is starting; 'tfjob local down --state-dir {}' ends it"),
        (("https://127.0.0.1:1",), ""),
        (("https://127.0.0.1:1", True), "which is ending; 'tfjob local down --state-dir {}' kills its programs"),
    ],
    ids=["starting", "serving", "ending"],
)
def test_up_says_of_a_server_only_what_is_true(folder, monkeypatch, capsys, record, sentence):
    for limit in ("STARTED_WITHIN", "ENDED_WITHIN"):
        monkeypatch.setattr(local, limit, 0.0)
    with folder.owned():
        folder.record(record[0], is_ending=len(record) > 1)
        status = main.main(["local", "up", f"--state-dir={folder.path}"])

    out, err = capsys.readouterr()
    expected = sentence.format(folder.path)
    assert (status, "runs already" in out, expected in err) == (1 if sentence else 0, not sentence, True)
    assert out.endswith("" if sentence else f"'tfjob local down --state-dir {folder.path}' ends it.\n")


def test_a_command_names_the_folder_unless_it_is_the_default():
    environment = {"XDG_STATE_HOME": "/home/me/state"}

    assert StateFolder(state.default_folder(environment)).command("up", environment) == "tfjob local up"
    assert StateFolder(Path("/my own")).command("down", environment) == "tfjob local down --state-dir '/my own'"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_server_for_which_there_is_no_room_names_its_folder(folder, monkeypatch, capsys, number):
    def write(*_):
        raise OSError(number, "No room")

    monkeypatch.setattr(StateFolder, "write", write)

    assert main.main(["local", "up", f"--state-dir={folder.path}"]) == 1
    assert capsys.readouterr().err == f"tfjob local: {folder.path} cannot be written: No room\n"


@pytest.mark.parametrize("is_told", [False, True], ids=["while it starts", "when it serves"])
def test_a_server_ends_when_the_command_that_starts_it_is_killed(monkeypatch, is_told):
    """And goes on without it, once it has said that it serves."""
    signals = queue.Queue()
    monkeypatch.setattr(os, "kill", lambda pid, number: signals.put((pid, number)))
    reading, writing = os.pipe()
    starter = local.StartingCommand(writing)
    if is_told:
        starter.tell(b"1")
    os.close(reading)
    starter.watching.join(60)

    starter.tell(b"nobody reads it")
    signals_sent = [signals.get_nowait() for _ in range(signals.qsize())]
    assert signals_sent == ([] if is_told else [(os.getpid(), signal.SIGTERM)])


def test_the_folder_and_its_files_are_for_its_user_alone(folder):
    with folder.owned():
        folder.write("secret", b"x")

    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder.path, folder.path / "secret", folder.path / "lock")]
    assert modes == [0o700, 0o600, 0o600]


def test_a_folder_that_others_can_read_is_closed_to_them(folder):
    folder.path.mkdir(parents=True, mode=0o755)
    folder.create()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    folder.write("file", b"")
    folder.create()


@pytest.mark.parametrize("flaw", ["link", "file", "foreign", "full", "planted"])
def test_a_folder_that_is_not_its_own_is_refused(folder, flaw, monkeypatch):
    folder.path.parent.mkdir()
    match flaw:
        case "link":
            (folder.path.parent / "target").mkdir()
            folder.path.symlink_to("target")
        case "file":
            folder.path.write_text("")
        case "foreign":
            folder.path.mkdir()
            monkeypatch.setattr(os, "geteuid", lambda: folder.path.stat().st_uid + 1)
        case "full":
            folder.path.mkdir()
            (folder.path / "thesis.tex").write_text("")
        case "planted":
            folder.create()
            (folder.path / "token").write_text("")
            monkeypatch.setattr(state, "_is_foreign", lambda file: file.name == "token")

    with pytest.raises(StateError, match="--state-dir"), folder.owned():
        pass


@pytest.mark.parametrize("planted", ["folder", "token"])
@pytest.mark.parametrize("verb", ["up", "down", "status", "kubeconfig"])
def test_nothing_that_somebody_else_says_in_a_folder_is_believed(folder, monkeypatch, capsys, verb, planted):
    with folder.owned():
        folder.record("https://127.0.0.1:6666")
        folder.write("token", b"x")
    theirs, own, sent = folder.path / "token" if planted == "token" else folder.path, Path.lstat, []

    def lstat(path):
        status = own(path)
        return os.stat_result((*status[:4], status.st_uid + 1, *status[5:10])) if path == theirs else status

    monkeypatch.setattr(Path, "lstat", lstat)
    monkeypatch.setattr(os, "kill", lambda *arguments: sent.append(arguments))
    assert main.main(["local", verb, f"--state-dir={folder.path}"]) == 1

    out, err = capsys.readouterr()
    assert ("another user" in err, out, sent) == (True, "/dev/null\n" if verb == "kubeconfig" else "", [])
    assert folder.server() is None


def test_a_second_server_hears_who_has_the_folder(folder):
    with folder.owned():
        folder.record("https://127.0.0.1:1234")
        second = StateFolder(folder.path)
        with pytest.raises(AlreadyOwned, match=f"process {os.getpid()}, which serves https://127.0.0.1:1234"):
            second.owned(patience=0).__enter__()
        assert second.server().address == "https://127.0.0.1:1234"

    with second.owned(patience=0):
        pass


def test_a_server_that_was_killed_does_not_run_though_its_number_was_given_again(folder):
    with folder.owned():
        folder.record("https://127.0.0.1:1234")
        text = folder.read("server.json")
        folder.write("server.json", text.replace(ProcessIdentity.current().started.encode(), b"1"))

    assert folder.server() is None


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"process":{"pid":1}}', b'{"process":{"x":1},"address":""}'])
def test_a_damaged_record_is_that_of_no_server(folder, content):
    with folder.owned():
        folder.write("server.json", content)
    assert folder.server() is None


@pytest.mark.parametrize("proc", ["/proc", "/nowhere"], ids=["Linux", "by ps"])
def test_a_process_that_has_ended_is_not_alive_while_nobody_has_waited_for_it(monkeypatch, proc):
    monkeypatch.setattr(process_identity, "_PROC", Path(proc))
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = ProcessIdentity(process.pid, ProcessIdentity.current().started)
    assert not identity.is_alive or proc != "/proc"  # the number of another process; ps knows seconds only
    assert ProcessIdentity(process.pid, start_time(process.pid)).is_alive

    os.kill(process.pid, 9)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert start_time(process.pid) == ""
    process.communicate()


def test_a_purge_leaves_nothing_and_deletes_nothing_elsewhere(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o500)
    with folder.owned():
        inner = folder.path / "volumes" / "data"
        inner.mkdir(parents=True)
        (inner / "link").symlink_to(tmp_path / "elsewhere")
        inner.chmod(0o500)
        folder.purge()

    (left,) = tmp_path.iterdir()
    assert stat.S_IMODE(left.stat().st_mode) == 0o500


def test_a_purge_that_is_broken_off_leaves_a_folder_that_is_its_own(folder, monkeypatch):
    """The file that says so goes last, whatever the order is in which the system names files."""
    real, left = os.unlink, []

    def unlink(path, **options):
        if Path(path).name == "lock":
            left.append([file.name for file in folder.path.iterdir()])
        real(path, **options)

    with folder.owned():
        for number in range(30):
            folder.write(f"file-{number}", b"")
        (folder.path / "lock").rename(folder.path / "other").rename(folder.path / "lock")
        monkeypatch.setattr(os, "unlink", unlink)
        folder.purge()

    assert (left, folder.path.exists()) == ([["lock"]], False)


@pytest.fixture
def unprivileged():
    """Root may enter every folder."""
    former = os.geteuid()
    if former == 0:
        os.seteuid(65534)
    yield
    os.seteuid(former)


def test_a_purge_deletes_a_folder_that_nobody_may_enter(unprivileged):
    with tempfile.TemporaryDirectory() as base:
        folder = StateFolder(Path(base, "local"))
        with folder.owned():
            closed = folder.path / "volumes" / "closed"
            (closed / "inner").mkdir(parents=True)
            closed.chmod(0)
            folder.purge()
        assert list(Path(base).iterdir()) == []


def test_a_server_that_starts_has_the_lock_from_its_parent(folder):
    """No other command may take the folder between the end of ``up`` and the start of its server."""
    lock = folder.lock()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(lock,))
    os.close(lock)
    try:
        with pytest.raises(AlreadyOwned, match="another process"):
            StateFolder(folder.path).lock(patience=0)
    finally:
        child.communicate(b"\n")

    os.close(StateFolder(folder.path).lock(patience=0))


def test_a_lock_that_a_purge_has_deleted_is_nobodys(folder, monkeypatch):
    first = folder.lock()
    real = state.fcntl.flock

    def purged_meanwhile(descriptor, operation):
        monkeypatch.setattr(state.fcntl, "flock", real)
        os.close(first)
        folder.purge()
        real(descriptor, operation)

    monkeypatch.setattr(state.fcntl, "flock", purged_meanwhile)
    second = StateFolder(folder.path).lock(patience=0)

    assert os.path.samestat(os.fstat(second), (folder.path / "lock").stat())
    os.close(second)
