"""Informers in which nothing happens, for tests of what is measured of them."""

from collections.abc import Mapping


class Idle:
    """As much of ``Informers`` as is sampled: each has been silent for a known time and holds known objects."""

    def __init__(self, silences: Mapping[str, float] | None = None, *, objects: int = 7) -> None:
        self._silences = dict(silences or {"pods": 1.0})
        self._objects = objects

    def idle_seconds(self) -> dict[str, float]:
        """As ``Informers.idle_seconds``."""
        return dict(self._silences)

    def sizes(self) -> dict[str, int]:
        """As ``Informers.sizes``."""
        return dict.fromkeys(self._silences, self._objects)
