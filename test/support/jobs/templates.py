"""Builder of pod templates: the container of a replica and the rest of its pod's spec; see ``builders``."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Self

from support.resources import Json

MAIN_CONTAINER = "tensorflow"
"""The container that decides what becomes of a replica."""

# Nothing pulls the image: no kubelet runs, the driver plays one.
CONTAINER: Mapping[str, Any] = {"name": MAIN_CONTAINER, "image": "training:test"}
_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Template:
    """A pod template with one container ``tensorflow``; immutable, every method returns a new one."""

    container: Mapping[str, Any] = field(default_factory=lambda: CONTAINER)
    more_spec: Mapping[str, Any] = field(default_factory=dict)
    label_map: Mapping[str, str] = field(default_factory=dict)

    def main(self, **fields: object) -> Self:
        return replace(self, container={**self.container, **fields})

    def resources(self, *, requests: Mapping[str, str] = _NOTHING, limits: Mapping[str, str] = _NOTHING) -> Self:
        amounts = {"requests": dict(requests), "limits": dict(limits)}
        return self.main(resources={name: value for name, value in amounts.items() if value})

    def spec(self, **fields: object) -> Self:
        """Set raw fields of the pod spec: ``nodeSelector``, ``schedulerName``, ``volumes``, ..."""
        return replace(self, more_spec={**self.more_spec, **fields})

    def labels(self, labels: Mapping[str, str]) -> Self:
        return replace(self, label_map={**self.label_map, **labels})

    def body(self) -> Json:
        metadata = {"metadata": {"labels": self.label_map}} if self.label_map else {}
        return deepcopy({**metadata, "spec": {"containers": [self.container], **self.more_spec}})
