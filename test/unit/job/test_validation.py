"""Rules of validation, with what they say; golden cases show the others, and what becomes of the job."""

import pytest
from msgspec import structs

from support.jobs.builders import tfjob
from support.jobs.snapshots import job_of
from support.jobs.templates import Template
from tf_operator.job import validation
from tf_operator.job.templates import containers_of, main_containers, main_ports
from tf_operator.job.validation import validate


def test_a_job_is_checked_once_and_another_one_again(monkeypatch):
    checked = []

    def rule(job):
        checked.append(job.uid)
        return iter(())

    monkeypatch.setattr(validation, "_RULES", (rule,))
    job = structs.replace(job_of(tfjob("a").workers(1)), uid="first")
    for each in (job, job, structs.replace(job, uid="second"), job):
        assert validate(each) == ()

    assert checked == ["first", "second"]


def errors(builder):
    return [str(error) for error in validate(job_of(builder))]


@pytest.mark.parametrize(
    "job",
    [
        tfjob("a").workers(1),
        tfjob("job").chief().workers(0).parameter_servers(10000).evaluators(3),
        tfjob("job-1-x").master().backoff_limit(0).deadline(0).ttl(0).startup_deadline(1),
        tfjob("x" * 54).workers(10),
        tfjob().workers(4).parameter_servers().elastic(1, 4, parameterServers={"maxReplicas": 1}),
        tfjob().workers(1).oom_policy("Worker", "8Gi", limit="8Gi"),
        tfjob().workers(1).oom_policy("Worker", "8Gi", percent=400),
    ],
    ids=["small", "large", "least times", "long name", "elastic", "memory at its maximum", "memory without a limit"],
)
def test_a_valid_job_has_no_errors(job):
    assert errors(job) == []


