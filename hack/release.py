"""What a release consists of, the same bytes for the same commit on every machine.

``check`` says whether a release can be made; ``build`` writes its files; ``notes`` prints what the changelog says; and
``dry-run`` builds it twice, in two folders, and compares. Uploading is left to .github/workflows/release.yaml.
"""

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from configparser import ConfigParser
from pathlib import Path
from typing import Final

from lab.tools.get import programs

ROOT: Final = Path(__file__).resolve().parents[1]
_HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - \d{4}-\d{2}-\d{2})?$", re.MULTILINE)


class ReleaseError(Exception):
    """Why there can be no release."""


def version_of(tree: Path) -> str:
    """The one number of a release: setup.cfg has it."""
    package = ConfigParser()
    package.read(tree / "setup.cfg", encoding="utf-8")
    return package["metadata"]["version"]


def notes(tree: Path, version: str) -> str:
    """What the changelog says of a version; ``Unreleased`` is a version, too."""
    text = (tree / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = list(_HEADING.finditer(text))
    for found, following in zip(headings, [*headings[1:], None], strict=True):
        if found["version"] == version:
            body = text[found.end() : following.start() if following else len(text)]
            return body.split("\n[", maxsplit=1)[0].strip() + "\n"
    raise ReleaseError(f"CHANGELOG.md has no section [{version}]")


def check(tree: Path, tag: str = "") -> None:
    """All places have one version number; that of the tag, which the changelog describes."""
    version = version_of(tree)
    chart = (tree / "charts" / "tf-operator" / "Chart.yaml").read_text(encoding="utf-8")
    for field, pattern in (("version", r"^version: (.+)$"), ("appVersion", r'^appVersion: "(.+)"$')):
        found = re.search(pattern, chart, re.MULTILINE)
        if found is None or found[1] != version:
            raise ReleaseError(f"charts/tf-operator/Chart.yaml: {field} is not {version}, the version in setup.cfg")
    if not tag:
        return
    if tag != f"v{version}":
        raise ReleaseError(f"the tag {tag} is not v{version}, the version in setup.cfg")
    notes(tree, version)


def build(tree: Path, folder: Path) -> list[Path]:
    """Write wheel, source distribution, chart, CRD and the list of contents, and their sums; nothing else is there."""
    check(tree)
    if folder.exists():
        raise ReleaseError(f"{folder} exists")
    folder.mkdir(parents=True)
    epoch = int(_run("git", "log", "-1", "--format=%ct", cwd=tree))
    with tempfile.TemporaryDirectory() as scratch:
        # setuptools leaves folders in the tree that it builds from, and takes files from them the next time.
        source = Path(scratch) / "tree"
        _run("git", "clone", "--quiet", "--no-hardlinks", str(tree), str(source), cwd=tree)
        _build_python(source, folder, epoch)
        _run(programs("helm")["helm"], "package", "charts/tf-operator", "--destination", str(folder), cwd=source)
    for archive in folder.glob("*.*gz"):
        repack(archive, epoch)
    version = version_of(tree)
    shutil.copyfile(tree / "manifests" / "crd" / "tfjobs.yaml", folder / f"tf-operator-{version}-crd.yaml")
    (folder / f"tf-operator-{version}.cdx.json").write_text(
        _run(str(tree / "hack" / "sbom"), cwd=tree), encoding="utf-8"
    )
    files = sorted(folder.iterdir())
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")
    return [*files, folder / "SHA256SUMS"]


def dry_run(tree: Path, folder: Path) -> None:
    """Build twice, and raise what differs; the first build stays in the folder."""
    with tempfile.TemporaryDirectory() as scratch:
        again = Path(scratch) / "a folder of another name" / "release"
        first = {file.name: file.read_bytes() for file in build(tree, folder)}
        second = {file.name: file.read_bytes() for file in build(tree, again)}
    if first.keys() != second.keys():
        raise ReleaseError(f"two builds have different files: {sorted(first.keys() ^ second.keys())}")
    different = [name for name in first if first[name] != second[name]]
    if different:
        raise ReleaseError(f"two builds differ in {', '.join(different)}")


def _build_python(source: Path, folder: Path, epoch: int) -> None:
    """The source distribution, and from that the wheel: so it has everything that the wheel needs."""
    backend = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
    variables = os.environ | {"SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
    _run(sys.executable, "-c", backend, "build_sdist", str(folder), cwd=source, variables=variables)
    archive = next(folder.glob("*.tar.gz"))
    with tarfile.open(archive) as opened:
        opened.extractall(source.parent / "sdist", filter="data")
    unpacked = next((source.parent / "sdist").iterdir())
    _run(sys.executable, "-c", backend, "build_wheel", str(folder), cwd=unpacked, variables=variables)


def repack(archive: Path, epoch: int) -> None:
    """The same files in their order by name, with no trace of when, where and by whom they were packed."""
    with tarfile.open(archive) as opened:
        found = {entry.name: (entry, opened.extractfile(entry)) for entry in opened.getmembers()}
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as rewritten:
            for name in sorted(found):
                entry, content = found[name]
                entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = epoch, 0, 0, "", ""
                entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
                entry.pax_headers = {}
                rewritten.addfile(entry, content)
    with archive.open("wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=epoch) as zipped:
        zipped.write(packed.getvalue())


def _run(*command: str, cwd: Path, variables: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(command[:4])}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit status."""
    parser = argparse.ArgumentParser(prog="hack/release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    checking = commands.add_parser("check", help="whether all places have one version number")
    checking.add_argument("--tag", default="", help="that of the release, such as v0.1.0")
    for name, what in (("build", "write the files"), ("dry-run", "write the files, twice, and compare")):
        commands.add_parser(name, help=what).add_argument("folder", type=Path, help="which must not exist")
    commands.add_parser("notes", help="what the changelog says").add_argument(
        "version", nargs="?", default="Unreleased"
    )
    asked = parser.parse_args(arguments)
    try:
        if asked.command == "check":
            check(ROOT, asked.tag)
        elif asked.command == "notes":
            print(notes(ROOT, asked.version.removeprefix("v")), end="")
        else:
            (build if asked.command == "build" else dry_run)(ROOT, asked.folder)
            print((asked.folder / "SHA256SUMS").read_text(encoding="utf-8"), end="")
    except ReleaseError as error:
        print(f"hack/release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
