"""TensorBoard objects: which folders are mounted where, and what is said of those that cannot be."""

import pytest

from tf_operator.dialects.tensorboard import v1beta1
from tf_operator.job.tensorboard import TensorBoardPhase

UNSUPPORTED = "is not supported: logs have to be in a claim"
FILESET = f"{UNSUPPORTED}, as t9k://pvc/CLAIM/PATH"
FOLDER = "must name a claim and a folder in it, without '..'"


def read(**spec):
    return v1beta1.read("t", {"image": "i", **spec})


def test_each_folder_is_mounted_once_below_the_logs_and_each_claim_is_one_volume():
    board = read(
        trainingLogFilesets=["t9k://pvc/a/x/y/", "t9k://pvc/b", "t9k://pvc/a/x/./y"],
        logDir={"pvc": [{"name": "a", "subPath": ["z", "x/y"]}, {"name": "c"}]},
        suspend=True,
    )
    claims = [(volume["name"], volume["persistentVolumeClaim"]["claimName"]) for volume in board.volumes]
    assert claims == [("logs-0", "a"), ("logs-1", "b"), ("logs-2", "c")]
    places = [(mount["name"], mount["mountPath"], mount.get("subPath")) for mount in board.mounts]
    assert places == [
        ("logs-0", "/logs/a/x/y", "x/y"),
        ("logs-1", "/logs/b", None),
        ("logs-0", "/logs/a/z", "z"),
        ("logs-2", "/logs/c", None),
    ]
    assert all(mount["readOnly"] for mount in board.mounts)
    assert (board.problems, board.is_suspended) == ((), True)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"image": ""}, "spec.image: must be the image that has TensorBoard"),
        ({"trainingLogFilesets": ["t9k://minio/s/b/p"]}, f"spec.trainingLogFilesets[0]: {FILESET}"),
        ({"trainingLogFilesets": [7]}, f"spec.trainingLogFilesets[0]: {FILESET}"),
        ({"trainingLogFilesets": ["t9k://pvc//x"]}, f"spec.trainingLogFilesets[0]: {FOLDER}"),
        ({"trainingLogFilesets": ["t9k://pvc/a/../x"]}, f"spec.trainingLogFilesets[0]: {FOLDER}"),
        ({"logDir": {"s3": {"uri": ["s3://a"]}}}, f"spec.logDir.s3: {UNSUPPORTED}"),
        ({"logDir": {"http": {"url": ["http://a"]}}}, f"spec.logDir.http: {UNSUPPORTED}"),
        ({"logDir": {"pvc": [{"subPath": ["x"]}]}}, f"spec.logDir.pvc[0].subPath: {FOLDER}"),
        ({"logDir": {"pvc": [{"name": "a", "subPath": [7]}]}}, f"spec.logDir.pvc[0].subPath: {FOLDER}"),
        ({"logDir": "/logs"}, "spec.logDir: must be an object, is '/logs'"),
        (
            {"logDir": {"pvc": [{"name": "a", "subPath": [str(number) for number in range(65)]}]}},
            "spec.logDir: must have at most 64 folders with trainingLogFilesets, has 65",
        ),
    ],
)
def test_what_cannot_be_shown_is_named_with_its_rule(spec, problem):
    assert read(**spec).problems == (problem,)


def test_a_tensorboard_may_have_64_folders():
    assert not read(logDir={"pvc": [{"name": "a", "subPath": [str(number) for number in range(64)]}]}).problems


def test_of_very_many_problems_a_few_are_named():
    board = read(logDir={"pvc": [{"name": "a", "subPath": [".."] * 64}] * 64})

    assert board.problems == (f"spec.logDir.pvc[0].subPath: {FOLDER}",) * 5 + ("and 4091 more",)


def test_a_malformed_spec_is_a_value_with_problems():
    for spec in (None, "text", {"trainingLogFilesets": "x", "resources": [], "suspend": "yes"}):
        assert v1beta1.read("t", spec).problems


def test_what_others_keep_in_a_status_stays():
    stored = {"phase": "Running", "url": "u", "theirs": 1}
    assert v1beta1.status(TensorBoardPhase.PENDING, url="", message="m", stored_status=stored) == {
        "theirs": 1,
        "phase": "Pending",
        "message": "m",
    }
