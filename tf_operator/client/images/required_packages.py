"""The packages that a program requires, as a layer between those of the base and the program's files.

It is what ``pip install --requirement`` would add on the base: packages of the base stay if they satisfy what is
required. A layer of its own is sent again only when it changes.
"""

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Final

from tf_operator.client import display
from tf_operator.client.images import base_python, image, layer, packages
from tf_operator.client.images.base_python import BasePython, Release
from tf_operator.client.images.push import BaseImage, Top
from tf_operator.client.job import NotPossible

_HOME: Final = PurePosixPath("/opt/requirements")
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Of images that name none."""


class RequiredPackages(ExitStack):
    """Makes the layer, platform by platform. What it keeps on the disk goes at the end of the ``with``."""

    def __init__(self, requirements: Path | None, release: Release | None, *, report: Callable[[str], object]) -> None:
        """``release``: of the base's Python, if the user says it."""
        super().__init__()
        self._requirements = requirements
        self._release = release
        self._report = report

    async def top(self, base: BaseImage) -> Top:
        """The layer for a base; no layer if the base has all of it. Raises ``NotPossible``."""
        if not self._requirements:
            return Top(())
        size = sum(it.size for it in image.layers(base.name, base.manifest))
        self._report(f"reading the packages of {base.name} for {_platform(base)}, {display.size(size)}")
        python = await base_python.read(base, self._release)
        return await asyncio.to_thread(self._make, base, python)

    def _make(self, base: BaseImage, python: BasePython) -> Top:
        root = Path(self.enter_context(tempfile.TemporaryDirectory(prefix="tf-operator-image-")))
        home = _home(base)
        options = ("--requirement", str(self._requirements))
        try:
            conflicts = packages.install(root, home, python, str(base.config["architecture"]), options)
        except NotPossible as error:
            raise NotPossible(f"--requirements {self._requirements}: {error}") from None
        folder = packages.packages_folder(root, home, python.release)
        installed = list(packages.distributions(folder))
        for script in (it for package in installed for it in package.entry_points.select(group="console_scripts")):
            packages.add_program(root / str(home)[1:] / "bin", script, python=packages.PYTHON)
        where = f"Python {python.release[0]}.{python.release[1]} on {_platform(base)}"
        for conflict in conflicts:
            self._report(f"for {where}: {conflict}")
        if not installed:
            self._report(f"the base has all packages of {self._requirements} for {where}")
            return Top(())
        top = self.enter_context(layer.packed(packages.entries(root), checks_scripts=False))
        names = f"{len(installed)} package{'s'[: len(installed) != 1]}"
        self._report(f"{names} of {self._requirements} for {where}, {display.size(top.size)}")
        return Top((top,), {"Env": _environment(base, home, f"/{folder.relative_to(root)}")})


def _platform(base: BaseImage) -> str:
    return f"linux/{base.config['architecture']}"


def _home(base: BaseImage) -> PurePosixPath:
    """A folder of its own, also on a base that was made so: files of two versions of a package must not be mixed."""
    taken = image.variables(base.config).get("PYTHONPATH", "").split(":")
    homes = (_HOME if number == 1 else _HOME.with_name(f"{_HOME.name}-{number}") for number in count(1))
    return next(it for it in homes if not any(PurePosixPath(folder).is_relative_to(it) for folder in taken))


def _environment(base: BaseImage, home: PurePosixPath, folder: str) -> list[str]:
    """That of the base, in which the packages and their programs are found after those that it names itself."""
    variables = image.variables(base.config)
    variables["PATH"] = _with(variables.get("PATH") or _PATH, f"{home}/bin")
    variables["PYTHONPATH"] = _with(variables.get("PYTHONPATH", ""), folder)
    return [f"{name}={value}" for name, value in variables.items()]


def _with(searched: str, folder: str) -> str:
    """A search path with a folder more: the last, but before those that earlier pushes have added."""
    folders = [it for it in searched.split(":") if it]
    is_earlier = [it.startswith(str(_HOME)) for it in folders]
    place = is_earlier.index(True) if any(is_earlier) else len(folders)
    return ":".join([*folders[:place], folder, *folders[place:]])
