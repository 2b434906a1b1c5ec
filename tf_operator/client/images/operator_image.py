"""The operator's own image as the Dockerfile makes it, without an engine: a virtual environment on a base with Python.

Packages are the lock's, by hash, as wheels for the platform and the Python of the base; pip gets them. The operator is
the one that runs this. Modules are compiled if this Python is of the base's release; else each start compiles them.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import metadata, resources
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Final, Self

import tf_operator
from tf_operator.client.images import layer
from tf_operator.client.images.folder import Entry
from tf_operator.client.images.image_name import ImageName
from tf_operator.client.images.push import Top
from tf_operator.client.job import NotPossible

_HOME: Final = PurePosixPath("/opt/tf-operator")
_PYTHON_HOME: Final = "/usr/local/bin"
"""Where official images of Python have it."""
_MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
_WHEELS: Final = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
_LEAST: Final = (3, 11)
_METADATA: Final = ("METADATA", "WHEEL", "entry_points.txt", "top_level.txt", "licenses/LICENSE")
_DESCRIPTION: Final = "Runs TensorFlow training jobs (TFJob, kubeflow.org/v1) on Kubernetes."
_SCRIPT: Final = """\
#!{python}
import sys
from {module} import {name}
if __name__ == "__main__":
    sys.exit({name}())
"""

Json = dict[str, Any]


def version() -> str:
    return metadata.version("tf-operator")


class OperatorImage:
    """Makes what comes onto a base, platform by platform; a context manager, for what it keeps on the disk."""

    def __init__(self, base: ImageName) -> None:
        self._base = base
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    async def top(self, config: Json) -> Top:
        """The operator for a base with this configuration; ``NotPossible`` if it cannot run there."""
        return await asyncio.to_thread(self._make, config)

    def _make(self, config: Json) -> Top:
        python = _python_of(self._base, config)
        root = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tf-operator-image-")))
        packages = root / str(_HOME)[1:] / "lib" / f"python{python[0]}.{python[1]}" / "site-packages"
        _install(packages, python, str(config.get("architecture")))
        _add_operator(packages)
        if python[:2] == sys.version_info[:2]:
            _compile(packages, root)
        _add_environment(root / str(_HOME)[1:], python)
        top_layer = self._stack.enter_context(layer.packed(_entries(root)))
        return Top(top_layer, _process(config))


def requirements(python: tuple[int, ...]) -> str:
    """The lock, with what a release of Python needs. pip would go by the one that runs it."""
    text = resources.files(__package__).joinpath("operator.txt").read_text(encoding="utf-8")
    lines = []
    is_needed = True
    for line in text.splitlines():
        if not line.startswith((" ", "#")):
            requirement, semicolon, condition = line.partition(" ; ")
            before = condition.partition("'")[2].partition("'")[0]  # python_full_version < '3.13'
            is_needed = not semicolon or python < tuple(map(int, before.split(".")))
            line = f"{requirement} \\" if semicolon else line  # noqa: PLW2901 (what is left of it)
        if is_needed:
            lines.append(line)
    return "\n".join([*lines, ""])


def _python_of(base: ImageName, config: Json) -> tuple[int, ...]:
    """The release of the base's Python, which official images of Python say."""
    text = _variables(config).get("PYTHON_VERSION", "")
    numbers = text.split(".")
    if len(numbers) < 2 or not all(part.isdigit() for part in numbers[:2]):
        raise NotPossible(f"{base} does not say which Python it has, as official images do (PYTHON_VERSION)")
    python = tuple(int(part) for part in numbers if part.isdigit())
    if python < _LEAST:
        raise NotPossible(f"{base} has Python {text}, and the operator needs {_LEAST[0]}.{_LEAST[1]} or newer")
    return python


def _variables(config: Json) -> dict[str, str]:
    process = config.get("config")
    entries = process.get("Env") if isinstance(process, dict) else None
    return dict(entry.split("=", 1) for entry in entries or () if "=" in entry)


