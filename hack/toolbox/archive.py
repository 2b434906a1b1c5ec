"""Take the one program that we want out of what a release page packs it into."""

import shutil
import tarfile
import zipfile
from pathlib import Path

from toolbox.errors import ToolError


def extract(packed: Path, member: str, program: Path) -> None:
    """Write the member to ``program``, or the whole file when no member is named; raises ToolError.

    Only this one member is read, and it is written to a name of ours: what else an archive contains, and under
    which path, cannot do any harm.
    """
    try:
        if not member:
            packed.replace(program)
        elif packed.suffix == ".zip":
            with zipfile.ZipFile(packed) as zipped, zipped.open(member) as source, program.open("wb") as target:
                shutil.copyfileobj(source, target)
        else:
            extract_tar(packed, member, program)
    except (KeyError, tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise ToolError(
            f"there is no {member} in {packed.name}: {error}",
            advice="correct its download in hack/tools/versions.toml; CI=1 builds from source instead",
        ) from error


def extract_tar(packed: Path, member: str, program: Path) -> None:
    """Write one file of a tar archive, however it is compressed."""
    with tarfile.open(packed) as tar:
        names = {name.removeprefix("./"): name for name in tar.getnames()}
        source = tar.extractfile(names[member])
        if source is None:
            raise KeyError(member)
        with source, program.open("wb") as target:
            shutil.copyfileobj(source, target)
