"""A cluster that somebody else runs, named by E2E_KUBECONFIG: the tests use it as they use one of their own.

It has what cluster.Cluster has, as far as tests need it. Images cannot be loaded into it from here; how they get there
is up to the one who runs it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, Self

VARIABLE: Final = "E2E_KUBECONFIG"


class ForeignClusterError(Exception):
    """Something that can only be done to a cluster of one's own."""


@dataclass(frozen=True, slots=True)
class GivenCluster:
    """Its kubeconfig, which is all that we have of it."""

    kubeconfig: Path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Self | None:
        """The cluster that the environment names; None when it names none."""
        named = environ.get(VARIABLE)
        if not named:
            return None
        path = Path(named).expanduser().absolute()
        if not path.is_file():
            raise ForeignClusterError(f"{VARIABLE} is {named}: there is no such file")
        return cls(path)

    def load(self, archive: Path) -> NoReturn:
        raise ForeignClusterError(f"{archive.name} cannot be loaded into the cluster that {VARIABLE} names")
