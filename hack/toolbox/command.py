"""The command lines of ``hack/tool``, ``hack/update-tools`` and ``hack/verify-tools``."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from toolbox import catalogue, pins, tidy
from toolbox.cache import Cache, cache_root
from toolbox.errors import Interrupted, ToolError, UsageError
from toolbox.golang import Compilers
from toolbox.host import this_host
from toolbox.obtain import Obtainer
from toolbox.progress import Progress

DESCRIPTION = """\
Gets pinned tools and prints their paths on standard output, one per line, in the order of the names.

A tool comes from KUBEBUILDER_ASSETS or PATH when the version there fits, else from the user's cache, else from
its official release, else from a build with Go. Its version is in hack/tools/versions.toml."""

VARIABLES = """\
variables:
  KUBERNETES_MINOR          which Kubernetes the kube-* tools are of (default and choices: versions.toml)
  KUBEBUILDER_ASSETS        a folder with ready-made programs; looked at before PATH
  CI                        when set, nothing is downloaded from release pages; tools are built
  TF_OPERATOR_CACHE         where tools are kept (default: tf-operator below XDG_CACHE_HOME or ~/.cache)
  TF_OPERATOR_MIRROR_<NAME> a server instead of the one that versions.toml lists as <name> under [mirrors]
  GOPROXY, PIP_INDEX_URL    where Go modules, and Go itself if PATH has none, are fetched from"""


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints look like all our others."""

    def error(self, message: str) -> NoReturn:
        """Complain."""
        raise UsageError(message, advice=f"see {self.prog} --help")


@dataclass(frozen=True)
class Script:
    """A script in the folder ``hack``, whose own path tells where everything else is."""

    path: str

    @property
    def name(self) -> str:
        """What people call the script."""
        return f"hack/{Path(self.path).name}"

    @property
    def tools(self) -> Path:
        """The folder with the catalogue and the module sets."""
        return Path(self.path).resolve().parent / "tools"

    @property
    def requirements(self) -> Path:
        """The pinned compiler, for machines without one."""
        return self.tools.parent / "requirements" / "go.txt"

    def run(self, main: Callable[["Script", Sequence[str], Mapping[str, str]], list[str]]) -> NoReturn:
        """Run what the script is for, print the lines it returns, and leave with the right status."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, interrupt)
        try:
            lines = main(self, sys.argv[1:], os.environ)
        except ToolError as error:
            complain(self.name, error)
            sys.exit(error.exit_status)
        except KeyboardInterrupt:
            sys.exit(128 + signal.SIGINT)
        except Interrupted as interruption:
            sys.exit(interruption.exit_status)
        print("".join(f"{line}\n" for line in lines), end="")
        sys.exit(0)


def complain(name: str, error: ToolError) -> None:
    """Print what is so, and what to do about it."""
    print(f"{name}: error: {error.message}", file=sys.stderr)
    if error.advice:
        print(f"{name}: {error.advice}", file=sys.stderr)


def interrupt(signal_number: int, _frame: object) -> NoReturn:
    """Unwind as Ctrl-C does, so that nothing is left behind."""
    raise Interrupted(signal_number)


def tool(script: Script, arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Be ``hack/tool``: return the paths of the named tools, or whatever else was asked for."""
    parser = Parser(
        prog=script.name,
        description=DESCRIPTION,
        epilog=VARIABLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", action="store_true", help="print the names and versions there are, and get nothing")
    parser.add_argument("--source", action="store_true", help="print the folder of the source code, not the program")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a tool, e.g. etcd")
    options = parser.parse_args(arguments)
    if not options.names and not options.list:
        parser.error("name at least one tool")
    obtainer = make_obtainer(script, environ)
    if options.list:
        return listing(obtainer.catalogue)
    paths = obtainer.obtain_sources if options.source else obtainer.obtain
    return [str(path) for path in paths(options.names)]


def update(script: Script, arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Be ``hack/update-tools``."""
    Parser(prog=script.name, description=tidy.__doc__).parse_args(arguments)
    obtainer = make_obtainer(script, environ)
    tidy.update(script.tools, script.requirements, compilers=obtainer.compilers, progress=obtainer.progress)
    return []


def verify(script: Script, arguments: Sequence[str], _environ: Mapping[str, str]) -> list[str]:
    """Be ``hack/verify-tools``."""
    Parser(prog=script.name, description=pins.__doc__).parse_args(arguments)
    deviations = list(pins.deviations(script.tools, script.requirements))
    if deviations:
        raise ToolError(
            "\n".join(["these do not follow from hack/tools/versions.toml:", *deviations]),
            advice="correct versions.toml if it is wrong, then run hack/update-tools",
        )
    return []


def make_obtainer(script: Script, environ: Mapping[str, str]) -> Obtainer:
    """Put everything together for this host and this user."""
    host = this_host()
    tools = catalogue.load(script.tools / "versions.toml", environ=environ, host=host)
    cache = Cache(cache_root(environ), host)
    return Obtainer(
        catalogue=tools,
        cache=cache,
        environ=environ,
        sources=script.tools,
        compilers=Compilers(tools, cache, environ, script.requirements),
        progress=Progress(sys.stderr, prefix=script.name),
    )


def listing(tools: catalogue.Catalogue) -> list[str]:
    """Return a line per tool: its name, its version and the set that builds it."""
    width = max(len(name) for name in tools.tools)
    return [
        f"{tool.name:<{width}}  {tool.version!s:<10}  hack/tools/{tool.module_set}" for tool in tools.tools.values()
    ]
