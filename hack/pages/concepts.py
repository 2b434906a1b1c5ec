"""The pictures of docs/concepts and of docs/architecture.md, by their paths."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pages.picture import Arrow, Box, draw

FOLDER: Final = Path("docs/concepts")


def render() -> Mapping[Path, str]:
    """Each picture; the title says in words what it shows, as the page's alt text does."""
    drawn = {
        "tfjob": _tfjob(),
        "tf-config": _tf_config(),
        "roles": _roles(),
        "restarts": _restarts(),
        "storage": _storage(),
        "layers": _layers(),
        "event": _event(),
        "local": _local(),
    }
    return {FOLDER / f"{name}.svg": text for name, text in drawn.items()}


def _tfjob() -> str:
    pods = ("mnist-chief-0", "mnist-worker-0", "mnist-worker-1", "mnist-ps-0")
    places = [(name, 45 + 66 * at) for at, name in enumerate(pods)]
    return draw(
        "A TFJob asks for replicas; the operator makes a pod and a Service for each, and writes the status back",
        290,
        Box(110, 145, 180, "TFJob mnist", ("Chief: 1", "Worker: 2", "PS: 1", "status: Running"), "store"),
        Box(370, 145, 150, "operator", ("watches, makes,", "restarts, reports")),
        *(Box(640, y, 200, name, ("pod and Service",)) for name, y in places),
        Arrow((200, 130), (293, 130), "spec"),
        Arrow((295, 165), (202, 165), "status", (0, 18)),
        *(Arrow((446, 145), (538, y)) for _, y in places),
    )


def _tf_config() -> str:
    return draw(
        "TF_CONFIG of worker 1 lists the addresses of all replicas, and says which of them it is",
        300,
        Box(
            *(380, 75, 720, "pod mnist-worker-1, TF_CONFIG"),
            (
                '"cluster": {"chief": ["mnist-chief-0.default.svc:2222"],',
                '"worker": ["mnist-worker-0.default.svc:2222", "mnist-worker-1.default.svc:2222"]},',
                '"task": {"type": "worker", "index": 1}',
            ),
            text="code",
        ),
        Box(140, 235, 200, "mnist-chief-0", ("Service of this name",)),
        Box(380, 235, 200, "mnist-worker-0", ("Service of this name",)),
        Box(620, 235, 200, "mnist-worker-1", ("this pod",), "good"),
        Arrow((200, 122), (140, 206), "resolves to", (-46, 0)),
        Arrow((380, 122), (380, 206), "resolves to", (38, 0)),
        Arrow((590, 122), (620, 206), "task", (26, 0)),
    )


def _roles() -> str:
    return draw(
        "The chief gives steps to workers; workers read and write variables on parameter servers; "
        "the chief saves checkpoints, which the evaluator reads",
        330,
        Box(380, 50, 210, "chief", ("hands out steps, saves",)),
        Box(150, 165, 190, "worker 0", ("computes steps",)),
        Box(380, 165, 190, "worker 1", ("computes steps",)),
        Box(260, 285, 260, "parameter server", ("holds the variables",)),
        Box(640, 165, 180, "checkpoints", ("on a volume",), "store"),
        Box(640, 285, 180, "evaluator", ("tests each checkpoint",)),
        Arrow((330, 77), (190, 137), "steps", (-22, -4)),
        Arrow((380, 77), (380, 137), "steps", (24, 4)),
        Arrow((160, 192), (225, 257), "gradients", (-40, 6)),
        Arrow((370, 192), (300, 257), "gradients", (44, 6)),
        Arrow((487, 60), (600, 137), "saves", (24, -4)),
        Arrow((640, 192), (640, 257), "reads", (26, 4)),
    )


def _restarts() -> str:
    return draw(
        "Exit code 0 completes the replica, 1 to 127 fail the job, 128 and above or a disruption give a new pod",
        330,
        Box(110, 165, 180, "a pod ends", ("restartPolicy: ExitCode",)),
        Box(400, 45, 220, "exit code 0", ("the replica has succeeded",), "good"),
        Box(400, 125, 220, "exit code 1 to 127", ("a mistake in the program",), "bad"),
        Box(400, 205, 220, "exit code 128 to 255", ("it was killed",)),
        Box(400, 285, 220, "evicted, preempted, lost", ("a disruption",)),
        Box(660, 125, 170, "the job fails", look="bad"),
        Box(660, 205, 170, "a new pod", ("counts: backoffLimit",), "good"),
        Box(660, 285, 170, "a new pod", ("does not count",), "good"),
        *(Arrow((200, 165), (288, y)) for y in (45, 125, 205, 285)),
        *(Arrow((510, y), (573, y)) for y in (125, 205, 285)),
        Arrow((660, 178), (660, 143), "limit reached", (50, 4)),
    )


