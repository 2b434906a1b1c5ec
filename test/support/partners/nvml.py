"""A stand-in for the library of NVIDIA's driver: GPUs on a machine that has none.

It is a shared object with the functions that are called, so NVIDIA's binding and everything above it are the real ones.
A program finds it by ``LD_LIBRARY_PATH``, and its GPUs in the environment, as ``Driver.variables`` has them.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml.c")
MEMORY = 24 << 30
USED_MEMORY, RESERVED_MEMORY = 6 << 30, 1 << 30


@dataclass(frozen=True)
class Driver:
    """GPUs of one kind. The first ``instances`` profiles are those of GPU 0, if it is partitioned."""

    folder: Path
    count: int = 4
    instances: tuple[str, ...] = ()
    is_silent: bool = False
    """Whether it never answers."""

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a program on this machine."""
        own = {"NVML_COUNT": str(self.count), "NVML_SILENT": str(int(self.is_silent))}
        return {"LD_LIBRARY_PATH": str(self.folder), "NVML_INSTANCES": ",".join(self.instances), **own}


def uuid_of(index: int) -> str:
    return f"GPU-{index:08x}-0000-0000-0000-000000000000"


def install(folder: Path, count: int = 4) -> Driver:
    """Build the library in this folder."""
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, SOURCE], check=True)
    return Driver(folder, count)
