"""Whether pictures show what there is: of each, a digest of what it is made from, in ``docs/images/sources.json``.

Who draws a picture records it; ``hack/generate pictures``, and so ``make verify``, fails when its sources have changed
since. The sources are what decides how it looks, not everything that runs meanwhile.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

FOLDER: Final = Path("docs/images")
RECORD: Final = FOLDER / "sources.json"
SOURCES: Final = {
    "demo.svg": (
        "hack/demonstration/demo_picture.py",
        "manifests/examples/training/lost-worker.yaml",
        "manifests/examples/training/parameter_servers.py",
        "tf_operator/cli/run/live_table.py",
        "tf_operator/cli/run/view.py",
    ),
}


def stale(root: Path) -> Iterator[str]:
    digests = _recorded(root)
    for name, sources in SOURCES.items():
        if digests.get(name) != digest(root, sources):
            yield f"{FOLDER / name} is older than what it shows: hack/pictures demo draws it again"


def record(root: Path, names: Iterable[str]) -> None:
    digests = _recorded(root) | {name: digest(root, SOURCES[name]) for name in names}
    (root / RECORD).write_text(f"{json.dumps(dict(sorted(digests.items())), indent=2)}\n", encoding="utf-8")


def digest(root: Path, sources: Iterable[str]) -> str:
    total = hashlib.sha256()
    for source in sources:
        total.update(f"{source}\0{hashlib.sha256((root / source).read_bytes()).hexdigest()}\0".encode())
    return total.hexdigest()


def _recorded(root: Path) -> dict[str, str]:
    path = root / RECORD
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
