"""What is decided about GPUs when a node starts: which its pods may have."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tf_operator.local import state
from tf_operator.local.node.gpus import devices
from tf_operator.local.node.gpus.devices import Device, GpuError


@dataclass(frozen=True, slots=True)
class GpuSettings:
    """Of a machine that has GPUs."""

    usable: tuple[Device, ...]
    """Those that pods may have; programs see no others."""
    folder: Path
    """In which nodes write down who has which."""
    shares: bool = False
    """Whether several pods may have the same."""


def of_machine(variables: Mapping[str, str], choice: str = "", *, shares: bool = False) -> GpuSettings | None:
    """Those that a shell with these variables can use, and ``--gpus`` selects; ``None`` without any in the machine.

    ``GpuError`` if they cannot be found or given to pods.
    """
    machine = devices.find()
    usable = devices.selected(devices.visible(machine, variables.get(devices.VARIABLE)), choice)
    if not machine:
        return None
    folder = journal_folder(variables)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise GpuError(f"who has which GPU cannot be written down in {folder}: {error.strerror}") from error
    return GpuSettings(usable, folder, shares)


def journal_folder(variables: Mapping[str, str]) -> Path:
    return state.default_folder(variables).parent / "gpus"
