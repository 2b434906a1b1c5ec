"""Small wheels, made by the tests that install them."""

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

WITHOUT_INDEX = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null"}
"""Variables for pip: nothing is had from outside."""


def write_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    tag: str = "py3-none-any",
    requires: Iterable[str] = (),
    files: Mapping[str, str] | None = None,
    programs: Iterable[str] = (),
) -> Path:
    """A package with one module that knows the tag of its wheel, and with these files and programs."""
    information = f"{name}-{version}.dist-info"
    fields = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {it}" for it in requires)]
    entry_points = ["[console_scripts]", *(f"{it} = {name}:main" for it in programs)]
    contents = {
        f"{name}.py": f"tag = {tag!r}\n\n\ndef main():\n    print({name!r}, {version!r})\n",
        **(files or {}),
        f"{information}/METADATA": "\n".join(["Metadata-Version: 2.1", *fields, ""]),
        f"{information}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
        f"{information}/entry_points.txt": "\n".join([*entry_points, ""]),
    }
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in contents.items():
            archive.writestr(file, text)
        archive.writestr(f"{information}/RECORD", "".join(f"{it},,\n" for it in [*contents, f"{information}/RECORD"]))
    return path
