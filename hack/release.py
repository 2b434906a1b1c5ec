"""What a release consists of, the same bytes for the same commit on every machine.

``check`` says whether a release can be made; ``build`` writes its files; ``notes`` prints what the changelog says; and
``dry-run`` builds it twice, in two folders, and compares. Uploading is left to .github/workflows/release.yaml. What is
not committed is in no build.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import krew
import oci_archive
import sbom
from chart import address
from lab.tools.get import programs

ROOT: Final = Path(__file__).resolve().parents[1]
_HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - \d{4}-\d{2}-\d{2})?$", re.MULTILINE)


class ReleaseError(Exception):
    """Why there can be no release."""


@dataclass(frozen=True, slots=True)
class ImageBuild:
    """For which platforms the image is built, on which base (the Dockerfile's if empty), by which engine (any)."""

    platforms: str
    base: str = ""
    engine: str = ""


def notes(tree: Path, version: str) -> str:
    """What the changelog says of a version; ``Unreleased`` is a version, too."""
    text = (tree / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = list(_HEADING.finditer(text))
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        if heading["version"] == version:
            body = text[heading.end() : following.start() if following else len(text)]
            return body.split("\n[", maxsplit=1)[0].strip() + "\n"
    raise ReleaseError(f"CHANGELOG.md has no section [{version}]")


def check(tree: Path, tag: str = "") -> None:
    """All places have one version number; that of the tag, which the changelog describes."""
    version = krew.version_of(tree)
    chart = (tree / "charts" / "tf-operator" / "Chart.yaml").read_text(encoding="utf-8")
    for field, pattern in (("version", r"^version: (.+)$"), ("appVersion", r'^appVersion: "(.+)"$')):
        match = re.search(pattern, chart, re.MULTILINE)
        if match is None or match[1] != version:
            raise ReleaseError(f"charts/tf-operator/Chart.yaml: {field} is not {version}, the version in setup.cfg")
    if not tag:
        return
    if tag != f"v{version}":
        raise ReleaseError(f"the tag {tag} is not v{version}, the version in setup.cfg")
    notes(tree, version)


def build(tree: Path, folder: Path, image: ImageBuild | None = None, *, revision: str = "HEAD") -> str:
    """Write all files of a release, with its image if asked for; return their sums. Nothing else is in the folder."""
    check(tree)
    if folder.exists():
        raise ReleaseError(f"{folder} exists")
    folder = folder.resolve()
    folder.mkdir(parents=True)
    epoch = int(_run("git", "log", "-1", "--format=%ct", revision, cwd=tree))
    version = krew.version_of(tree)
    with tempfile.TemporaryDirectory() as scratch:
        # setuptools leaves folders in the tree that it builds from, and takes files from them the next time.
        source = Path(scratch) / "tree"
        _run("git", "clone", "--quiet", "--no-hardlinks", str(tree), str(source), cwd=tree)
        _run("git", "checkout", "--quiet", "--detach", revision, cwd=source)
        _build_python(source, folder, epoch)
        _run(programs("helm")["helm"], "package", "charts/tf-operator", "--destination", str(folder), cwd=source)
        for archive in folder.glob("*.*gz"):
            repack(archive, epoch)
        shutil.copyfile(source / "manifests" / "crd" / "tfjobs.yaml", folder / f"tf-operator-{version}-crd.yaml")
        krew.write(source, folder, at=address.read(source))
        if image is not None:
            _build_image(source, folder / f"tf-operator-{version}-image.tar", epoch, image)
    sums = "".join(f"{_sum(file)}  {file.name}\n" for file in sorted(folder.iterdir()))
    (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")
    return sums


def dry_run(tree: Path, folder: Path, image: ImageBuild | None = None) -> None:
    """Build twice, and raise what differs; the first build stays in the folder."""
    # Somebody may commit while the first one is made.
    revision = _run("git", "rev-parse", "HEAD", cwd=tree).strip()
    with tempfile.TemporaryDirectory() as scratch:
        again = Path(scratch) / "a folder of another name" / "release"
        first = set(build(tree, folder, image, revision=revision).splitlines())
        second = set(build(tree, again, image, revision=revision).splitlines())
    if first != second:
        raise ReleaseError(f"two builds differ in {', '.join(sorted({line.split()[1] for line in first ^ second}))}")


def _build_image(source: Path, archive: Path, epoch: int, image: ImageBuild) -> None:
    """The image as OCI archive, and for each platform the list of what is in it."""
    version = krew.version_of(source)
    options = {"--platform": image.platforms, "--base": image.base, "--engine": image.engine}
    arguments = [word for option, value in options.items() if value for word in (option, value)]
    name = f"localhost/tf-operator:{version}"
    # Whoever builds another release at the same time has a list of images of another name.
    own = f"{name}-{os.getpid()}"
    print("hack/release: building the image, which takes minutes", file=sys.stderr)
    _run(str(source / "hack" / "image"), "--name", own, "--archive", str(archive), *arguments, cwd=source)
    repack(archive, epoch, image_name=name)
    for built in oci_archive.images(archive):
        file = archive.with_name(f"tf-operator-{version}-{built.platform.replace('/', '-')}.cdx.json")
        file.write_text(sbom.write(archive, built.platform), encoding="utf-8")


def _sum(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _build_python(source: Path, folder: Path, epoch: int) -> None:
    """The source distribution, and from that the wheel: so it has everything that the wheel needs."""
    backend = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
    variables = os.environ | {"SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"}
    _run(sys.executable, "-c", backend, "build_sdist", str(folder), cwd=source, variables=variables)
    archive = next(folder.glob("*.tar.gz"))
    (source.parent / "sdist").mkdir()
    _run("tar", "-xzf", str(archive), cwd=source.parent / "sdist")
    source_tree = next((source.parent / "sdist").iterdir())
    _run(sys.executable, "-c", backend, "build_wheel", str(folder), cwd=source_tree, variables=variables)


def repack(archive: Path, epoch: int, *, image_name: str = "") -> None:
    """The same files in their order by name, with no trace of when, where and by whom they were packed.

    Those who load an archive of an image find it under *image_name*.
    """
    target = archive.with_name(f"{archive.name}.repacked")
    with tarfile.open(archive) as source, target.open("wb") as file:
        zip_stream = (
            gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=epoch) if archive.name.endswith("gz") else file
        )
        with zip_stream, tarfile.open(fileobj=zip_stream, mode="w", format=tarfile.PAX_FORMAT) as rewritten:
            for entry in sorted(source.getmembers(), key=lambda entry: entry.name):
                content = source.extractfile(entry)
                if image_name and entry.name == "index.json" and content is not None:
                    new_content = _with_name(content.read(), image_name)
                    entry.size, content = len(new_content), io.BytesIO(new_content)
                entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = epoch, 0, 0, "", ""
                entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
                entry.pax_headers = {}
                rewritten.addfile(entry, content)
    target.replace(archive)


def _with_name(index: bytes, name: str) -> bytes:
    """The index of an archive that has one image, or one list of images, with its name; no digest changes by that."""
    body = json.loads(index)
    (entry,) = body["manifests"]
    entry["annotations"] = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    return json.dumps(body, sort_keys=True).encode()


def _run(*command: str, cwd: Path, variables: dict[str, str] | None = None) -> str:
    process = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    if process.returncode:
        raise ReleaseError(f"{' '.join(command[:4])}: {(process.stderr or process.stdout).strip()[-4000:]}")
    return process.stdout


def _machine() -> str:
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"linux/{architecture}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="hack/release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    checking = commands.add_parser("check", help="whether all places have one version number")
    checking.add_argument("--tag", default="", help="that of the release, such as v0.1.0")
    for name, text in (("build", "write the files"), ("dry-run", "write the files, twice, and compare")):
        building = commands.add_parser(name, help=text)
        building.add_argument("folder", type=Path, help="which must not exist")
        building.add_argument("--platforms", default=_machine(), help="of the image; without: %(default)s")
        building.add_argument("--base", default="", help="of the image; without: that of the Dockerfile")
        building.add_argument("--engine", default="", help="docker, podman or buildah; without: the one that works")
    commands.add_parser("notes", help="what the changelog says").add_argument(
        "version", nargs="?", default="Unreleased"
    )
    options = parser.parse_args(arguments)
    try:
        if options.command == "check":
            check(ROOT, options.tag)
        elif options.command == "notes":
            print(notes(ROOT, options.version.removeprefix("v")), end="")
        else:
            image = ImageBuild(options.platforms, options.base, options.engine)
            (build if options.command == "build" else dry_run)(ROOT, options.folder, image)
            print((options.folder / "SHA256SUMS").read_text(encoding="utf-8"), end="")
    except ReleaseError as error:
        print(f"hack/release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
