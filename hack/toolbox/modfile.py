"""go.mod files as values: read the parts that pin something, and write one for ``go mod tidy`` to complete."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ModFile:
    """What a go.mod pins. ``replaces`` maps "module" or "module version" to "module version"."""

    module: str
    go: str
    tools: frozenset[str]
    requires: Mapping[str, str]
    replaces: Mapping[str, str]

    def text(self) -> str:
        """Write the file; go mod tidy adds what it depends on indirectly."""
        sections = [
            ("tool", sorted(self.tools)),
            ("require", [f"{module} {version}" for module, version in sorted(self.requires.items())]),
            ("replace", [f"{old} => {new}" for old, new in sorted(self.replaces.items())]),
        ]
        blocks = [block(keyword, lines) for keyword, lines in sections if lines]
        return "\n".join([f"module {self.module}\n", f"go {self.go}\n", *blocks])


def block(keyword: str, lines: list[str]) -> str:
    """Write one parenthesised block."""
    return "".join([f"{keyword} (\n", *(f"\t{line}\n" for line in lines), ")\n"])


def read(path: Path) -> ModFile:
    """Read a go.mod; raises OSError when there is none."""
    found: dict[str, list[str]] = {"module": [], "go": [], "tool": [], "require": [], "replace": []}
    for keyword, rest in directives(path.read_text(encoding="utf-8")):
        found.setdefault(keyword, []).append(rest)
    requires = dict(line.split() for line in found["require"])
    replaces = dict(re.split(r"\s*=>\s*", line, maxsplit=1) for line in found["replace"])
    return ModFile(
        module="".join(found["module"]),
        go="".join(found["go"]),
        tools=frozenset(found["tool"]),
        requires=requires,
        replaces=replaces,
    )


def directives(text: str) -> Iterator[tuple[str, str]]:
    """Yield each directive with its keyword, whether it stands alone or in a parenthesised block; no comments."""
    keyword = ""
    for line in (line.partition("//")[0].strip() for line in text.splitlines()):
        if line.endswith("("):
            keyword = line.removesuffix("(").strip()
        elif line == ")":
            keyword = ""
        elif line and keyword:
            yield keyword, line
        elif line:
            first, _, rest = line.partition(" ")
            yield first, rest.strip()
