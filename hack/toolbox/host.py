"""The machine we are on, in the words that Go and the release pages use for it."""

import platform
from dataclasses import dataclass

from toolbox.errors import UnsupportedPlatform

SYSTEMS = {"Linux": "linux", "Darwin": "darwin"}
PROCESSORS = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True)
class Host:
    """An operating system and a processor, spelled as Go spells them."""

    os: str
    arch: str

    def __str__(self) -> str:
        return f"{self.os}/{self.arch}"


def this_host(system: str = "", machine: str = "") -> Host:
    """Return the host we run on (or the given one); raises UnsupportedPlatform where no tool can come from."""
    system, machine = system or platform.system(), machine or platform.machine()
    if system not in SYSTEMS or machine.lower() not in PROCESSORS:
        raise UnsupportedPlatform(
            f"there are no tools for {system} on {machine}",
            advice="use Linux or macOS, on amd64 or arm64 (on Windows: inside WSL)",
        )
    return Host(SYSTEMS[system], PROCESSORS[machine.lower()])
