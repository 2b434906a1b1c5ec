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
from contextlib import ExitStack
from importlib import metadata, resources
from pathlib import Path, PurePosixPath
from typing import Any, Final

import tf_operator
from tf_operator.client.images import base_python, image, layer, packages
from tf_operator.client.images.base_python import BasePython, Release
from tf_operator.client.images.image_name import ImageName
from tf_operator.client.images.push import BaseImage, Top
from tf_operator.client.job import NotPossible
from tf_operator.text import one_line

_HOME: Final = PurePosixPath("/opt/tf-operator")
_PYTHON_HOME: Final = "/usr/local/bin"
"""Where official images of Python have it."""
_LEAST: Final = (3, 11)
_METADATA: Final = ("METADATA", "WHEEL", "entry_points.txt", "top_level.txt", "licenses/LICENSE")
_DESCRIPTION: Final = "Runs TensorFlow training jobs (TFJob, kubeflow.org/v1) on Kubernetes."

Json = dict[str, Any]


def version() -> str:
    return metadata.version("tf-operator")


class OperatorImage(ExitStack):
    """Makes what comes onto a base, platform by platform. What it keeps on the disk goes at the end of the ``with``."""

    def __init__(self, base: ImageName) -> None:
        super().__init__()
        self._base = base

    async def top(self, base: BaseImage) -> Top:
        """The operator for a base; ``NotPossible`` if it cannot run there."""
        return await asyncio.to_thread(self._make, base.config)

    def _make(self, config: Json) -> Top:
        python = _python_of(self._base, config)
        root = Path(self.enter_context(tempfile.TemporaryDirectory(prefix="tf-operator-image-")))
        folder = packages.packages_folder(root, _HOME, python)
        _install(root, python, str(config.get("architecture")))
        _add_operator(folder)
        if python[:2] == sys.version_info[:2]:
            _compile(folder, root)
        _add_environment(root / str(_HOME)[1:], python)
        top_layer = self.enter_context(layer.packed(packages.entries(root), checks_scripts=False))
        return Top((top_layer,), _process(config))


def requirements() -> str:
    """The lock of the operator's packages."""
    return resources.files(__package__).joinpath("operator.txt").read_text(encoding="utf-8")


def _python_of(base: ImageName, config: Json) -> Release:
    """The release of the base's Python, which official images of Python say."""
    python = base_python.release_of(image.variables(config))
    if not python:
        raise NotPossible(f"{base} does not say which Python it has, as official images do (PYTHON_VERSION)")
    if python < _LEAST:
        release = ".".join(map(str, python))
        raise NotPossible(f"{base} has Python {release}, and the operator needs {_LEAST[0]}.{_LEAST[1]} or newer")
    return python


def _process(config: Json) -> Json:
    """As the Dockerfile's last lines."""
    variables = image.variables(config) | {
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


def _install(root: Path, python: Release, architecture: str) -> None:
    with tempfile.TemporaryDirectory(prefix="tf-operator-lock-") as folder:
        lock = Path(folder, "requirements.txt")
        lock.write_text(requirements(), encoding="utf-8")
        options = ("--no-deps", "--require-hashes", "--requirement", str(lock))
        try:
            packages.install(root, _HOME, BasePython(python, {}), architecture, options)
        except NotPossible as error:
            raise NotPossible(f"the operator's packages cannot be had: {error}") from None


def _add_operator(folder: Path) -> None:
    """The package as it is here, and its metadata; a wheel would have the same."""
    for module_folder in tf_operator.__path__:
        ignored = shutil.ignore_patterns("__pycache__", "*.py[cod]")
        shutil.copytree(module_folder, folder / "tf_operator", ignore=ignored)
    distribution = metadata.distribution("tf-operator")
    information = folder / f"tf_operator-{distribution.version}.dist-info"
    for name in _METADATA:
        if text := distribution.read_text(name):
            (information / name).parent.mkdir(parents=True, exist_ok=True)
            (information / name).write_text(text, encoding="utf-8")


def _compile(folder: Path, root: Path) -> None:
    """By content, because files of an image have no times; they are called as in the image."""
    options = ("--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", "/")
    _run("the operator cannot be compiled", "-m", "compileall", "-q", *options, str(folder), PYTHONHASHSEED="0")


def _add_environment(home: Path, python: Release) -> None:
    """What makes a virtual environment of it, and the programs of the operator."""
    (home / "bin").mkdir(exist_ok=True)
    settings = f"home = {_PYTHON_HOME}\ninclude-system-site-packages = false\nversion = {'.'.join(map(str, python))}\n"
    (home / "pyvenv.cfg").write_text(settings, encoding="utf-8")
    (home / "bin" / "python3").symlink_to(f"{_PYTHON_HOME}/python3")
    (home / "bin" / "python").symlink_to("python3")
    for script in metadata.distribution("tf-operator").entry_points.select(group="console_scripts"):
        packages.add_program(home / "bin", script, python=str(_HOME / "bin/python"))


def _run(problem: str, *words: str, **variables: str) -> None:
    """Run this Python; ``NotPossible`` with what it says of the failure."""
    command, environment = (sys.executable, *words), os.environ | variables
    process = subprocess.run(command, capture_output=True, env=environment, check=False)  # noqa: S603 (our own words)
    if process.returncode:
        raise NotPossible(f"{problem}: {one_line((process.stdout + process.stderr).decode(errors='replace'))}")
