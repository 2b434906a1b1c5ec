"""The plugin of kubectl for krew: the command ``hack/krew``.

An archive of two files, the same bytes for the same tree, and the manifest that krew's index wants. The program itself
comes from the Python package index (manifests/integrations/krew/kubectl-tfjob says why).
"""

import argparse
import gzip
import hashlib
import io
import sys
import tarfile
from configparser import ConfigParser
from pathlib import Path
from typing import Final

from chart import address

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = Path("manifests/integrations/krew")
_EPOCH: Final = 315532800  # 1980, from which on every archiver knows dates


def archive(tree: Path, version: str) -> bytes:
    plugin = (tree / SOURCE / "kubectl-tfjob").read_text(encoding="utf-8").replace("VERSION", version)
    files = {"LICENSE": ((tree / "LICENSE").read_bytes(), 0o644), "kubectl-tfjob": (plugin.encode(), 0o755)}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), mode, _EPOCH
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0)


def manifest(tree: Path, version: str, *, at: str, checksum: str) -> str:
    """What krew's index has of a version; without the first line, which is about the template."""
    text = (tree / SOURCE / "tfjob.yaml").read_text(encoding="utf-8").partition("\n")[2]
    values = {"VERSION": version, "ADDRESS": at, "CHECKSUM": checksum}
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def write(tree: Path, folder: Path, *, at: str) -> list[Path]:
    """Write the archive, and the manifest where the project has an address that the archive will be at."""
    version = version_of(tree)
    content = archive(tree, version)
    files = [folder / f"kubectl-tfjob-{version}.tar.gz"]
    files[0].write_bytes(content)
    if at:
        files.append(folder / "tfjob.yaml")
        text = manifest(tree, version, at=at, checksum=hashlib.sha256(content).hexdigest())
        files[1].write_text(text, encoding="utf-8")
    return files


def version_of(tree: Path) -> str:
    """The one number of a release."""
    package = ConfigParser()
    package.read(tree / "setup.cfg", encoding="utf-8")
    return package["metadata"]["version"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="hack/krew", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--address", default=address.read(ROOT), help="the project's; default: of setup.cfg")
    options = parser.parse_args()
    for path in write(ROOT, options.folder, at=options.address):
        print(path)
    if not options.address:
        print("hack/krew: no manifest, because the project has no address: set url in setup.cfg", file=sys.stderr)


if __name__ == "__main__":
    main()
