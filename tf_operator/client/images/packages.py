"""Packages for a base's Python, installed by the pip of this one into a folder that becomes a layer.

Only wheels: nothing is compiled here that would run there. Equal wheels give equal files, whatever machine installs
them: no bytecode, and no names of folders of this machine.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import Distribution, EntryPoint, PathDistribution
from pathlib import Path, PurePosixPath
from typing import Final

from tf_operator.client.images import foreign_pip
from tf_operator.client.images.base_python import BasePython, Release
from tf_operator.client.images.folder import Entry
from tf_operator.client.job import NotPossible
from tf_operator.text import one_line

_MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
_NEWEST_GLIBC: Final = 28
"""That of Debian 10, Ubuntu 20.04 and RHEL 8; what is older runs there, too."""
_OLDEST_GLIBC: Final = 5
_NO_WHEEL: Final = re.compile(r"No matching distribution found for ([^\n]+)")
_NO_ANSWER: Final = re.compile(r"^WARNING: (?:Retrying .*? after |Could not fetch )(.*)", re.MULTILINE)
_PROGRAM: Final = re.compile(r"[./]*/bin/")
_CONFLICT: Final = re.compile(r"^.* requires .*, but you have .*$", re.MULTILINE)
PYTHON: Final = "/usr/bin/env python3"
"""That of an image, for its programs."""
_SCRIPT: Final = """\
#!{python}
import sys
from {module} import {first}
if __name__ == "__main__":
    sys.exit({name}())
"""


def install(
    root: Path, home: PurePosixPath, base: BasePython, architecture: str, options: Sequence[str]
) -> Sequence[str]:
    """Install what pip's options name as if ``root`` was ``/`` of the base, and return what does not go together.

    Raises ``NotPossible``.
    """
    with tempfile.TemporaryDirectory(prefix="tf-operator-packages-") as folder:
        installed = Path(folder)
        for name, metadata in base.packages.items():
            (installed / name).mkdir()
            (installed / name / "METADATA").write_text(f"{metadata}\n", encoding="utf-8")
            # pip removes a package that it replaces.
            (installed / name / "RECORD").write_text(f"{name}/METADATA,,\n{name}/RECORD,,\n", encoding="utf-8")
        facts = {"installed": folder, "markers": _markers(base.release, architecture)}
        words = (*_words(base.release, architecture), "--root", str(root), "--prefix", str(home), *options)
        command = (sys.executable, foreign_pip.__file__, json.dumps(facts), *words)
        process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)  # noqa: S603
    output = (process.stdout + process.stderr).decode(errors="replace")
    if process.returncode:
        raise NotPossible(_problem(output, base.release, architecture))
    packages = packages_folder(root, home, base.release)
    _gather(root / str(home)[1:], packages)
    _check(packages, architecture)
    _tidy(root / str(home)[1:], packages)
    return [one_line(line) for line in _CONFLICT.findall(output)]


def packages_folder(root: Path, home: PurePosixPath, release: Release) -> Path:
    return root / str(home)[1:] / "lib" / f"python{release[0]}.{release[1]}" / "site-packages"


def distributions(packages: Path) -> Iterator[Distribution]:
    for folder in sorted(packages.glob("*.dist-info")):
        yield PathDistribution(folder)


def add_program(folder: Path, script: EntryPoint, *, python: str) -> None:
    """The program of a package, as pip writes it for its own Python."""
    folder.mkdir(exist_ok=True)
    path = folder / Path(script.name).name
    first = script.attr.partition(".")[0]
    text = _SCRIPT.format(python=python, module=script.module, first=first, name=script.attr)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def entries(root: Path) -> Iterator[Entry]:
    for path in root.rglob("*"):
        link = str(path.readlink()) if path.is_symlink() else ""
        yield Entry("/" / PurePosixPath(path.relative_to(root)), path, link)


def _words(release: Release, architecture: str) -> Iterator[str]:
    yield from ("install", "--quiet", "--no-input", "--disable-pip-version-check", "--no-compile")
    yield from ("--no-warn-script-location", "--only-binary", ":all:", "--implementation", "cp")
    yield from ("--python-version", ".".join(map(str, release)), "--abi", f"cp{release[0]}{release[1]}")
    for glibc in range(_NEWEST_GLIBC, _OLDEST_GLIBC - 1, -1):
        yield from ("--platform", f"manylinux_2_{glibc}_{_MACHINES[architecture]}")
    yield from ("--platform", f"manylinux2014_{_MACHINES[architecture]}")


def _markers(release: Release, architecture: str) -> Mapping[str, str]:
    full = ".".join(map(str, (*release, 0)[:3]))
    return {
        "implementation_name": "cpython",
        "implementation_version": full,
        "os_name": "posix",
        "platform_machine": _MACHINES[architecture],
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": full,
        "python_version": f"{release[0]}.{release[1]}",
        "sys_platform": "linux",
    }


def _gather(prefix: Path, packages: Path) -> None:
    """Put all packages into one folder, and leave out what is for this machine's Python."""
    if (prefix / "local").is_dir():  # of Debian's pip
        _move(prefix / "local", prefix)
    for found in {*prefix.glob("lib*/python3*/*-packages")} - {packages}:
        _move(found, packages)
    shutil.rmtree(prefix / "include", ignore_errors=True)
    entry_points = [entry for distribution in distributions(packages) for entry in distribution.entry_points]
    launchers = [entry for entry in entry_points if entry.group.endswith("_scripts")]
    for program in sorted(filter(Path.is_file, (prefix / "bin").rglob("*"))):
        content = program.read_bytes()
        own = b"#!" + os.fsencode(sys.executable) + b"\n"
        # pip also writes some with the number of its own Python at the end of their names.
        imports = [f"from {it.module} import ".encode() for it in launchers if program.name.startswith(it.name)]
        if any(it in content for it in imports):
            program.unlink()
        elif content.startswith(own):
            program.write_bytes(f"#!{PYTHON}\n".encode() + content.removeprefix(own))


