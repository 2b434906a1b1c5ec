"""What a one-machine cluster needs of its machine: Linux, root, and programs from the distribution's packages.

Nothing is changed before all of that has been looked at. Missing programs are installed with apt-get where there is
one, and named where there is none. What is installed stays; what the cluster itself makes does not.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from lab.cluster.settings import CNI_PROGRAMS

# Root's own folders, which the PATH of a user who became root may lack.
PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
Packages = Mapping[str, Sequence[str]]
# Each program by the Debian package that has it.
_PACKAGES: Final[Packages] = {
    "containerd": ("containerd", "ctr", "containerd-shim-runc-v2"),
    "runc": ("runc",),
    "containernetworking-plugins": tuple(f"{CNI_PROGRAMS}/{name}" for name in ("ptp", "host-local", "portmap")),
    "iproute2": ("ip",),
    "iptables": ("iptables",),
    "nftables": ("nft",),
    "util-linux": ("unshare", "nsenter"),
}


class UnfitHostError(Exception):
    """This machine, or this user, cannot have a cluster; the message says why in one line."""


def missing_packages(packages: Packages | None = None) -> dict[str, list[str]]:
    """The programs that are not here, by the package that has them; of those that a cluster needs, or of others."""
    absent = {package: list(filter(_is_absent, names)) for package, names in (packages or _PACKAGES).items()}
    return {package: names for package, names in absent.items() if names}


def _is_absent(program: str) -> bool:
    return shutil.which(program, path=PATH) is None


def refuse_unfit() -> None:
    """Raise UnfitHostError unless this is Linux, and we are root."""
    if sys.platform != "linux":
        raise UnfitHostError("a cluster without Docker needs Linux")
    if os.geteuid() != 0:
        raise UnfitHostError("a cluster without Docker needs root, for network, mounts and control groups")


def provide(say: Callable[[str], None], packages: Packages | None = None) -> None:
    """Install what is missing; raise UnfitHostError when that cannot be done."""
    missing = missing_packages(packages)
    if not missing:
        return
    programs = _spelled(missing)
    apt = shutil.which("apt-get", path=PATH)
    if apt is None:
        raise UnfitHostError(f"these programs are missing, and there is no apt-get to install them with: {programs}")
    say(f"installing with apt-get: {' '.join(sorted(missing))} (missing: {programs})")
    # The lists of packages may be old, or none; most often they will do.
    if not _install(apt, missing):
        _run(apt, "update")
        if not _install(apt, missing):
            raise UnfitHostError(f"apt-get could not install {' '.join(sorted(missing))}; see above what it says")
    if still := missing_packages(packages):
        raise UnfitHostError(f"still missing after apt-get: {_spelled(still)}")


def _spelled(missing: Mapping[str, list[str]]) -> str:
    return ", ".join(name for names in missing.values() for name in names)


def _install(apt: str, packages: Iterable[str]) -> bool:
    return _run(apt, "install", "--yes", "--quiet", "--no-install-recommends", *sorted(packages))


def _run(*command: str) -> bool:
    """Run apt-get with its words on standard error: standard output is ours."""
    environment = os.environ | {"PATH": PATH, "DEBIAN_FRONTEND": "noninteractive"}
    process = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    return process.returncode == 0
