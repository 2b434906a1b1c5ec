"""Tools that are already on this machine: in KUBEBUILDER_ASSETS, on PATH, or in our cache.

What other people installed is taken only when it says itself that its version fits. What is in our cache
was asked before it was put there, and is under a name that contains its version, so it is not asked again.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from toolbox.cache import Cache
from toolbox.catalogue import Tool
from toolbox.progress import Progress
from toolbox.versions import Version

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
ANSWER_SECONDS = 20.0


def find(tool: Tool, *, environ: Mapping[str, str], cache: Cache, progress: Progress) -> Path | None:
    """Return where the tool already is, or None; says which programs were passed over, and why."""
    for candidate in () if tool.silent else installed(tool.name, environ):
        found = spoken_version(candidate, tool)
        if found is not None and found.fits(tool.version, tool.fit):
            return candidate
        what = f"is {found}" if found else "does not say its version"
        progress.say(f"{tool}: {candidate} {what}; passed over")
    return cached(tool, cache)


def cached(tool: Tool, cache: Cache) -> Path | None:
    """Return the finished tool in our cache, or None."""
    path = cache.path(tool)
    return path if is_program(path) else None


def installed(name: str, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield every program of this name in KUBEBUILDER_ASSETS and on PATH, the first one first, and none twice."""
    folders = [environ.get(ASSETS_VARIABLE, ""), *environ.get("PATH", "").split(os.pathsep)]
    candidates = [Path(folder).absolute() / name for folder in folders if folder]
    seen: set[Path] = set()  # by their real paths: in many distributions /bin is a link to /usr/bin
    for candidate in filter(is_program, candidates):
        real = candidate.resolve()
        if real not in seen:
            seen.add(real)
            yield candidate


def is_program(path: Path) -> bool:
    """Whether there is a file that we may run."""
    return path.is_file() and os.access(path, os.X_OK)


def spoken_version(program: Path, tool: Tool) -> Version | None:
    """Ask a program for its version; None when it does not answer as the tool would."""
    return Version.first_in(answer(program, tool) or "")


def objection(program: Path, tool: Tool) -> str:
    """Say what is wrong with a program that should be exactly this tool; nothing when it is."""
    text = answer(program, tool)
    if text is None:
        return "does not run here"
    found = Version.first_in(text)
    return "" if tool.silent or found == tool.version else f"says it is {found or 'nothing that we know'}"


def answer(program: Path, tool: Tool) -> str | None:
    """Return what the program prints when it is asked for its version, or None when it does not run or fails."""
    try:
        done = subprocess.run(
            [program, *tool.version_args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=ANSWER_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")
