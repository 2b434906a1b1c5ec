"""From names to paths: the places a tool can come from, in order.

1. KUBEBUILDER_ASSETS and PATH, when the version there fits, then our cache (``locate``);
2. the official release, unless CI is set or its server is out of reach (``download``);
3. a build from the pinned go.mod and go.sum (``build``).

What is downloaded or built is made in a workshop that nobody else sees, has to run and to say the right version,
and only then moves into the cache. Tools of one set are made together, and by one caller at a time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from toolbox import build, download, locate, source
from toolbox.cache import Cache, Workshop, publish
from toolbox.catalogue import Catalogue, Tool
from toolbox.errors import BrokenBuild
from toolbox.golang import Compilers
from toolbox.progress import Progress


@dataclass(frozen=True)
class Obtainer:
    """Gets tools for one user on one host."""

    catalogue: Catalogue
    cache: Cache
    environ: Mapping[str, str]
    sources: Path
    compilers: Compilers
    progress: Progress

    def obtain(self, names: Sequence[str]) -> list[Path]:
        """Return the paths of the named tools, in the order of the names; raises a ToolError."""
        tools = self.catalogue.select(names)
        paths = {tool.name: path for tool in tools if (path := self._find(tool))}
        missing = [tool for tool in dict.fromkeys(tools) if tool.name not in paths]
        offers = download.offers(missing, environ=self.environ, progress=self.progress)
        for module_set, group in by_set(missing):
            self._make(module_set, group, offers)
            paths |= {tool.name: self.cache.path(tool) for tool in group}
        return [paths[name] for name in names]

    def obtain_sources(self, names: Sequence[str]) -> list[Path]:
        """Return the folders with the source code of the named tools, as their go.mod pins it."""
        tools = self.catalogue.select(names)
        return [source.folder(tool, self.sources, self.compilers, self.progress) for tool in tools]

    def _find(self, tool: Tool) -> Path | None:
        return locate.find(tool, environ=self.environ, cache=self.cache, progress=self.progress)

    def _make(self, module_set: str, tools: Sequence[Tool], offers: Mapping[str, download.Offer]) -> None:
        purpose = ", ".join(tool.name for tool in tools)
        with self.cache.workshop(module_set, purpose=purpose, progress=self.progress) as workshop:
            # Whoever held the lock before us may have made the very same tools, hence asking the cache again.
            for tool in tools:
                if tool.name in offers and locate.cached(tool, self.cache) is None:
                    self._download(tool, offers[tool.name], workshop)
            missing = [tool for tool in tools if locate.cached(tool, self.cache) is None]
            if missing:
                self._build(missing, workshop)

    def _download(self, tool: Tool, offer: download.Offer, workshop: Workshop) -> None:
        try:
            made = download.fetch(tool, offer, workshop.folder, self.progress)
        except download.Unavailable as error:
            self.progress.say(f"{tool}: {error}; building it instead")
            return
        if wrong := locate.objection(made, tool):
            self.progress.say(f"{tool}: the download {wrong}; building it instead")
            return
        publish(made, self.cache.path(tool))

    def _build(self, tools: Sequence[Tool], workshop: Workshop) -> None:
        made = build.build(
            tools, sources=self.sources, compilers=self.compilers, workshop=workshop, progress=self.progress
        )
        for tool in tools:
            if wrong := locate.objection(made[tool.name], tool):
                raise BrokenBuild(
                    f"{tool}: the program that was built {wrong}",
                    advice="check its version, ldflags and version_args in hack/tools/versions.toml, and that "
                    f"programs may run from {self.cache.root}",
                )
        for tool in tools:
            publish(made[tool.name], self.cache.path(tool))


def by_set(tools: Iterable[Tool]) -> list[tuple[str, list[Tool]]]:
    """Group tools by the module set they are built from, in a fixed order, so that two callers never deadlock."""
    ordered = sorted(tools, key=lambda tool: tool.module_set)
    return [(name, list(group)) for name, group in groupby(ordered, key=lambda tool: tool.module_set)]
