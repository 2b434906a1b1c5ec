"""From what was observed of a TensorBoard to what is to be done: a Deployment of one pod, and a Service before it.

``plan`` is pure, as the plan of a job is. Each child carries a digest of what was wanted of it when it was written
last: edits are found by it, without comparing what the API server has added. A child counts only if it is controlled by
the owner; a foreign one of the same name makes the create fail, and the status says so.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tf_operator.job.profile import OPERATOR_LABEL
from tf_operator.job.tensorboard import OPERATOR_NAME, PORT, TensorBoard, TensorBoardPhase
from tf_operator.meta import GroupVersionResource, OwnerRef
from tf_operator.planning.actions import Action, Create, Delete, Patch
from tf_operator.planning.bodies.children import SERVICES
from tf_operator.planning.child_kinds.kind import DIGEST, digest
from tf_operator.text import LONGEST_MESSAGE, one_line

DEPLOYMENTS: Final = GroupVersionResource("apps", "v1", "deployments", "Deployment")
SELECTOR: Final = f"{OPERATOR_LABEL}={OPERATOR_NAME}"
"""All children of all TensorBoards."""
_NAME: Final = "tensorboard"
_PORT_NAME: Final = "http"


@dataclass(frozen=True, slots=True)
class TensorBoardChild:
    """The Deployment or the Service, as far as it matters."""

    name: str
    uid: str
    digest: str = ""
    is_terminating: bool = False
    is_available: bool = False
    """Of a Deployment: its pod is ready."""
    message: str = ""
    """Of a Deployment: why it has no pod."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything about one TensorBoard at one moment."""

    namespace: str
    owner: OwnerRef
    board: TensorBoard | None
    """``None``: not any more."""
    deployments: tuple[TensorBoardChild, ...] = ()
    services: tuple[TensorBoardChild, ...] = ()
    has_ended: bool = False
    """The job has: what is there stays, and nothing is created."""
    rejected: str = ""
    """What the API server said to the last attempt, if it refused something."""
    cluster_domain: str = ""


@dataclass(frozen=True, slots=True)
class TensorBoardPlan:
    """What is to be done, and what the status says."""

    actions: tuple[Action, ...] = ()
    phase: TensorBoardPhase = TensorBoardPhase.PENDING
    url: str = ""
    message: str = ""


def plan(observed: Observed) -> TensorBoardPlan:
    board = observed.board
    if board is None or board.problems:
        problems = one_line("; ".join(board.problems), most=LONGEST_MESSAGE) if board else ""
        return TensorBoardPlan(tuple(_removals(observed, in_use="")), message=problems)
    running, service = (_find(board.name, children) for children in (observed.deployments, observed.services))
    is_served = service is not None and not service.is_terminating
    is_running = is_served and running is not None and running.is_available and not board.is_suspended
    host = ".".join(filter(None, (board.name, observed.namespace, "svc", observed.cluster_domain)))
    return TensorBoardPlan(
        actions=(*_removals(observed, in_use=board.name), *_writes(observed, board)),
        phase=TensorBoardPhase.RUNNING if is_running else TensorBoardPhase.PENDING,
        url=f"http://{host}" if is_running else "",
        message=one_line(_message(observed, running, board), most=LONGEST_MESSAGE),
    )


def _message(observed: Observed, running: TensorBoardChild | None, board: TensorBoard) -> str:
    """What is wrong, also while the pod of an earlier spec runs."""
    return observed.rejected or ("it is suspended" if board.is_suspended else running.message if running else "")


def _find(name: str, children: Iterable[TensorBoardChild]) -> TensorBoardChild | None:
    return next((child for child in children if child.name == name), None)


def _removals(observed: Observed, *, in_use: str) -> Iterator[Action]:
    for resource, children in ((DEPLOYMENTS, observed.deployments), (SERVICES, observed.services)):
        for child in children:
            if child.name != in_use and not child.is_terminating:
                yield Delete(resource, child.name, child.uid)


def _writes(observed: Observed, board: TensorBoard) -> Iterator[Action]:
    bodies = (
        (SERVICES, observed.services, _service_spec(board)),
        (DEPLOYMENTS, observed.deployments, _deployment_spec(board)),
    )
    for resource, children, spec in bodies:
        spec_digest, subject = digest(spec), f"{resource.kind} {board.name}"
        child = _find(board.name, children)
        if child is None and not observed.has_ended:
            yield Create(resource, board.name, subject, partial(_body, observed, board, spec))
        elif child and child.digest != spec_digest and not child.is_terminating:
            change = {"metadata": {"annotations": {DIGEST: spec_digest}}, "spec": spec}
            yield Patch(resource, board.name, child.uid, f"the change of {subject}", change)


def labels(board: TensorBoard) -> dict[str, str]:
    """What its children and its pod carry; also the selector of both."""
    return {OPERATOR_LABEL: OPERATOR_NAME, "app.kubernetes.io/name": _NAME, "app.kubernetes.io/instance": board.name}


def _body(observed: Observed, board: TensorBoard, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {
            "name": board.name,
            "namespace": observed.namespace,
            "labels": labels(board),
            "annotations": {DIGEST: digest(spec)},
            "ownerReferences": [observed.owner.body()],
        },
        "spec": dict(spec),
    }


def _service_spec(board: TensorBoard) -> dict[str, Any]:
    ports = [{"name": _PORT_NAME, "port": 80, "targetPort": PORT, "protocol": "TCP"}]
    return {"type": "ClusterIP", "selector": labels(board), "ports": ports}


def _deployment_spec(board: TensorBoard) -> dict[str, Any]:
    """Each field is there in any case: a merge patch takes away what is left out of an object only by ``null``."""
    container = {
        "name": _NAME,
        "image": board.image,
        "command": list(board.command),
        "ports": [{"name": _PORT_NAME, "containerPort": PORT}],
        "resources": dict(board.resources),
        "volumeMounts": list(board.mounts),
        "readinessProbe": {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 5},
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    pod = {
        "containers": [container],
        "volumes": list(board.volumes),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
    }
    return {
        "replicas": 0 if board.is_suspended else 1,
        # A claim that only one node may mount is not mounted by two pods at once.
        "strategy": {"type": "Recreate", "rollingUpdate": None},
        "selector": {"matchLabels": labels(board)},
        "template": {"metadata": {"labels": labels(board)}, "spec": pod},
    }
