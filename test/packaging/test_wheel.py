"""The wheel that users install: a job runs from it, in a folder that is not this repository."""

import itertools
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path

import pytest

from lab.tools.get import programs
from support import release_files

ROOT = Path(__file__).parents[2]
JOB = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: hello}
spec:
  successPolicy: AllWorkers
  tfReplicaSpecs:
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: tensorflow, image: any, command: [sh, -c, "echo from a worker"]}]}}
"""
RELEASES = ("3.11", "3.12", "3.13", "3.14")
# Neither Debian's stable release nor every pyenv has it.
MAY_BE_MISSING = {"3.14"}


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    of_this_run = {"VIRTUAL_ENV", "PYTHONPATH", "COVERAGE_PROCESS_START", "KUBECONFIG"}
    environment = {name: value for name, value in os.environ.items() if name not in of_this_run} | variables
    process = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The release's, or one of what git knows, in a copy: setuptools leaves files in a tree, and takes them later."""
    if released := release_files.find("tf_operator-*.whl"):
        return released
    folder = tmp_path_factory.mktemp("source")
    files = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", cwd=ROOT).split("\0")
    with tarfile.open(folder / "tree.tar", "w") as archive:
        for name in filter(None, files):
            if (ROOT / name).exists():
                archive.add(ROOT / name, name)
    with tarfile.open(folder / "tree.tar") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
        archive.extractall(folder / "tree")
    build = (
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        folder,
        folder / "tree",
    )
    run(sys.executable, *build, cwd=folder)
    return next(folder.glob("*.whl"))


def run_job(environment: Path, folder: Path) -> None:
    (folder / "job.yaml").write_text(JOB)
    state = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    output = run(environment / "bin" / "tfjob", "run", "job.yaml", cwd=folder, **state)
    assert {"worker-0 | from a worker", "worker-1 | from a worker"} <= set(output.splitlines())


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """One that has the wheel. What it depends on is taken from here; of this repository nothing is found."""
    environment = tmp_path_factory.mktemp("installed") / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    packages = next((environment / "lib").glob("python3*")) / "site-packages"
    install = ("-m", "pip", "--python", environment / "bin" / "python", "install", "--quiet", "--no-index", "--no-deps")
    run(sys.executable, *install, wheel, cwd=environment)
    for name in Path(sysconfig.get_path("purelib")).iterdir():
        if "tf_operator" not in name.name and name.suffix != ".pth" and not (packages / name.name).exists():
            (packages / name.name).symlink_to(name)
    return environment


def test_a_job_runs_from_the_wheel_in_another_folder(environment, tmp_path):
    run_job(environment, tmp_path)


def test_what_is_installed_in_clusters_is_in_the_wheel(environment, tmp_path):
    lines = (
        "from tf_operator.client.images import operator_image",
        "from tf_operator.client.installation import objects",
        "print('aiohttp==' in operator_image.requirements(), 'kueue' in objects.features())",
    )

    assert run(environment / "bin" / "python", "-c", "\n".join(lines), cwd=tmp_path) == "True True\n"


@pytest.mark.programs("kubectl")
@pytest.mark.real_server("kubectl is a program of Kubernetes")
def test_kubectl_completes_the_plugin_of_the_wheel(environment, tmp_path):
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"

    output = run(programs("kubectl")["kubectl"], "__complete", "tfjob", "sca", cwd=tmp_path, PATH=path)

    assert output.splitlines() == ["scale\tchange the number of replicas of a job", ":4"]


def interpreters() -> dict[str, Path]:
    """Those of this machine, by release; pyenv's, too, which need not be on PATH."""
    folders = [
        *map(Path, os.get_exec_path()),
        *Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser().glob("versions/*/bin"),
    ]
    programs_by_release = {}
    for release, folder in itertools.product(RELEASES, folders):
        program = folder / f"python{release}"
        # A shim of pyenv may lead nowhere.
        if (
            release not in programs_by_release
            and program.exists()
            and not subprocess.call((program, "-V"), stderr=subprocess.DEVNULL)
        ):
            programs_by_release[release] = program
    return programs_by_release


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_job_runs_from_the_wheel_and_what_it_depends_on_with_each_python_of_this_machine(wheel, tmp_path):
    programs_by_release = interpreters()
    assert set(programs_by_release) | MAY_BE_MISSING == set(RELEASES)
    for release, program in programs_by_release.items():
        folder = tmp_path / release
        folder.mkdir()
        run(program, "-m", "venv", folder / "environment", cwd=tmp_path)
        pip = folder / "environment" / "bin" / "pip"
        run(pip, "install", "--quiet", "--disable-pip-version-check", f"{wheel}[local,cli,tls]", cwd=folder)
        run_job(folder / "environment", folder)
