"""``tfjob plan`` and a real API server: they accept and refuse the same manifests."""

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from lab.tools.get import programs
from support.api import RefusedError
from support.jobs import manifest_cases
from support.jobs.builders import tfjob
from support.resources import PODS, TFJOBS
from tf_operator.cli import main
from tf_operator.client.manifests import validate
from tf_operator.dialects.kubeflow import v1

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "manifests" / "examples").glob("*.yaml"))
TFJOB = Path(sys.executable).with_name("tfjob")
JOB = tfjob("j").workers(2)


def plan(*arguments, stdin=""):
    return subprocess.run([TFJOB, "plan", *arguments], input=stdin, capture_output=True, text=True, check=False)


@pytest.fixture
def refusal(admin, namespace):
    """Call it with an object: why the API server would not create it, or nothing."""

    async def ask(body, **options):
        path = TFJOBS.path(namespace) if body["kind"] == "TFJob" else PODS.path(namespace)
        try:
            await admin.create(path, body, dryRun="All", **options)
        except RefusedError as error:
            return str(error)
        return ""

    return ask


def first_job(text):
    """As kubectl sends it: 3.0 is 3."""
    decoder = json.JSONDecoder(
        parse_float=lambda digits: int(float(digits)) if float(digits) % 1 == 0 else float(digits)
    )
    job, _ = decoder.raw_decode(text)
    return job


def pod_of(job):
    """A pod of the template of the first type of replica."""
    template = next(iter(job["spec"]["tfReplicaSpecs"].values()))["template"]
    metadata = {"name": "p"} | template.get("metadata", {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def random_job(random):
    """A job that may break each rule of the CRD, mostly near the bounds.

    It is sparse, and only workers are very many: the API server cannot know the size of TF_CONFIG.
    """

    def one_of(usual, *rare):
        return random.choice([usual] * 12 + list(rare))

    def replicas(kind):
        containers = [
            {"name": name, "image": one_of("i", "", None)}
            for name in one_of(["tensorflow"], ["tensorflow", "side"], ["side"], ["side", "side"], [])
        ]
        return {
            "replicas": one_of(1, None, 0, 2, 11, 10000 if kind == "Worker" else 1, 10001, -1),
            "template": {"spec": {"containers": containers}},
        }

    types = one_of(
        ["Worker"], ["chief"], ["Master", "ps"], ["Chief", "Master"], ["PS", "Ps"], ["Evaluator", "Boss"], []
    )
    name = one_of("a", "1", "-") + "b" * random.choice([0, 9, *range(45, 55)]) + one_of("c", "1", "-", ".", "C")
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"tfReplicaSpecs": {kind: replicas(kind) for kind in types}, "tfConfigFormat": "Sparse"},
    }


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_kubectl_takes_all_objects_of_every_example(kubectl, namespace, path):
    planned = plan("-f", str(path), "-o", "yaml", "-n", namespace)
    assert planned.returncode == 0, planned.stderr

    taken = kubectl("apply", "--dry-run=server", "-f", "-", "-o", "name", stdin=planned.stdout)

    assert taken.count("pod/") == taken.count("service/") == planned.stdout.count("kind: Pod\n") > 0


@pytest.mark.parametrize("case", manifest_cases.GOOD + manifest_cases.BAD, ids=lambda case: case.name)
async def test_the_plan_has_errors_if_the_api_server_refuses_the_job_or_its_pod(refusal, case, capsys, tmp_path):
    (tmp_path / "job").write_text(case.text)

    code = main.main(["plan", "-f", str(tmp_path / "job")])

    job = first_job(case.text)
    refused = await refusal(job) or await refusal(pod_of(job), fieldValidation="Ignore")
    assert code == bool(refused), (refused, capsys.readouterr().err)


async def test_the_plan_and_the_api_server_agree_on_random_jobs(refusal):
    random = Random(1)
    jobs = [random_job(random) for _ in range(300)]
    refusals = [await refusal(job) for job in jobs]
    errors = [validate.check(job).errors for job in jobs]

    assert 50 < sum(map(bool, refusals)) < 250
    assert [case for case in zip(jobs, refusals, errors, strict=True) if bool(case[1]) != bool(case[2])] == []


async def test_each_rule_of_the_crd_for_new_jobs_refuses_one_of_these_manifests(refusal):
    (version,) = v1.API.crd.load()["spec"]["versions"]
    rules = version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]
    for_new_jobs = [rule for rule in rules if rule.get("optionalOldSelf") or "oldSelf" not in rule["rule"]]
    refusals = [await refusal(first_job(case.text)) for case in manifest_cases.BROKEN_RULES]
    # Before Kubernetes 1.35 the server also prints of which type the value is.
    refusals = [text.replace('Invalid value: "object": ', "Invalid value: ") for text in refusals]

    # The server prints the longer message of messageExpression, if there is one, which begins with the same words.
    messages = [
        (it["fieldPath"][1:], it["message"][: 11 if "messageExpression" in it else None]) for it in for_new_jobs
    ]
    beginnings = {f"{field}: Invalid value: {message}" for field, message in messages}
    assert len(beginnings) == len(for_new_jobs)
    assert {begin for begin in beginnings if not any(begin in refused for refused in refusals)} == set()


@pytest.mark.programs("kubectl")
def test_kubectl_finds_it_as_a_plugin():
    kubectl = programs("kubectl")["kubectl"]
    path = f"{TFJOB.parent}{os.pathsep}{os.environ['PATH']}"
    command = [kubectl, "tfjob", "plan", "-f", "-"]

    planned = subprocess.run(
        command,
        input=json.dumps(JOB.body()),
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )

    assert planned.stdout.startswith("TFJob default/j: ")


def test_whoever_has_seen_enough_of_a_plan_may_stop_reading():
    manifest = json.dumps(tfjob("j").workers(500).body())
    reader = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{TFJOB} plan -f - -o yaml | head -n 1"],
        input=manifest,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (reader.returncode, reader.stdout, reader.stderr) == (141, "# TFJob default/j\n", "")