def _storage() -> str:
    return draw(
        "Data is read from a volume; checkpoints and model go to a claim that stays, logs to standard output",
        300,
        Box(120, 60, 220, "data", ("a claim, a bucket, the image",), "store"),
        Box(380, 150, 230, "pods of the job", ("gone when the job is deleted",)),
        Box(640, 45, 200, "checkpoints", ("a claim: stays",), "store"),
        Box(640, 150, 210, "model", ("a claim or a bucket: stays",), "store"),
        Box(640, 255, 200, "logs", ("kubectl logs, tfjob logs",), "store"),
        Box(120, 240, 220, "emptyDir, the container", ("gone with the pod",), "bad"),
        Arrow((230, 75), (300, 124), "read", (16, -6)),
        Arrow((496, 130), (538, 66), "write, read", (-46, 0)),
        Arrow((496, 150), (533, 150)),
        Arrow((496, 170), (538, 236), "print", (-30, 10)),
        Arrow((300, 177), (230, 224)),
    )


def _layers() -> str:
    return draw(
        "Layers, downwards: cli, app, client, local, controller; planning, dialects and machinery; job; meta",
        615,
        Box(380, 40, 330, "cli", ("tfjob, kubectl tfjob",)),
        Box(380, 115, 330, "app", ("the process; builds everything",)),
        Box(380, 190, 330, "client", ("jobs from Python",)),
        Box(380, 265, 330, "local", ("API server and node without a cluster",)),
        Box(380, 340, 330, "controller", ("joins planning and machinery",)),
        Box(130, 430, 220, "planning", ("what should happen",), "good"),
        Box(380, 430, 220, "dialects", ("the served APIs",), "good"),
        Box(630, 430, 220, "machinery", ("watch, cache, queue, write",), "store"),
        Box(255, 505, 330, "job", ("a training job of whichever API",), "good"),
        Box(380, 580, 330, "meta", ("keys, owners, times",), "good"),
        *(Arrow((380, y), (380, y + 20)) for y in (67, 142, 217, 292)),
        *(Arrow((380, 367), (x, 402)) for x in (130, 380, 630)),
        *(Arrow((x, 457), (255, 477)) for x in (160, 350)),
        Arrow((255, 532), (340, 552)),
        Arrow((630, 457), (460, 552)),
    )


def _event() -> str:
    return draw(
        "A watch line passes client, reflector, informer, handlers, queue, reconciler, plan; execute writes",
        330,
        Box(110, 40, 200, "API server", look="store"),
        *(Box(110 + 180 * at, 130, 140, title) for at, title in enumerate(("1 client", "2 reflector", "3 informer"))),
        Box(660, 130, 140, "4 handlers"),
        Box(660, 210, 140, "5 queue, loop"),
        Box(470, 290, 140, "6 reconciler"),
        Box(290, 290, 140, "7 plan", look="good"),
        Box(95, 290, 170, "8 execute"),
        Arrow((130, 57), (130, 111), "watch line", (38, 4)),
        *(Arrow((x, 130), (x + 38, 130)) for x in (180, 360)),
        Arrow((540, 130), (588, 130), "key"),
        Arrow((660, 147), (660, 191), "key", (18, 4)),
        Arrow((640, 227), (542, 280)),
        Arrow((400, 290), (362, 290), "Snapshot", (0, -26)),
        Arrow((220, 290), (182, 290), "Plan", (0, -26)),
        Arrow((24, 273), (24, 59), "record, act, confirm", (70, 30)),
        Arrow((182, 280), (588, 215), "requeue after"),
    )


def _local() -> str:
    return draw(
        "tfjob, operator and node reach the server within the process, kubectl by HTTPS",
        270,
        Box(110, 45, 150, "tfjob, operator"),
        Box(110, 135, 150, "node", ("pods as processes",)),
        Box(110, 225, 150, "kubectl"),
        Box(370, 90, 130, "in_process"),
        Box(370, 225, 130, "http"),
        Box(640, 90, 190, "server", ("a state machine",), "good"),
        Box(640, 225, 190, "journal", look="store"),
        Arrow((185, 50), (303, 82), "Transport", (10, -8)),
        Arrow((185, 130), (303, 98), "Transport", (14, 22)),
        Arrow((185, 225), (303, 225), "HTTPS on loopback"),
        Arrow((435, 90), (543, 90)),
        Arrow((435, 215), (543, 112)),
        Arrow((640, 117), (640, 206), "each commit", (42, 4)),
    )