@pytest.mark.parametrize(
    ("job", "beginning"),
    [
        (tfjob().workers(10001), "spec.tfReplicaSpecs.Worker.replicas: must be from 0 to 10000, is 10001"),
        (tfjob().workers(1).backoff_limit(-1), "spec.runPolicy.backoffLimit: must be at least 0, is -1"),
        (tfjob().workers(1).deadline(-1), "spec.runPolicy.activeDeadlineSeconds: must be at least 0, is -1"),
        (tfjob().workers(1).ttl(-1), "spec.runPolicy.ttlSecondsAfterFinished: must be at least 0, is -1"),
        (tfjob().workers(1).startup_deadline(0), "spec.runPolicy.startupDeadlineSeconds: must be at least 1, is 0"),
        (tfjob().workers(1).avoid_nodes(0), "spec.runPolicy.avoidNodes.afterFailures: must be from 1 to 10, is 0"),
        (tfjob().workers(1).avoid_nodes(11), "spec.runPolicy.avoidNodes.afterFailures: must be from 1 to 10, is 11"),
        (tfjob().workers(1).avoid_nodes(None), "spec.runPolicy.avoidNodes.afterFailures: is required"),
        (
            tfjob().workers(1).progress_deadline(59),
            "spec.runPolicy.progressPolicy.deadlineSeconds: must be at least 60, is 59",
        ),
        (
            tfjob().workers(1).progress_deadline(60, reports=False),
            "spec.runPolicy.progressPolicy.deadlineSeconds: needs reports: true",
        ),
        (
            tfjob().workers(1).progress_deadline(None, "Restart"),
            "spec.runPolicy.progressPolicy.action: must not be Restart without deadlineSeconds",
        ),
        (
            tfjob().workers(1).progress_deadline(60, "Stop"),
            "spec.runPolicy.progressPolicy.action: must be one of 'Report', 'Restart', 'Fail', is 'Stop'",
        ),
        (
            tfjob().workers(1).dynamic_workers().restarts_as_a_whole(),
            "spec.runPolicy.restarts.scope: must be Replica with enableDynamicWorker: such workers continue",
        ),
        (
            tfjob().workers(1).merged({"spec": {"runPolicy": {"restarts": {"method": "InPlace"}}}}),
            "spec.runPolicy.restarts.method: must be Recreate unless the scope is Job",
        ),
        (
            tfjob().workers(1, template=Template().main(restartPolicy="Never")).restarts_as_a_whole("InPlace"),
            "spec.runPolicy.restarts.method: must be Recreate where a container 'tensorflow' has a restartPolicy or",
        ),
        (
            tfjob().workers(1).oom_policy("Worker", "8Gi", percent=9),
            "spec.tfReplicaSpecs.Worker.oomPolicy.growthPercent: must be from 10 to 400, is 9",
        ),
        (
            tfjob().chief().workers(1, template=Template().main(restartPolicyRules=[])).restarts_as_a_whole("InPlace"),
            "spec.runPolicy.restarts.method: must be Recreate where a container 'tensorflow' has a restartPolicy or",
        ),
        (
            tfjob().workers(1).oom_policy("Worker", "much"),
            "spec.tfReplicaSpecs.Worker.oomPolicy.maxMemory: must be a quantity, such as 64Gi",
        ),
        (
            tfjob().workers(1).oom_policy("Worker", "7Gi", limit="8Gi"),
            "spec.tfReplicaSpecs.Worker.oomPolicy.maxMemory: must be at least 8Gi, which is the limit in the template",
        ),
        (
            tfjob().workers(5).elastic(2, 4),
            "spec.tfReplicaSpecs.Worker.replicas: must be from 2 to 4, as spec.elasticPolicy has it, is 5",
        ),
        (tfjob().workers(1).elastic(0, 1), "spec.elasticPolicy: must have 0 < minReplicas <= maxReplicas, has 0 and 1"),
        (
            tfjob().workers(1).elastic(1, 1, parameterServers={"maxReplicas": 1}),
            "spec.elasticPolicy.parameterServers: needs replicas of the type PS, and there are none",
        ),
        (tfjob().workers(1).elastic(1, None), "spec.elasticPolicy.maxReplicas: is required"),
        (tfjob("9lives").workers(1), "metadata.name: must be a DNS-1035 label"),
        (tfjob("Upper").workers(1), "metadata.name: must be a DNS-1035 label"),
        (tfjob("x" * 55).workers(1), "metadata.name: is too long"),
        (tfjob("x" * 54).workers(11), "metadata.name: is too long"),
        (
            tfjob().workers(1, template=Template().main(image="")),
            "spec.tfReplicaSpecs.Worker.template.spec.containers: the container 'tensorflow' must have an image",
        ),
        (
            tfjob().workers(1, template=Template().spec(containers=[{"name": "tensorflow", "image": "i"}, {}])),
            "spec.tfReplicaSpecs.Worker.template.spec.containers: a container without a name must have an image",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_error_names_the_field_and_the_rule(job, beginning):
    problems = errors(job)

    assert len(problems) == 1
    assert problems[0].startswith(beginning)


@pytest.mark.parametrize(("percent", "is_possible"), [(9, False), (10, True), (400, True), (401, False)])
def test_a_limit_of_memory_grows_by_a_tenth_to_five_times_as_much(percent, is_possible):
    assert (errors(tfjob().workers(1).oom_policy("Worker", "8Gi", percent=percent)) == []) is is_possible


def test_a_job_that_could_not_be_read_is_not_also_told_that_it_is_empty():
    job = job_of(tfjob().workers(1), {"spec": {"tfReplicaSpecs": 7}})

    assert [str(error) for error in validate(job)] == ["spec.tfReplicaSpecs: must be an object, is 7"]


def test_what_is_no_container_or_port_is_passed_over():
    spec = job_of(tfjob().workers(1)).replicas[0]
    main = {"name": "tensorflow", "ports": ["x", {"name": "a"}, None]}
    spec = structs.replace(spec, template={"spec": {"containers": ["x", main, {"name": "other"}, None]}})

    assert containers_of(spec) == [main, {"name": "other"}]
    assert main_containers(spec, "tensorflow") == [main]
    assert main_ports(spec, "tensorflow") == [{"name": "a"}]
    assert main_ports(spec, "nobody") == []
    assert containers_of(structs.replace(spec, template={"spec": {"containers": 3}})) == []
