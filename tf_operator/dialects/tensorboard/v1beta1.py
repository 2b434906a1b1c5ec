"""``tensorstack.dev/v1beta1`` TensorBoard: where the logs are, by which image they are shown, and what status it has.

Claims are mounted read-only below ``/logs``, each folder of a claim at its own path. Object stores and web addresses
are known to this API and not supported: a status says so.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tf_operator.dialects.fields import Fields
from tf_operator.dialects.served import Crd
from tf_operator.job.tensorboard import TensorBoard, TensorBoardPhase, first_of
from tf_operator.meta import Body

CRD: Final = Crd(__package__)
LOGS: Final = "/logs"
MOST_FOLDERS: Final = 64
_COMMAND: Final = ("tensorboard", "--logdir", LOGS, "--bind_all")
_CLAIM: Final = "t9k://pvc/"
_UNSUPPORTED: Final = "is not supported: logs have to be in a claim"
_FIELDS: Final = ("phase", "url", "message")


def read(name: str, spec: object) -> TensorBoard:
    """The TensorBoard that an object of this name describes; with ``problems`` where it is none. Never raises."""
    fields = Fields({"spec": spec}).below("spec")
    image, folders = fields.text("image"), tuple(dict.fromkeys(_folders(fields)))
    if not image:
        fields.wrong("image", "must be the image that has TensorBoard")
    if len(folders) > MOST_FOLDERS:
        fields.wrong("logDir", f"must have at most {MOST_FOLDERS} folders with trainingLogFilesets, has {len(folders)}")
    volumes = {claim: f"logs-{number}" for number, claim in enumerate(dict.fromkeys(claim for claim, _ in folders))}
    return TensorBoard(
        name=name,
        image=image,
        command=_COMMAND,
        volumes=tuple({"name": volume, "persistentVolumeClaim": {"claimName": c}} for c, volume in volumes.items()),
        mounts=tuple(_mount(volumes[claim], claim, path) for claim, path in folders),
        resources=fields.below("resources").body,
        is_suspended=fields.flag("suspend"),
        problems=first_of(fields.problems),
    )


def status(phase: TensorBoardPhase, *, url: str, message: str, stored_status: Body) -> dict[str, Any]:
    """The whole status. What others keep in it stays."""
    fields: dict[str, str] = {"phase": phase, "url": url, "message": message}
    return {name: value for name, value in stored_status.items() if name not in _FIELDS} | {
        name: text for name, text in fields.items() if text
    }


def _folders(spec: Fields) -> Iterator[tuple[str, str]]:
    """Claims and paths in them; an empty path is the whole claim."""
    filesets = spec.body.get("trainingLogFilesets")
    for index, text in enumerate(filesets if isinstance(filesets, list) else ()):
        place = f"trainingLogFilesets[{index}]"
        if not isinstance(text, str) or not text.startswith(_CLAIM):
            spec.wrong(place, f"{_UNSUPPORTED}, as {_CLAIM}CLAIM/PATH")
            continue
        claim, _, path = text.removeprefix(_CLAIM).partition("/")
        yield from _check(spec, place, claim=claim, path=path)
    sources = spec.below("logDir")
    for name in ("s3", "http"):
        if sources.body.get(name):
            sources.wrong(name, _UNSUPPORTED)
    for source in sources.items("pvc"):
        paths = source.body.get("subPath")
        for path in (paths if isinstance(paths, list) else None) or ("",):
            yield from _check(source, "subPath", claim=source.text("name"), path=path)


def _check(fields: Fields, place: str, *, claim: str, path: object) -> Iterator[tuple[str, str]]:
    """One folder, if it can be mounted."""
    parts = path.split("/") if isinstance(path, str) else [".."]
    if not claim or ".." in parts:
        fields.wrong(place, "must name a claim and a folder in it, without '..'")
    else:
        yield claim, "/".join(part for part in parts if part not in {"", "."})


def _mount(volume: str, claim: str, path: str) -> Mapping[str, Any]:
    # Only the mount is read-only, not the volume: the kubelet creates a folder that the training has not made yet.
    place = {"subPath": path} if path else {}
    return {"name": volume, "mountPath": "/".join(filter(None, (LOGS, claim, path))), "readOnly": True} | place
