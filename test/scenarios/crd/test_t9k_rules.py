"""What the API server says of a TensorFlowTrainingJob: the documented manifests, and each rule with its sentence."""

import asyncio

import pytest

from support.api import RefusedError
from support.jobs import t9k
from support.jobs.t9k import documented, job, over, replicas
from support.resources import TRAINING_JOBS

EXAMPLE = documented("tensorflow-example")
FRAGMENTS = sorted(path.stem for path in (t9k.ROOT / "manifests/examples/t9k/fragments").iterdir())
SPECS, DEBUG, RESUME = "spec.replicaSpecs", "spec.runMode.debug", "spec.runMode.pause.resumeSpecs"
SSHD = {"type": "worker", "command": ["/usr/bin/sshd"]}


def mode(**modes):
    return {"spec": {"runMode": modes}}


@pytest.fixture
async def changes(admin, namespace):
    """Create a job and change it; the last object as it is stored, or the complaints by field."""
    await t9k.serve(admin)

    async def change(body, *patches):
        try:
            stored = await admin.create(TRAINING_JOBS.path(namespace), body)
            for patch in patches:
                stored = await admin.patch(TRAINING_JOBS.path(namespace, body["metadata"]["name"]), patch)
        except RefusedError as refusal:
            return refusal.complaints
        return stored

    return change


@pytest.mark.documents(
    "t9k/printed-resources",
    "t9k/printed-shared-memory",
    "t9k/printed-environment",
    "t9k/printed-scheduler",
    "t9k/printed-tensorboard",
    "t9k/printed-debug",
    "t9k/printed-debug-defaults",
    "t9k/printed-pause",
    "t9k/printed-pause-defaults",
)
@pytest.mark.parametrize("name", FRAGMENTS)
async def test_every_fragment_of_the_manual_is_accepted_over_its_example(changes, name):
    stored = await changes(over(EXAMPLE, documented(f"fragments/{name}")))

    assert stored["kind"] == "TensorFlowTrainingJob"
    assert (stored["spec"]["replicaSpecs"][0]["replicas"], stored["spec"]["runPolicy"]) == (
        4,
        {"cleanUpPolicy": "None"},
    )


@pytest.mark.documents("t9k/types")
@pytest.mark.parametrize(
    ("body", "field", "complaint"),
    [
        (job("t", replicas("chief", 2)), SPECS, "can have at most 1 replica of the type chief"),
        (job("t", replicas("master")), f"{SPECS}[0].type", 'Unsupported value: "master"'),
        (job("t", replicas("worker"), replicas("worker")), f"{SPECS}[1]", "Duplicate value"),
        (job("t", replicas("worker", 1500), replicas("ps", 501)), SPECS, "can have at most 2000 replicas in all"),
        (
            job("t", scheduler={"t9kScheduler": {"priority": 101}}),
            "spec.scheduler.t9kScheduler.priority",
            "equal to 100",
        ),
        (job("t", runPolicy={"activeDeadlineSeconds": 0}), "spec.runPolicy.activeDeadlineSeconds", "or equal to 1"),
        (job("0t"), "metadata.name", "has to start with a lower-case letter"),
        (job("t" * 56), "metadata.name", "is too long: Services are named"),
    ],
)
async def test_what_makes_no_job_is_refused_with_its_own_sentence(changes, body, field, complaint):
    complaints = await changes(body)

    assert set(complaints) - {"<nil>"} == {field}  # rules are not asked where the schema is not met
    assert complaint in complaints[field]


async def test_a_template_needs_the_container_that_trains(changes):
    other = replicas("ps")
    other["template"]["spec"]["containers"][0]["name"] = "other"

    sentence = "needs a container named tensorflow in the template of ps: it is the one that trains"
    assert await changes(job("t", replicas("worker"), other)) == {SPECS: f"Invalid value: {sentence}"}


@pytest.mark.documents("t9k/pause-changes")
@pytest.mark.parametrize(
    ("run_mode", "patch", "field"),
    [
        ({}, mode(pause={"resumeSpecs": [SSHD]}), RESUME),
        ({"pause": {"resumeSpecs": [SSHD]}}, mode(pause={"resumeSpecs": None}), RESUME),
        ({"pause": {"resumeSpecs": [SSHD], "enabled": True}}, mode(pause={"resumeSpecs": []}), RESUME),
        ({"pause": {"resumeSpecs": [SSHD]}}, mode(pause={"enabled": True}), None),
        ({}, mode(debug={"enabled": True}), DEBUG),
        ({"pause": {"enabled": True}}, mode(debug={"enabled": True}), None),
        ({}, mode(debug={"enabled": True}, pause={"enabled": True}), None),
        ({}, {"spec": {"replicaSpecs": [replicas("worker", 3)]}}, SPECS),
        ({"pause": {"enabled": True}}, {"spec": {"replicaSpecs": [replicas("worker", 3)]}}, None),
    ],
)
async def test_modes_and_replicas_change_only_when_no_pod_contradicts_them(changes, run_mode, patch, field):
    answer = await changes(job("t", replicas("worker", 2), runMode=run_mode), patch)

    assert ("metadata" in answer) if field is None else (list(answer) == [field])


async def test_kubectl_shows_phase_restarts_and_age(changes, admin, namespace, kubectl):
    await changes(job("t"))
    status = {"phase": "Running", "backoffCount": 3, "aggregate": {"running": 2, "failed": 1}}
    await admin.patch(TRAINING_JOBS.path(namespace, "t", "status"), {"status": status})
    heads, row = (line.split() for line in (await asyncio.to_thread(kubectl, "get", "tj", "-o", "wide")).splitlines())

    assert heads == ["NAME", "PHASE", "RESTARTS", "AGE", "RUNNING", "FAILED"]
    assert [*row[:3], *row[4:]] == ["t", "Running", "3", "2", "1"]
