"""Images for the end-to-end tests, as archives that any node can load: the operator's, and that of the trainings.

Each is built by the script that people use (hack/image, hack/training-image) on hack/base-image, and kept in the user's
cache under a name that says what it was made of: the contents of every file that goes into it. So the second run builds
nothing, and a changed line is never missed. Neighbours: `hack/e2e-image`, cluster_image for the cluster's own image.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lab.cluster.host import PATH
from lab.tools.get import cache_root

_REPOSITORY: Final = Path(__file__).resolve().parents[3]
_BASE: Final = ("hack/base-image", "hack/container-engine")
# What the scripts need, by the Debian package that has it.
_PROGRAMS: Final = {"buildah": "buildah", "mmdebstrap": "mmdebstrap"}
_KEPT: Final = 2

Say = Callable[[str], None]


class NotBuiltError(Exception):
    """An image could not be built; the message says why, with the end of what the script said."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an image is made: the script, its name, the files that decide about its content, and what its base needs."""

    script: str
    name: str
    inputs: tuple[str, ...]
    packages: tuple[str, ...] = ()


RECIPES: Final[Mapping[str, Recipe]] = MappingProxyType(
    {
        "operator": Recipe(
            "hack/image",
            "localhost/tf-operator:e2e",
            (
                *("Dockerfile", ".dockerignore", "hack/image", "hack/requirements/ci.txt"),
                *("hack/requirements/image.txt", "setup.cfg", "pyproject.toml", "README.md", "LICENSE", "tf_operator"),
            ),
        ),
        "training": Recipe(
            "hack/training-image",
            "localhost/tf-operator-training:2.21.0",
            (
                *("test/images/tensorflow/Dockerfile", "hack/training-image", "hack/requirements/training.txt"),
                "manifests/examples/training/*.py",
            ),
            packages=("libstdc++6",),
        ),
    }
)


def archive(image: str, *, say: Say = lambda _: None) -> Path:
    """Return where the archive of one of RECIPES is; build it if it is not there."""
    recipe = RECIPES[image]
    made_of = _digest((*_BASE, *recipe.inputs), *recipe.packages)
    path = cache_root(os.environ) / "images" / f"{image}-{made_of}.tar"
    if not path.exists():
        _provide(say)
        base = f"localhost/tf-operator-base:{_digest(_BASE, *recipe.packages)}"
        if not _has_base(base):
            say("building the base out of Debian's packages")
            _run("hack/base-image", base, *recipe.packages)
        say(f"building {recipe.name}")
        _run(recipe.script, "--engine", "buildah", "--base", base, "--name", recipe.name)
        _export(recipe.name, path)
        _forget_older(path, image)
    # Who was asked for last is kept longest.
    path.touch()
    return path


def _has_base(name: str) -> bool:
    return _buildah("inspect", "--type=image", name).returncode == 0


def _digest(inputs: Iterable[str], *words: str) -> str:
    """Name the content of files, folders and patterns, and some words; what Python leaves in folders does not count."""
    digest = hashlib.sha256(" ".join(words).encode())
    for place in inputs:
        for match in sorted(_REPOSITORY.glob(place)):
            files = sorted(it for it in match.rglob("*") if it.is_file()) if match.is_dir() else [match]
            for file in (it for it in files if "__pycache__" not in it.parts):
                content = file.read_bytes()
                digest.update(f"{file.relative_to(_REPOSITORY)} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def _provide(say: Say) -> None:
    """Install what the scripts need; raise NotBuiltError where that cannot be done."""
    missing = [package for program, package in _PROGRAMS.items() if shutil.which(program, path=PATH) is None]
    if os.geteuid() != 0:
        raise NotBuiltError("images are built as root, on Linux")
    if not missing:
        return
    if shutil.which("apt-get", path=PATH) is None:
        raise NotBuiltError(f"there is no apt-get to install {' and '.join(missing)} with")
    say(f"installing with apt-get: {' '.join(missing)}")
    for command in (["apt-get", "update"], ["apt-get", "install", "--yes", *missing]):
        _run(*command)


def _export(name: str, path: Path) -> None:
    """Write the image to its place in one step, and take it out of buildah's store, which keeps every file twice."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    try:
        process = _buildah("push", "--quiet", name, f"docker-archive:{fresh}:{name}")
        if process.returncode != 0:
            raise NotBuiltError(f"buildah push {name}: {process.stderr.strip()}")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    _buildah("rmi", name)


def _forget_older(path: Path, image: str) -> None:
    """Keep the latest few of an image; each is large."""
    archives = sorted(path.parent.glob(f"{image}-*.tar"), key=lambda it: it.stat().st_mtime, reverse=True)
    for old in archives[_KEPT:]:
        old.unlink(missing_ok=True)


def _buildah(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["buildah", "--storage-driver", "vfs", *arguments]
    return subprocess.run(command, env=os.environ | {"PATH": PATH}, capture_output=True, text=True, check=False)


def _run(*command: str) -> None:
    """Run a script of ours, or a program; raise NotBuiltError with the end of what it said."""
    environment = os.environ | {"PATH": PATH, "DEBIAN_FRONTEND": "noninteractive"}
    process = subprocess.run(
        command,
        cwd=_REPOSITORY,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if process.returncode != 0:
        tail = "\n".join(process.stdout.splitlines()[-30:])
        raise NotBuiltError(f"{' '.join(command)} failed (exit code {process.returncode}):\n{tail}")


def main(names: Sequence[str]) -> int:
    if not names or not set(names) <= RECIPES.keys():
        print(f"usage: hack/e2e-image {' | '.join(RECIPES)}", file=sys.stderr)
        return 2
    start = time.monotonic()
    try:
        for name in names:
            print(archive(name, say=lambda text: print(f"hack/e2e-image: {text}", file=sys.stderr)))
    except NotBuiltError as error:
        print(f"hack/e2e-image: {error}", file=sys.stderr)
        return 1
    print(f"hack/e2e-image: {time.monotonic() - start:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
