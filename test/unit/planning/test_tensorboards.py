"""What is done for one TensorBoard: a table of what is there, and what is written."""

from dataclasses import replace

import pytest

from tf_operator.job.tensorboard import TensorBoard
from tf_operator.meta import OwnerRef
from tf_operator.planning import tensorboards
from tf_operator.planning.actions import Create, Delete, Patch
from tf_operator.planning.child_kinds.kind import DIGEST
from tf_operator.planning.tensorboards import Observed, TensorBoardChild

OWNER = OwnerRef("tensorstack.dev/v1beta1", "TensorBoard", "t", "u", controller=True, block_owner_deletion=True)
BOARD = TensorBoard("t", "i", ("tensorboard",))
NEW = Observed("team", OWNER, BOARD)


def bodies(observed):
    return {action.resource.kind: action.body() for action in tensorboards.plan(observed).actions}


def cluster(board=BOARD, **deployment):
    """What is there after the plan for this board was carried out."""
    children = {
        kind: TensorBoardChild(board.name, f"uid-of-{kind}", body["metadata"]["annotations"][DIGEST])
        for kind, body in bodies(replace(NEW, board=board)).items()
    }
    running = replace(children["Deployment"], **deployment)
    return replace(NEW, deployments=(running,), services=(children["Service"],))


def words(observed):
    names = {Create: "create", Patch: "patch", Delete: "delete"}
    return [f"{names[type(write)]} {write.resource.kind} {write.name}" for write in tensorboards.plan(observed).actions]


GONE = replace(cluster(), deployments=(), services=())
CREATES = ["create Service t", "create Deployment t"]
DELETES = ["delete Deployment t", "delete Service t"]


@pytest.mark.parametrize(
    ("observed", "actions"),
    [
        pytest.param(NEW, CREATES, id="new"),
        pytest.param(cluster(), [], id="made"),
        pytest.param(replace(GONE, has_ended=True), [], id="of a job that has ended"),
        pytest.param(
            replace(cluster(), board=replace(BOARD, image="other"), has_ended=True), ["patch Deployment t"], id="edited"
        ),
        pytest.param(
            replace(cluster(), services=(replace(cluster().services[0], digest="old"),)),
            ["patch Service t"],
            id="other Service",
        ),
        pytest.param(
            replace(cluster(), board=replace(BOARD, name="x")),
            [*DELETES, "create Service x", "create Deployment x"],
            id="other name",
        ),
        pytest.param(replace(cluster(), board=None), DELETES, id="not wanted"),
        pytest.param(replace(cluster(), board=replace(BOARD, problems=("no",))), DELETES, id="invalid now"),
        pytest.param(replace(cluster(is_terminating=True), board=None), ["delete Service t"], id="terminating"),
        pytest.param(
            replace(cluster(is_terminating=True), board=replace(BOARD, image="x")), [], id="waits for its end"
        ),
    ],
)
def test_children_follow_what_is_wanted(observed, actions):
    assert words(observed) == actions


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (NEW, ("Pending", "", "")),
        (cluster(message="exceeded quota"), ("Pending", "", "exceeded quota")),
        (cluster(is_available=True), ("Running", "http://t.team.svc", "")),
        (replace(cluster(is_available=True), cluster_domain="c.local"), ("Running", "http://t.team.svc.c.local", "")),
        (replace(NEW, rejected="taken"), ("Pending", "", "taken")),
        (
            replace(cluster(is_available=True), board=replace(BOARD, is_suspended=True)),
            ("Pending", "", "it is suspended"),
        ),
        (replace(NEW, board=replace(BOARD, problems=("a", "b"))), ("Pending", "", "a; b")),
        (replace(NEW, board=replace(BOARD, problems=("x\n" * 9999,))), ("Pending", "", "x " * 510 + "x...")),
        (replace(NEW, rejected="x\n" * 9999), ("Pending", "", "x " * 510 + "x...")),
        (replace(cluster(is_available=True), rejected="not so"), ("Running", "http://t.team.svc", "not so")),
        (replace(cluster(is_available=True), services=()), ("Pending", "", "")),
        (replace(cluster(is_available=True), services=cluster(is_terminating=True).deployments), ("Pending", "", "")),
    ],
)
def test_the_status_says_whether_it_runs_and_what_is_wrong(observed, expected):
    plan = tensorboards.plan(observed)
    assert (plan.phase, plan.url, plan.message) == expected


def test_a_pod_runs_behind_a_service_and_can_do_nothing_in_the_cluster():
    mount = {"name": "v", "mountPath": "/logs/a", "readOnly": True}
    board = replace(BOARD, volumes=({"name": "v"},), mounts=(mount,), resources={"limits": {"cpu": 1}})
    children = bodies(replace(NEW, board=board))
    service, deployment = children["Service"]["spec"], children["Deployment"]["spec"]
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    assert deployment["replicas"] == 1
    assert service["selector"] == deployment["selector"]["matchLabels"] == deployment["template"]["metadata"]["labels"]
    assert [(port["port"], port["targetPort"]) for port in service["ports"]] == [(80, 6006)]
    assert (pod["volumes"], container["volumeMounts"]) == ([{"name": "v"}], [mount])
    assert (container["command"], container["resources"]) == (["tensorboard"], {"limits": {"cpu": 1}})
    assert pod["automountServiceAccountToken"] is False
    assert children["Service"]["metadata"]["ownerReferences"] == [OWNER.body()]
