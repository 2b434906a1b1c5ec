"""What is in an image, base included, as CycloneDX 1.6: Debian's packages, Python's, and Python itself.

The image says it, not a lock: its package databases are read out of an OCI archive (``hack/image --archive``). The same
image gives the same text, byte for byte. Licences are those that the packages declare; a name that SPDX does not have
stays as it is.
"""

import argparse
import json
import re
import sys
import uuid
from collections.abc import Iterable, Iterator
from email.message import Message
from email.parser import BytesParser, HeaderParser
from pathlib import Path
from typing import Final
from urllib.parse import quote

import oci_archive
from oci_archive import Image, Json, UnreadableArchiveError

Files = dict[str, bytes]

_DPKG = re.compile(r"var/lib/dpkg/(status|status\.d/[^/]+)")
_COPYRIGHT = "usr/share/doc/{package}/copyright"
# What Debian's packages bring for Python is in dpkg's list already.
_PYTHON = re.compile(r"(?!usr/lib/python3/dist-packages/).*/[^/]+\.(dist-info/METADATA|egg-info/PKG-INFO)")
_RELEASE = "usr/lib/os-release"
_WANTED = re.compile(rf"{_DPKG.pattern}|{_PYTHON.pattern}|usr/share/doc/[^/]+/copyright|{_RELEASE}|etc/os-release")
# How Debian and Python's packages call licences of SPDX's list.
_SPDX: Final = {
    "apache-2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "artistic": "Artistic-1.0-Perl",
    "artistic-2": "Artistic-2.0",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "expat": "MIT",
    "mit license": "MIT",
    "psf-2": "PSF-2.0",
    "python software foundation license": "PSF-2.0",
    "zlib": "Zlib",
}
_GNU = re.compile(r"(?P<family>L?GPL|AGPL|GFDL)(?P<bare>-NIV)?-(?P<version>\d(?:\.\d)?)(?P<later>\+)?", re.IGNORECASE)
_AS_THEY_ARE = frozenset(
    {
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "curl", "ISC", "MIT", "MPL-2.0"),
        *("OpenSSL", "PSF-2.0", "Python-2.0", "Unlicense", "X11"),
    }
)
_COMMON = re.compile(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9+])")


def document(archive: Path, image: Image, *, name: str = "tf-operator") -> Json:
    files = oci_archive.files(archive, image, lambda path: _WANTED.fullmatch(path) is not None)
    config = image.config["config"]
    version = (config.get("Labels") or {}).get("org.opencontainers.image.version", "unknown")
    release = _release(files)
    components = [_system(release), *_debian(files, release), *_python(files), *_interpreter(config.get("Env") or [])]
    reference = f"pkg:oci/{name}@{quote(image.digest)}?{_qualifiers(arch=image.config['architecture'], tag=version)}"
    component = {"type": "container", "bom-ref": reference, "name": name, "version": version, "purl": reference}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, reference)}",
        "version": 1,
        "metadata": {"timestamp": image.config["created"], "component": component},
        "components": sorted(components, key=lambda component: component["bom-ref"]),
    }


def _release(files: Files) -> dict[str, str]:
    text = files.get(_RELEASE, files.get("etc/os-release", b"")).decode()
    return {key: value.strip('"') for key, _, value in (line.partition("=") for line in text.splitlines())}


def _system(release: dict[str, str]) -> Json:
    name, version = release.get("ID", "unknown"), release.get("VERSION_ID", "")
    return {"type": "operating-system", "bom-ref": f"os:{name}@{version}", "name": name, "version": version}


def _debian(files: Files, release: dict[str, str]) -> Iterator[Json]:
    packages = [package for path in sorted(filter(_DPKG.fullmatch, files)) for package in _installed(files[path])]
    licences: dict[str, list[str]] = {}
    for package in packages:
        text = files.get(_COPYRIGHT.format(package=package["Package"]), b"").decode(errors="replace")
        licences.setdefault(_source(package), []).extend(_debian_licences(text))
    for package in packages:
        qualifiers = _qualifiers(
            arch=package["Architecture"],
            distro=f"{release.get('ID', 'debian')}-{release.get('VERSION_ID', '')}",
            upstream=_source(package),
        )
        name, version = package["Package"], package["Version"]
        purl = f"pkg:deb/{release.get('ID', 'debian')}/{quote(name)}@{quote(version, safe=':')}?{qualifiers}"
        yield _component(name, version, purl, licences[_source(package)])


