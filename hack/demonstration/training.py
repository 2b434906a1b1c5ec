"""``hack/demo``: a real training on this machine, without a cluster. Runs on any Python 3.11, without a package.

It makes a virtual environment from hack/requirements/demo.txt (the operator and TensorFlow), and types the command
that a reader would type. Exit codes: that of ``tfjob run``; 1 if the environment cannot be made; 128 and the number of
the signal that interrupted it.
"""

import argparse
import contextlib
import functools
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from lab.control_plane.process import die_with
from lab.tools.progress import Progress, Step, duration

ROOT: Final = Path(__file__).parents[2]
LOCK: Final = ROOT / "hack/requirements/demo.txt"
TOOLS_LOCK: Final = ROOT / "hack/requirements/ci.txt"
VENV: Final = Path(".venv-demo")
PROGRAMS: Final = Path("manifests/examples/training")
JOB: Final = PROGRAMS / "lost-worker.yaml"
ARGUMENTS: Final = (str(JOB), "--mount", f"/training={PROGRAMS}")
"""Of ``tfjob run``."""
DESCRIPTION: Final = """\
Trains a small network with TensorFlow on this machine: a chief, two workers and a parameter server; one worker is lost
on the way. There is no cluster, no container and no image: the operator, an API server and a node that runs pods as
processes live in the command."""
OVERTURE: Final = """\
A TFJob without a cluster: a chief, two workers and a parameter server learn to read digits, as processes of this
machine; one worker is killed on the way. The first time, TensorFlow is downloaded before:
400 MB, 2 GB on disk, minutes.
"""
NEXT: Final = f"""
What to type next:

  source {VENV}/bin/activate
  tfjob plan -f {JOB}                 # its pods, and how it ends
  tfjob run {JOB} --context NAME      # the same job, in a cluster
  tfjob local up                                                             # a server that stays, for kubectl, too
"""
_AT_HOME: Final = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
"""What leads programs to folders that are usually at home."""
_OF_DOWNLOADS: Final = {
    "XDG_CACHE_HOME": ".cache",
    "XDG_CONFIG_HOME": ".config",
    "PIP_CONFIG_FILE": ".pip/pip.conf",
    "NETRC": ".netrc",
}
_END_SECONDS: Final = 20.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal asked us to stop. Like KeyboardInterrupt, only the outermost caller catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


def main(arguments: Sequence[str]) -> int:
    argparse.ArgumentParser(prog="hack/demo", description=DESCRIPTION).parse_args(arguments)
    began = time.monotonic()
    # What is compiled has to stay: four processes import TensorFlow.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.chdir(ROOT)
    progress = Progress(sys.stdout, prefix="demo")
    try:
        with _interruptible():
            print(OVERTURE, flush=True)
            prepare(progress)
            code = _run(progress)
    except Interrupted as interrupted:
        return interrupted.exit_code
    except (OSError, subprocess.CalledProcessError) as error:
        progress.say(f"failed: {error}")
        return 1
    progress.say(f"it took {duration(time.monotonic() - began)}; nothing runs any more")
    print(NEXT, flush=True)
    return code


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Have the first signal raise Interrupted, so that all is ended in order; meanwhile further ones are not heard."""
    old_handlers = {number: signal.signal(number, _interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


def _interrupt(number: int, _frame: object) -> NoReturn:
    for other in _SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    raise Interrupted(number)


def prepare(progress: Progress) -> Path:
    """The virtual environment, made unless there is one that the lock describes."""
    if _made_from() != _digests():
        with progress.step("installing the operator and TensorFlow") as step:
            _install(step)
    return ROOT / VENV


def _run(progress: Progress) -> int:
    command = ["tfjob", "run", *ARGUMENTS, "-v"]
    progress.say(f"{shlex.join(command)}\n")
    with _running([str(VENV / "bin" / command[0]), *command[1:]], env=at_home(os.environ)) as process:
        return process.wait()


def at_home(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a user who has nothing yet: what programs keep at home goes with the virtual environment."""
    home = (VENV / "home").absolute()
    home.mkdir(exist_ok=True)
    return {name: value for name, value in variables.items() if name not in _AT_HOME} | {"HOME": str(home)}


