"""What ``tfjob run`` changes in a manifest that is run on this machine: nothing that a cluster would not take, too.

An image brings its programs along. Here no image is used, so what it has in a folder is somewhere on this machine:
``--mount /training=programs`` puts that folder where the manifest expects it.
"""

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tf_operator.meta import Body

_VOLUME: Final = "tfjob-run"
_LISTS: Final = ("initContainers", "containers")


class MountError(Exception):
    """The value of ``--mount`` is invalid; the message says why."""


def parse_mount(text: str) -> tuple[str, Path]:
    """``/training=programs``: a path of the image, and the folder or file that stands for it."""
    inside, _, here = text.partition("=")
    if not inside.startswith("/") or inside == "/" or not here:
        raise MountError(f"--mount {text}: must be PATH=FOLDER, where PATH is the path in the image, as in /training")
    if not Path(here).exists():
        raise MountError(f"--mount {text}: there is no {here}")
    return inside.rstrip("/"), Path(here).absolute()


def with_mounts(body: Body, mounts: Mapping[str, Path]) -> dict[str, Any]:
    """The object, with a hostPath volume for each mount in all of its pod templates."""
    changed = copy.deepcopy(dict(body))
    for spec in _pod_specs(changed):
        for number, (inside, here) in enumerate(mounts.items()):
            name = f"{_VOLUME}-{number}"
            spec.setdefault("volumes", []).append({"name": name, "hostPath": {"path": str(here)}})
            for container in (entry for field in _LISTS for entry in spec.get(field) or ()):
                container.setdefault("volumeMounts", []).append({"name": name, "mountPath": inside})
    return changed


def _pod_specs(value: object) -> Iterator[dict[str, Any]]:
    """The pod specs in any API: what has containers. A template that two replicas share is one object: given once."""
    seen = set[int]()
    rest = [value]
    while rest:
        found = rest.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, dict):
            if isinstance(found.get("containers"), list):
                yield found
            else:
                rest += found.values()
        elif isinstance(found, list):
            rest += found
