"""pip for a Python that is not the one it runs in: a program, started with what it is to know as JSON, and pip's words.

pip chooses wheels for another platform, but goes by its own environment for markers such as ``sys_platform ==
"linux"``, and for what is installed. Here both are the base's. pex does the same with markers.
"""

import importlib
import json
import runpy
import sys
import sysconfig
from collections.abc import Callable
from types import ModuleType


def main() -> None:
    facts = json.loads(sys.argv[1])
    pip_markers = importlib.import_module("pip._vendor.packaging.markers")
    pip_options = importlib.import_module("pip._internal.cli.cmdoptions")
    _replace(pip_markers, "default_environment", lambda: dict(facts["markers"]))
    # It wants --target with --platform, and with that disregards what is installed.
    _replace(pip_options, "check_dist_restriction", lambda *_, **__: None)
    library = sysconfig.get_path("stdlib")
    own = [folder for folder in sys.path if folder.startswith(library) and not folder.endswith("-packages")]
    sys.path[:] = [*own, facts["installed"]]  # pip's other modules are found where those above are
    sys.argv = ["pip", *sys.argv[2:]]
    runpy.run_module("pip", run_name="__main__")


def _replace(module: ModuleType, name: str, value: Callable[..., object]) -> None:
    """Refuses a pip that calls it differently: that would install packages for this machine's Python."""
    if not hasattr(module, name):
        raise SystemExit(f"ERROR: this version of pip is not supported: {module.__name__} has no {name}")
    setattr(module, name, value)


if __name__ == "__main__":
    main()