def _install(step: Step) -> None:
    """Make the virtual environment; what is half made is removed.

    uv installs TensorFlow in a fifth of pip's time. Where it cannot, because a mirror or a certificate is set for pip
    alone, pip does it.
    """
    python = str(VENV / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar", "off"]
    uv = [str(VENV / "bin" / "uv"), "pip", "install", "--python", python, "--no-deps", "--compile-bytecode"]
    packages, _ = digests = _digests()
    if _made_from()[:1] != [packages]:
        try:
            venv.create(VENV, clear=True, with_pip=True)
            (VENV / "tmp").mkdir()
            try:
                _install_from(_lock_of_uv(), pip, step)
                _install_from(LOCK, uv, step)
            except subprocess.CalledProcessError:
                print("demo: uv could not; pip, which has settings of its own, takes longer", flush=True)
                _install_from(LOCK, pip, step)
        except BaseException:
            shutil.rmtree(VENV, ignore_errors=True)
            raise
        _marker().write_text(packages)
    _told([*pip, "--no-deps", "--no-build-isolation", "--editable", "."], step)
    _marker().write_text("\n".join(digests))


def _lock_of_uv() -> Path:
    """Its lines of the lock of all tools, in a file of their own."""
    entry = re.search(r"^uv==(?:.*\\\n)*.*\n", TOOLS_LOCK.read_text(), re.MULTILINE)
    if entry is None:
        raise OSError(f"{TOOLS_LOCK} has no uv")
    lock = VENV / "uv.txt"
    lock.write_text(entry[0])
    return lock


def _install_from(lock: Path, by: list[str], step: Step) -> None:
    _told([*by, "--require-hashes", "--requirement", str(lock)], step)


def _told(command: list[str], step: Step) -> None:
    """Run pip or uv, and show what it is at."""
    lines = []
    # What is left of a pip that is killed is in the folder that the next attempt deletes.
    environment = at_home(os.environ) | _downloads() | {"TMPDIR": str((VENV / "tmp").absolute())}
    with _running(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout or ():
            lines.append(line)
            if line.startswith(("Installing collected", "Prepared")):
                step.note("unpacking")
            elif line.lstrip().startswith(("Downloading", "Using cached")):
                step.note(" ".join(line.split())[:60])
        if code := process.wait():
            sys.stdout.writelines(["\n", *lines[-15:]])
            raise subprocess.CalledProcessError(code, command[:4])


def _downloads() -> dict[str, str]:
    """Settings and kept downloads of pip and uv, which are those of the user."""
    places = {name: os.environ.get(name) or str(Path.home() / place) for name, place in _OF_DOWNLOADS.items()}
    return {name: place for name, place in places.items() if name == "XDG_CACHE_HOME" or os.path.lexists(place)}


@contextlib.contextmanager
def _running(command: list[str], **options: object) -> Iterator["subprocess.Popen[str]"]:
    """A program that does not outlive us, not even if we are killed.

    Asked by Ctrl-C, which a terminal may have sent to it already, it returns when nothing of it is left.
    """
    process: subprocess.Popen[str] = subprocess.Popen(
        command,
        preexec_fn=functools.partial(die_with, os.getpid()),  # noqa: PLW1509 (no other thread forks)
        **options,  # type: ignore[call-overload]
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


def _marker() -> Path:
    return VENV / ".whole"


def _made_from() -> list[str]:
    """What the environment was made from; nothing while it is being made."""
    return _marker().read_text().splitlines() if _marker().is_file() else []


def _digests() -> list[str]:
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in (LOCK, Path("setup.cfg"))]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