def _process(config: Json) -> Json:
    """As the Dockerfile's last lines."""
    variables = _variables(config) | {
        "PATH": f"{_HOME}/bin:/usr/local/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    return {
        "Env": [f"{name}={value}" for name, value in variables.items()],
        "User": "65532:65532",
        "WorkingDir": "/",
        "ExposedPorts": {"8080/tcp": {}, "8081/tcp": {}},
        "Entrypoint": ["tf-operator"],
        "Cmd": ["run"],
        "Labels": {
            "org.opencontainers.image.title": "tf-operator",
            "org.opencontainers.image.description": _DESCRIPTION,
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.version": version(),
        },
    }


def _install(packages: Path, python: tuple[int, ...], architecture: str) -> None:
    lock = packages.parent / "requirements.txt"
    packages.mkdir(parents=True)
    lock.write_text(requirements(python), encoding="utf-8")
    wheels = [part for name in _WHEELS for part in ("--platform", f"{name}_{_MACHINES[architecture]}")]
    options = ("--no-deps", "--no-compile", "--require-hashes", "--only-binary", ":all:", "--implementation", "cp")
    release = ("--python-version", f"{python[0]}.{python[1]}", *wheels)
    pip = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--target", str(packages))
    _run("the operator's packages cannot be had", *pip, *options, *release, "--requirement", str(lock))
    lock.unlink()
    shutil.rmtree(packages / "bin", ignore_errors=True)  # programs of the packages, for this machine's Python


def _add_operator(packages: Path) -> None:
    """The package as it is here, and its metadata; a wheel would have the same."""
    for module_folder in tf_operator.__path__:
        ignored = shutil.ignore_patterns("__pycache__", "*.py[cod]")
        shutil.copytree(module_folder, packages / "tf_operator", ignore=ignored)
    distribution = metadata.distribution("tf-operator")
    folder = packages / f"tf_operator-{distribution.version}.dist-info"
    for name in _METADATA:
        if text := distribution.read_text(name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")


def _compile(packages: Path, root: Path) -> None:
    """By content, because files of an image have no times; they are called as in the image."""
    options = ("--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/")
    _run("the operator cannot be compiled", "-m", "compileall", "-q", *options, str(packages), PYTHONHASHSEED="0")


def _add_environment(home: Path, python: tuple[int, ...]) -> None:
    """What makes a virtual environment of it, and the programs of the operator."""
    (home / "bin").mkdir()
    settings = f"home = {_PYTHON_HOME}\ninclude-system-site-packages = false\nversion = {'.'.join(map(str, python))}\n"
    (home / "pyvenv.cfg").write_text(settings, encoding="utf-8")
    (home / "bin" / "python3").symlink_to(f"{_PYTHON_HOME}/python3")
    (home / "bin" / "python").symlink_to("python3")
    for script in metadata.distribution("tf-operator").entry_points.select(group="console_scripts"):
        path = home / "bin" / script.name
        text = _SCRIPT.format(python=_HOME / "bin/python", module=script.module, name=script.attr)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)


def _entries(root: Path) -> Iterator[Entry]:
    for path in root.rglob("*"):
        link = str(path.readlink()) if path.is_symlink() else ""
        yield Entry("/" / PurePosixPath(path.relative_to(root)), path, link)


def _run(problem: str, *words: str, **variables: str) -> None:
    """Run this Python; ``NotPossible`` with what it says of the failure."""
    command, environment = (sys.executable, *words), os.environ | variables
    process = subprocess.run(command, capture_output=True, env=environment, check=False)  # noqa: S603 (our own words)
    if process.returncode:
        raise NotPossible(f"{problem}: {_last_line(process.stdout + process.stderr)}")


def _last_line(output: bytes) -> str:
    lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
    if any("No module named pip" in line for line in lines):
        return f"{sys.executable} has no pip; install it there, or tf-operator into an environment that has it"
    failures = [line for line in lines if line.startswith("ERROR:")]
    return (failures or lines or ["no reason was given"])[-1]
