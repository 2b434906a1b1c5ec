"""The image of a cluster's own containers: one static Go program in an archive, built on this machine.

The program is test/images/pod; kubelet's sandboxes run it as `pause`, and the tests of the cluster look with it from
inside a pod. The archive is kept in the user's cache under a name that says what it was made of.
"""

import hashlib
import io
import json
import os
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Final

from lab.cluster.settings import PAUSE_IMAGE
from lab.tools.build import Go
from lab.tools.get import Toolbox
from lab.tools.progress import Progress

_REPOSITORY: Final = Path(__file__).resolve().parents[3]
_SOURCE: Final = _REPOSITORY / "test" / "images" / "pod" / "main.go"
_SCHEMA: Final = "application/vnd.oci.image"


def archive() -> Path:
    toolbox = Toolbox(os.environ, progress=Progress(sys.stderr, prefix="hack/cluster"))
    host = toolbox.host
    made_of = hashlib.sha256(_SOURCE.read_bytes() + Path(__file__).read_bytes()).hexdigest()[:16]
    path = toolbox.cache / "images" / f"pod-{made_of}-{host.os}-{host.arch}.tar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Somebody else may be making the same: each in a folder of its own, and the last one stays.
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            program = _build(toolbox, Path(folder))
            fresh = Path(folder) / "image.tar"
            fresh.write_bytes(oci_archive(program.read_bytes(), name=PAUSE_IMAGE, architecture=host.arch))
            fresh.replace(path)
    return path


def _build(toolbox: Toolbox, folder: Path) -> Path:
    program = folder / "pod"
    go = toolbox.go()
    environ = {**go.environ, "GOTMPDIR": str(folder)}
    with toolbox.progress.step("building the program of the cluster's own image") as step:
        arguments = ["build", "-trimpath", "-ldflags=-s -w", f"-o={program}", str(_SOURCE)]
        Go(go.program, environ).run(arguments, folder=folder, step=step)
    return program


def oci_archive(program: bytes, *, name: str, architecture: str) -> bytes:
    """An OCI image layout, as a tar archive, of an image with this one program."""
    layer = _tar({"pod": program}, mode=0o755)
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Entrypoint": ["/pod"], "User": "65532:65532"},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    blobs: dict[str, bytes] = {}
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_SCHEMA}.manifest.v1+json",
        "config": _add(blobs, _json(config), f"{_SCHEMA}.config.v1+json"),
        "layers": [_add(blobs, layer, f"{_SCHEMA}.layer.v1.tar")],
    }
    entry = _add(blobs, _json(manifest), f"{_SCHEMA}.manifest.v1+json")
    # containerd takes the name from its own annotation, others from the standard's.
    entry["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    index = {"schemaVersion": 2, "manifests": [entry]}
    files = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index)}
    return _tar(files | {f"blobs/sha256/{digest}": blob for digest, blob in blobs.items()}, mode=0o644)


def _add(blobs: dict[str, bytes], blob: bytes, kind: str) -> dict[str, Any]:
    """Put a blob among the others; return the descriptor that points to it."""
    digest = _digest(blob)
    blobs[digest.removeprefix("sha256:")] = blob
    return {"mediaType": kind, "digest": digest, "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _tar(files: dict[str, bytes], *, mode: int) -> bytes:
    """The same files make the same archive: no times, no owners."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive_file:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive_file.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
