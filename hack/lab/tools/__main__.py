"""The command ``hack/tool``."""

import argparse
import os
import signal
import sys

from lab.tools.catalogue import ToolError
from lab.tools.get import Toolbox

DESCRIPTION = """\
Gets pinned tools and prints their paths, one per line, in the order of the names.

A tool comes from KUBEBUILDER_ASSETS, else from the user's cache, else from its official release, else from a build
with Go. hack/lab/tools/README.md says where its version is."""

VARIABLES = """\
variables:
  KUBERNETES_MINOR          which Kubernetes the kube-* tools are of (hack/lab/tools/modules has the choices)
  KUBEBUILDER_ASSETS        a folder with ready-made programs
  CI                        when set, nothing is downloaded from release pages; tools are built
  TF_OPERATOR_CACHE         where tools are kept (default: tf-operator below XDG_CACHE_HOME or ~/.cache)
  TF_OPERATOR_MIRROR_<NAME> a server instead of the one that tools.toml lists as <name> under [mirrors]
  GOPROXY, PIP_INDEX_URL    where Go modules, and Go itself if PATH has none, are fetched from"""


def main() -> None:
    """Print paths; exit code 1 when a tool cannot be had, 2 when the command line is invalid."""
    parser = argparse.ArgumentParser(
        prog="hack/tool",
        description=DESCRIPTION,
        epilog=VARIABLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", action="store_true", help="print the names and versions there are, and get nothing")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a tool, e.g. etcd")
    options = parser.parse_args()
    # An end by a signal removes what is half-made, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        toolbox = Toolbox(os.environ)
        if options.list:
            for tool in toolbox.tools().values():
                when = " nightly" if tool.is_nightly else ""
                print(f"{tool.name:<24}{tool.version:<10}{tool.module.name}{when}")
        elif not options.names:
            parser.error("name at least one tool")
        else:
            paths = toolbox.get(options.names)
            print("\n".join(str(paths[name]) for name in options.names))
    except ToolError as error:
        sys.exit(f"hack/tool: error: {error}")
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


main()
