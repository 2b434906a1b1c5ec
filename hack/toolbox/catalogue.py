"""``hack/tools/versions.toml`` as values: which tools there are, and everything we know about each.

The file is trusted to be ours but not to be right: a missing field or an unknown placeholder is a
BadCatalogue that names the tool, not a KeyError.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from toolbox.errors import BadCatalogue, UnknownTool
from toolbox.host import Host
from toolbox.versions import Version

MINOR_VARIABLE = "KUBERNETES_MINOR"
MIRROR_VARIABLE = "TF_OPERATOR_MIRROR_{}"
FIT_RULES = ("exact", "minor", "major")

Table = Mapping[str, Any]


@dataclass(frozen=True)
class Download:
    """Where the official release for one host is, and its checksum: the address of a list of them, or itself."""

    url: str
    checksum_url: str
    sha256: str
    member: str

    @property
    def file(self) -> str:
        """The name by which a list of checksums knows the download."""
        return PurePosixPath(self.url).name


@dataclass(frozen=True)
class Tool:
    """One pinned program."""

    name: str
    version: Version
    module_set: str
    module: str
    module_version: str
    package: str
    ldflags: tuple[str, ...]
    version_args: tuple[str, ...]
    silent: bool
    fit: str
    cold_seconds: int
    staging: str
    download: Download | None

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def built_name(self) -> str:
        """The name that ``go build`` gives the program: the last part of its package that is not a major version."""
        parts = PurePosixPath(self.package).parts
        return parts[-2] if parts[-1].startswith("v") and parts[-1][1:].isdigit() else parts[-1]


@dataclass(frozen=True)
class Catalogue:
    """All tools, for one host and one choice of Kubernetes minor."""

    tools: Mapping[str, Tool]
    go_minimum: Version
    go_wheel: Version

    def select(self, names: Sequence[str]) -> list[Tool]:
        """Return the named tools in the order of the names; raises UnknownTool."""
        unknown = [name for name in names if name not in self.tools]
        if unknown:
            raise UnknownTool(
                f"there is no tool named {', '.join(unknown)}",
                advice=f"there are: {', '.join(self.tools)} (hack/tools/versions.toml)",
            )
        return [self.tools[name] for name in names]


def load(path: Path, *, environ: Mapping[str, str], host: Host) -> Catalogue:
    """Read the catalogue for this host and the Kubernetes minor that ``environ`` asks for."""
    return from_table(read_table(path), environ=environ, host=host)


def from_table(table: Table, *, environ: Mapping[str, str], host: Host) -> Catalogue:
    """Make a catalogue of what was read from the file."""
    release = kubernetes_release(table, environ.get(MINOR_VARIABLE, ""))
    tools = {name: make_tool(name, table, release=release, environ=environ, host=host) for name in table["tools"]}
    go = table["go"]
    return Catalogue(tools, go_minimum=Version.parse(go["minimum"]), go_wheel=Version.parse(go["wheel"]))


def read_table(path: Path) -> Table:
    """Read the file without looking at what is in it."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise BadCatalogue(f"{path} cannot be read: {error}") from error


def minors(table: Table) -> list[str]:
    """Return every Kubernetes minor that can be asked for."""
    return list(table.get("kubernetes", {}).get("releases", {}))


def kubernetes_release(table: Table, minor: str) -> str:
    """Return the Kubernetes version that goes by this minor, or the default one when it is empty."""
    releases = table.get("kubernetes", {}).get("releases", {})
    minor = minor or table.get("kubernetes", {}).get("default", "")
    if minor and minor not in releases:
        raise BadCatalogue(
            f"{MINOR_VARIABLE}={minor}: there is no such release in the catalogue",
            advice=f"set {MINOR_VARIABLE} to one of {', '.join(releases)}, or unset it",
        )
    return str(releases.get(minor, ""))


def make_tool(name: str, table: Table, *, release: str, environ: Mapping[str, str], host: Host) -> Tool:
    """Build one tool out of its own table, its family's and the defaults."""
    try:
        fields = merged_fields(name, table)
        version = Version.parse(fields.get("version") or release)
        words: dict[str, Any] = {"tool": name, "version": version, "os": host.os, "arch": host.arch}
        words |= {"major": version.major, "minor": version.minor, "patch": version.patch}
        if fields["fits"] not in FIT_RULES:
            raise BadCatalogue(f"{name}: fits = {fields['fits']!r} is none of {', '.join(FIT_RULES)}")
        return Tool(
            name=name,
            version=version,
            module_set=fields["set"].format(**words),
            module=fields["module"],
            module_version=fields["module_version"].format(**words),
            package=fields.get("package", fields["module"]).format(**words),
            ldflags=tuple(flag.format(**words) for flag in fields["ldflags"]),
            version_args=tuple(fields["version_args"]),
            silent=fields["silent"],
            fit=fields["fits"],
            cold_seconds=fields["cold_seconds"],
            staging=fields["staging"].format(**words),
            download=make_download(fields["download"], words, mirrors(table, environ)),
        )
    except KeyError as error:
        raise BadCatalogue(f"{name}: versions.toml does not say {error}") from error


def merged_fields(name: str, table: Table) -> dict[str, Any]:
    """Lay a tool's own fields over its family's, and those over the defaults; download is merged field by field."""
    own = table["tools"][name]
    layers = [table["defaults"], table["families"][own["family"]] if "family" in own else {}, own]
    fields: dict[str, Any] = {}
    for layer in layers:
        fields |= layer
    fields["download"] = {key: value for layer in layers for key, value in layer.get("download", {}).items()}
    return fields


def mirrors(table: Table, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the base address of each release server, after the variables that replace them."""
    return {
        name: (environ.get(MIRROR_VARIABLE.format(name.upper())) or base).rstrip("/")
        for name, base in table["mirrors"].items()
    }


def make_download(fields: Table, words: Mapping[str, Any], bases: Mapping[str, str]) -> Download | None:
    """Return the official release for this host, or None where there is none."""
    platform = f"{words['os']}/{words['arch']}"
    if "path" not in fields or platform not in fields["platforms"]:
        return None
    names = fields.get("names", {})
    words = {key: names.get(word, word) if key in ("os", "arch") else word for key, word in words.items()}
    base, path = bases[fields["mirror"]], fields["path"].format(**words)
    pinned = fields.get("sha256", {}).get(platform, "")
    listed = "" if pinned else fields["checksum"].format(**words, file=PurePosixPath(path).name)
    return Download(
        url=f"{base}/{path}",
        checksum_url=f"{base}/{listed}" if listed else "",
        sha256=pinned,
        member=fields["member"].format(**words),
    )
