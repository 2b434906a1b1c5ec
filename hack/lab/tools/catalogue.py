"""``tools.toml`` and the go.mod files as values: which tools there are, and how each is made for one host."""

import platform
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parent
MINOR_VARIABLE: Final = "KUBERNETES_MINOR"
MIRROR_VARIABLE: Final = "TF_OPERATOR_MIRROR_{}"
_SYSTEMS: Final = {"Linux": "linux", "Darwin": "darwin"}
_PROCESSORS: Final = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}

Table = Mapping[str, Any]


class ToolError(Exception):
    """What stops us, in words for a person who has never read this code."""


@dataclass(frozen=True)
class Host:
    """An operating system and a processor, spelled as Go spells them."""

    os: str
    arch: str


@dataclass(frozen=True)
class Download:
    """An official release, and its checksum: the address of a list of them, or itself."""

    url: str
    sums_url: str
    sha256: str
    member: str


@dataclass(frozen=True)
class Tool:
    """One pinned program; ``module`` is the folder of the go.mod that builds it."""

    name: str
    version: str
    module: Path
    package: str
    ldflags: tuple[str, ...]
    download: Download | None
    is_nightly: bool = False
    """Whether only nightly tests need it."""

    @property
    def built_name(self) -> str:
        """The name that ``go build`` gives it: the last part of its package that is not a major version."""
        *_, last = (part for part in self.package.split("/") if not re.fullmatch(r"v\d+", part))
        return last


def this_host(system: str = "", machine: str = "") -> Host:
    """Return this host, or the given one; raises ToolError where no tool can come from."""
    system, machine = system or platform.system(), machine or platform.machine()
    if system not in _SYSTEMS or machine.lower() not in _PROCESSORS:
        raise ToolError(f"there are no tools for {system} on {machine}: use Linux or macOS, on amd64 or arm64")
    return Host(_SYSTEMS[system], _PROCESSORS[machine.lower()])


def table(folder: Path) -> Table:
    return tomllib.loads((folder / "tools.toml").read_text(encoding="utf-8"))


def load(folder: Path, *, environ: Mapping[str, str], host: Host) -> dict[str, Tool]:
    """Read what tools there are for this host and the Kubernetes minor that ``environ`` asks for."""
    tables = table(folder)
    words = {"kubernetes": kubernetes_minor(folder, tables, environ), "os": host.os, "arch": host.arch}
    mirrors = {
        name: (environ.get(MIRROR_VARIABLE.format(name.upper())) or address).rstrip("/")
        for name, address in tables["mirrors"].items()
    }
    make = partial(_make_tool, modules=folder / "modules", mirrors=mirrors)
    return {
        name: make(tables["families"].get(own.get("family"), {}) | own, words=words | {"tool": name})
        for name, own in tables["tools"].items()
    }


def kubernetes_minor(folder: Path, tables: Table, environ: Mapping[str, str]) -> str:
    """Return the minor that is asked for; raises ToolError when there is none such."""
    minor = environ.get(MINOR_VARIABLE) or str(tables.get("kubernetes", {}).get("default", ""))
    minors = kubernetes_minors(folder)
    if minor and minor not in minors:
        raise ToolError(f"{MINOR_VARIABLE}={minor}: set it to one of {', '.join(minors)}, or unset it")
    return minor


def kubernetes_minors(folder: Path) -> list[str]:
    """The minors of Kubernetes that can be run; the newest is the last."""
    return sorted(path.name.partition("-")[2] for path in (folder / "modules").glob("kubernetes-*"))


def select(tools: Mapping[str, Tool], names: Sequence[str]) -> list[Tool]:
    if unknown := [name for name in names if name not in tools]:
        raise ToolError(f"there is no tool named {', '.join(unknown)}; there are: {', '.join(tools)}")
    return [tools[name] for name in dict.fromkeys(names)]


def _make_tool(fields: Table, *, words: dict[str, str], modules: Path, mirrors: Mapping[str, str]) -> Tool:
    module = modules / fields["set"].format(**words)
    required_release = required_version(module / "go.mod", fields["module"])
    version = fields.get("releases", {required_release: required_release}).get(required_release)
    if version is None:
        raise ToolError(
            f"{words['tool']}: tools.toml does not say which release is v{required_release} of {fields['module']}"
        )
    major, minor, _ = version.split(".", 2)
    words |= {"version": version, "major": major, "minor": minor}
    return Tool(
        name=words["tool"],
        version=version,
        module=module,
        package=fields.get("package", fields["module"]).format(**words),
        ldflags=tuple(flag.format(**words) for flag in fields.get("ldflags", ())),
        download=_make_download(fields, words, mirrors),
        is_nightly=fields.get("nightly", False),
    )


def required_version(go_mod: Path, module: str) -> str:
    """Return the version without "v" that a go.mod requires of a module; raises ToolError."""
    text = go_mod.read_text(encoding="utf-8") if go_mod.is_file() else ""
    if (match := re.search(rf"^(?:require)?\s+{re.escape(module)} v(\S+)", text, re.MULTILINE)) is None:
        raise ToolError(f"{go_mod} does not require {module}")
    return match[1]


def _make_download(fields: Table, words: Mapping[str, str], mirrors: Mapping[str, str]) -> Download | None:
    """Return the official release for this host, or None where there is none."""
    sums = fields.get("sums", {})
    checksum = sums.get(f"{words['os']}/{words['arch']}", "") if isinstance(sums, dict) else ""
    if "url" not in fields or not (checksum or isinstance(sums, str)):
        return None
    names = fields.get("names", {})
    words = {key: names.get(word, word) if key in ("os", "arch") else word for key, word in words.items()}
    mirror, _, path = fields["url"].format(**words).partition("/")
    url = f"{mirrors[mirror]}/{path}"
    return Download(
        url=url,
        sums_url="" if checksum else f"{url.rpartition('/')[0]}/{sums.format(**words)}",
        sha256=checksum,
        member=fields.get("member", "").format(**words),
    )