def _installed(database: bytes) -> Iterator[Message]:
    for stanza in database.decode().strip().split("\n\n"):
        package = HeaderParser().parsestr(stanza)
        # Images without a shell have one file for each package, and no states.
        if "Package" in package and package.get("Status", "installed").split()[-1] == "installed":
            yield package


def _source(package: Message) -> str:
    """What a package was made of. Its packages share their licences: most have a link to the copyright file of one."""
    name, _, version = package.get("Source", package["Package"]).partition(" ")
    return f"{name}@{version.strip('()') or package['Version']}"


def _debian_licences(text: str) -> list[str]:
    """Those that a copyright file names: in fields of its machine-readable form, or as Debian's common licences."""
    if not text.startswith("Format"):
        return [name.rstrip(".") for name in _COMMON.findall(text)]
    lines = re.findall(r"^License: *(\S.*)$", text, re.MULTILINE)
    return [
        word.strip() for line in lines for word in re.split(r"(?:,|\b)\s*\b(?:and|or)\s|,\s+", line) if word.strip()
    ]


def _python(files: Files) -> Iterator[Json]:
    for path in sorted(filter(_PYTHON.fullmatch, files)):
        about = BytesParser().parsebytes(files[path], headersonly=True)
        name = re.sub(r"[-_.]+", "-", about["Name"]).lower()
        purl = f"pkg:pypi/{quote(name)}@{quote(about['Version'])}"
        expression = about.get("License-Expression", "")
        yield _component(about["Name"], about["Version"], purl, _python_licences(about), expression=expression)


def _python_licences(about: Message) -> list[str]:
    classifiers = about.get_all("Classifier", [])
    names = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License :: OSI Approved :: ")]
    licence_text = about.get("License", "").strip()
    # Some have the whole text there.
    return names or (
        [licence_text] if licence_text and len(licence_text.splitlines()[0]) == len(licence_text) < 60 else []
    )


def _interpreter(variables: Iterable[str]) -> Iterator[Json]:
    """The Python that the official image compiles: no package has it."""
    for variable in variables:
        name, _, version = variable.partition("=")
        if name == "PYTHON_VERSION":
            yield _component("python", version, f"pkg:generic/python@{version}", ["PSF-2.0"])


def _component(name: str, version: str, purl: str, licences: Iterable[str], *, expression: str = "") -> Json:
    component: Json = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if expression:
        return component | {"licenses": [{"expression": expression}]}
    unique = list({json.dumps(licence): licence for licence in map(_licence, licences)}.values())
    return component | ({"licenses": [{"license": licence} for licence in unique]} if unique else {})


def _licence(text: str) -> dict[str, str]:
    gnu = _GNU.fullmatch(text)
    if gnu is not None:
        version = gnu["version"] if "." in gnu["version"] else f"{gnu['version']}.0"
        bare = "-no-invariants" if gnu["bare"] else ""
        return {"id": f"{gnu['family'].upper()}-{version}{bare}-{'or-later' if gnu['later'] else 'only'}"}
    if text in _AS_THEY_ARE:
        return {"id": text}
    spdx = _SPDX.get(text.lower())
    return {"id": spdx} if spdx else {"name": text}


def _qualifiers(**values: str) -> str:
    return "&".join(f"{key}={quote(value, safe='')}" for key, value in sorted(values.items()))


def write(archive: Path, platform: str) -> str:
    for image in oci_archive.images(archive):
        if platform in {"", image.platform}:
            return json.dumps(document(archive, image), indent=2) + "\n"
    raise UnreadableArchiveError(f"{archive} has no image for {platform}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="hack/sbom", description=__doc__)
    parser.add_argument("archive", type=Path, help="OCI archive, such as hack/image --archive writes")
    parser.add_argument("--platform", default="", help="such as linux/arm64; without it the first one")
    options = parser.parse_args(arguments)
    try:
        sys.stdout.write(write(options.archive, options.platform))
    except (OSError, UnreadableArchiveError) as error:
        print(f"hack/sbom: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