def _tidy(prefix: Path, packages: Path) -> None:
    """Leave no trace of what was left out, nor of where packages came from."""
    for distribution in packages.glob("*.dist-info"):
        (distribution / "direct_url.json").unlink(missing_ok=True)
        record = distribution / "RECORD"
        with record.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.reader(file) if row and (packages / row[0]).exists()]
        rows = [[row[0], "", ""] if _PROGRAM.match(row[0]) else row for row in rows]  # pip named this machine's Python
        with record.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(sorted(rows))
    for path in sorted(prefix.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def _move(folder: Path, target: Path) -> None:
    if not target.exists():  # twice the packages may be more than the disk has room for
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(target)
        return
    shutil.copytree(folder, target, dirs_exist_ok=True)
    shutil.rmtree(folder)


def _check(packages: Path, architecture: str) -> None:
    """Refuse what works on this machine only."""
    for distribution in distributions(packages):
        if json.loads(distribution.read_text("direct_url.json") or "{}").get("dir_info", {}).get("editable"):
            name = distribution.metadata["Name"]
            raise NotPossible(f"{name} is editable, and so works on this machine only: name its folder without -e")
        tags = re.findall(r"^Tag: (\S+)", distribution.read_text("WHEEL") or "", re.MULTILINE)
        if not any(tag.endswith("-any") or "-manylinux" in tag for tag in tags):
            name = distribution.metadata["Name"]
            raise NotPossible(f"{name} has no wheel, and its source cannot be built here for linux/{architecture}")


def _problem(output: str, release: Release, architecture: str) -> str:
    if "No module named 'pip'" in output:
        return f"{sys.executable} has no pip; install it there, or tf-operator into an environment that has it"
    if missing := _NO_WHEEL.search(output):
        python = f"Python {release[0]}.{release[1]} on linux/{architecture}"
        problem = f"there is no wheel of {missing[1].strip()} for {python}, and packages are not built from source"
        silent = _NO_ANSWER.search(output)
        return one_line(f"{problem}; but an index did not answer: {silent[1]}" if silent else problem)
    _, error, message = output.partition("ERROR: ")
    return one_line(message if error else output or "pip failed and gave no reason")
