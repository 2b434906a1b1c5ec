"""How a job may end, in sentences."""

import pytest

from support.jobs import t9k
from support.jobs.builders import tfjob
from support.jobs.templates import Template
from tf_operator.client.manifests import validate
from tf_operator.client.plan import dry_run
from tf_operator.planning.snapshot import DEFAULT_SETTINGS, Settings

WORKERS = tfjob("j").workers(2)
NEVER = "never: under restartPolicy Always, {} is started again after exit code 0 too"


def sentences(builder, settings=DEFAULT_SETTINGS):
    return list(dry_run.run(validate.check(builder.body()).job, settings).sentences)


@pytest.mark.parametrize(
    ("builder", "sentence"),
    [
        pytest.param(WORKERS.chief(), "when the chief has exited with code 0", id="a chief"),
        pytest.param(WORKERS.master(), "when the master has exited with code 0", id="a master"),
        pytest.param(WORKERS, "when worker 0 has exited with code 0, or all workers have", id="workers"),
        pytest.param(tfjob("j").workers(1), "when worker 0 has exited with code 0", id="one worker"),
        pytest.param(WORKERS.success_policy(), "when all workers have exited with code 0", id="all workers"),
        pytest.param(
            tfjob("j").parameter_servers(2), "when all replicas have exited with code 0", id="neither chief nor worker"
        ),
        pytest.param(WORKERS.chief(restart="Always"), NEVER.format("Chief"), id="a chief under Always"),
        pytest.param(tfjob("j").workers(2, restart="Always"), NEVER.format("Worker"), id="workers under Always"),
        pytest.param(
            tfjob("j").evaluators().parameter_servers(2, restart="Always"), NEVER.format("PS"), id="others under Always"
        ),
        pytest.param(
            WORKERS.parameter_servers(2, restart="Always"),
            "when worker 0 has exited with code 0, or all workers have",
            id="Always where it does not decide",
        ),
        pytest.param(tfjob("j").workers(0), "at once: it has no replicas", id="no replicas"),
        pytest.param(tfjob("j").workers(0).dynamic_workers(), "not before it has replicas", id="no replicas yet"),
    ],
)
def test_the_condition_of_success_is_explained(builder, sentence):
    assert sentences(builder)[0] == ("Succeeds", sentence)


@pytest.mark.parametrize(
    ("policy", "beginning"),
    [
        (
            "Never",
            "Worker (Never): the first one ends the job, and so does the loss of a pod that ran, as when its node is",
        ),
        ("OnFailure", "Worker (OnFailure): containers are restarted in place"),
        ("Always", "Worker (Always): containers are restarted in place, also after exit code 0"),
        ("ExitCode", "Worker (ExitCode): exit codes 128 to 255 and lost pods: the pod is replaced"),
    ],
)
def test_the_consequence_of_a_failure_is_explained(policy, beginning):
    (sentence,) = [text for word, text in sentences(tfjob("j").workers(2, restart=policy)) if word == "Failures"]

    assert sentence.startswith(beginning)


@pytest.mark.parametrize(
    ("limit", "most", "sentence"),
    [
        ("8Gi", "20Gi", "of Worker: 8Gi, 12Gi, 18Gi, 20Gi; each OOM kill before the last limit is tried again, and"),
        ("1Gi", "64Gi", "of Worker: 1Gi, 1536Mi, 2304Mi, 3456Mi, ..., 64Gi; each OOM kill before"),
        ("", "64Gi", "of Worker: its container has no limit, so oomPolicy has no effect"),
    ],
)
def test_the_limits_of_memory_after_oom_kills_are_listed(limit, most, sentence):
    job = tfjob("j").workers(2).oom_policy("Worker", most, limit=limit)

    (text,) = [text for word, text in sentences(job) if word == "Memory"]

    assert text.startswith(sentence)


def ruled(policy, *rules, restart="Never"):
    """A job whose container says this of its restarts."""
    listed = [
        {"action": action, "exitCodes": {"operator": operator, "values": codes}} for action, operator, codes in rules
    ]
    own = {"restartPolicy": policy} | ({"restartPolicyRules": listed} if listed else {})
    return tfjob("j").workers(1, restart=restart, template=Template().main(**own))


OWN = "its own restartPolicy Never, not that of the replica"
TOGETHER = "start all containers of the pod again (Kubernetes 1.36)"
UNLIMITED = "without a limit: set backoffLimit"
COUNTS = "each restart counts towards backoffLimit"
IN_42, ALL_75 = ("Restart", "In", [42]), ("RestartAllContainers", "In", [75])


@pytest.mark.parametrize(
    ("builder", "sentence"),
    [
        (
            ruled("Never", IN_42).backoff_limit(3),
            f"exit codes 42 start it again in place; others follow {OWN}; {COUNTS} 3",
        ),
        (
            ruled("Never", IN_42, ALL_75, restart="ExitCode"),
            f"exit codes 42 start it again in place; exit codes 75 {TOGETHER}; others follow {OWN}; {UNLIMITED}",
        ),
        (ruled("Never"), f"{OWN}; {UNLIMITED}"),
        (
            ruled("Never", ("Restart", "NotIn", [0, 1])).backoff_limit(1),
            f"exit codes 2 to 255 start it again in place; others follow {OWN}; {COUNTS} 1",
        ),
    ],
    ids=["a rule", "two rules", "a policy", "all codes but"],
)
def test_the_rules_of_a_container_are_explained_with_what_they_do_to_the_limit(builder, sentence):
    assert dict(sentences(builder))["Restarts"] == f"Worker, container tensorflow: {sentence}"


def test_the_rules_of_other_containers_are_explained_where_they_restart_all():
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [75]}}
    side = {"name": "side", "image": "i", "restartPolicy": "Always"}
    template = Template().spec(initContainers=[{**side, "name": "other"}, {**side, "restartPolicyRules": [rule]}])

    (sentence,) = [text for word, text in sentences(tfjob("j").workers(1, template=template)) if word == "Restarts"]

    assert sentence.startswith("Worker, container side: exit codes 75 start all containers of the pod again")


@pytest.mark.parametrize(
    ("builder", "sentence"),
    [
        (ruled("Always"), "never: by the rules of its container, Worker is started again after exit code 0 too"),
        (ruled("Never", restart="Always"), "when worker 0 has exited with code 0"),
        (
            ruled("Always", restart="Always"),
            "never: under restartPolicy Always, Worker is started again after exit code",
        ),
    ],
)
def test_a_job_whose_container_is_restarted_after_its_success_does_not_succeed(builder, sentence):
    assert sentences(builder)[0][1].startswith(sentence)


def test_each_limit_of_the_job_is_listed():
    limits = [
        text for word, text in sentences(WORKERS.backoff_limit(3).deadline(60).startup_deadline(5)) if word == "Limit"
    ]

    assert limits == [
        "3 restarts in all, then the job fails (backoffLimit)",
        "60 s from its start, then the job fails (activeDeadlineSeconds)",
        "all replicas must run within 5 s from its start, or the job fails (startupDeadlineSeconds)",
    ]
    assert not [text for word, text in sentences(WORKERS) if word == "Limit"]


@pytest.mark.parametrize("policy", ["None", "Running", "All"])
def test_the_clean_up_is_explained(policy):
    assert dict(sentences(WORKERS.clean_pods(policy)))["Clean-up"].startswith(f"cleanPodPolicy {policy}: ")


def test_the_deletion_is_explained():
    assert dict(sentences(WORKERS.ttl(60)))["Deletion"] == "of the job and its remaining objects, 60 s after its end"


@pytest.mark.parametrize(
    ("builder", "when"),
    [
        pytest.param(WORKERS, "a change", id="in step"),
        pytest.param(WORKERS.parameter_servers(), "growth", id="with parameter servers"),
        pytest.param(WORKERS.dynamic_workers(), "nothing", id="dynamic"),
        pytest.param(WORKERS.tf_config_format("Sparse"), "nothing", id="sparse"),
    ],
)
def test_elastic_ranges_are_mentioned(builder, when):
    (sentence,) = [text for word, text in sentences(builder.elastic(1, 4)) if word == "Elastic"]

    assert sentence == f"from 1 to 4 replicas of Worker while it runs; {when} replaces the other pods"


def test_a_restart_in_place_is_mentioned():
    text = dict(sentences(WORKERS.elastic(1, 4, restartInPlace=True)))["Elastic"]

    assert "a change restarts the other pods in place, or replaces them without --restart-in-place" in text


def test_a_resize_in_place_leaves_no_time():
    grace = {"spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"terminationGracePeriodSeconds": 31}}}}}}
    text = dict(sentences(WORKERS.elastic(1, 4, restartInPlace=True).merged(grace)))["Elastic"]

    assert text.endswith("; the preStop hook or grace period of Worker is ignored in place")


HOOK = {"sleep": {"seconds": 1}}
GRACE = "; the preStop hook or grace period of Worker is ignored: method Recreate keeps it"


@pytest.mark.parametrize(
    ("pod", "note"),
    [
        ({"terminationGracePeriodSeconds": 30}, ""),
        ({"terminationGracePeriodSeconds": 31}, GRACE),
        ({"containers": [{"name": "tensorflow", "image": "i", "lifecycle": {"postStart": HOOK}}]}, ""),
        ({"containers": [{"name": "tensorflow", "image": "i", "lifecycle": {"preStop": HOOK}}]}, GRACE),
    ],
)
def test_a_restart_of_the_whole_job_in_place_leaves_no_time(pod, note):
    builder = WORKERS.restarts_as_a_whole("InPlace").merged(
        {"spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": pod}}}}}
    )

    sentence = "with --restart-in-place (Kubernetes 1.36) pods stay, and their containers are killed at once"
    assert ("Failures", sentence + note) in sentences(builder)


def test_dynamic_workers_are_mentioned():
    assert "their number may change" in dict(sentences(WORKERS.dynamic_workers()))["Workers"]


def test_a_gang_is_mentioned():
    texts = dict(sentences(WORKERS, Settings(gang_scheduler="volcano")))

    assert texts["Gang"] == "volcano starts 2 pods together, or none"


def test_where_the_template_decides_only_the_deciding_replica_can_fail_the_job():
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
    spec = {"replicaSpecs": [{"template": template}, {"tfReplicaType": "WORKER", "template": template}]}
    body = {"apiVersion": "mlkube.io/v1beta1", "kind": "TfJob", "metadata": {"name": "j"}, "spec": spec}

    pairs = list(dry_run.run(validate.check(body).job, DEFAULT_SETTINGS).sentences)

    assert pairs[:3] == [
        ("Succeeds", "when master 0 has exited with code 0"),
        ("Failures", "MASTER 0: exit codes 1 to 128, 139 and too little memory end the job; else it runs again"),
        ("Failures", "other replicas run again whenever they fail or are lost; after exit code 0 only under Always"),
    ]
    assert pairs[3][1].startswith("without cleanupPodPolicy: pods that still run are stopped; ")


def test_limits_and_clean_up_are_explained_in_the_words_and_by_the_rules_of_the_api():
    body = t9k.job("j", runPolicy={"backoffLimit": 3, "cleanUpPolicy": "Unfinished"})

    texts = dict(dry_run.run(validate.check(body).job, DEFAULT_SETTINGS).sentences)

    assert texts["Limit"] == "3 restarts in all, then nothing is restarted (backoffLimit)"
    assert texts["Clean-up"].startswith("cleanUpPolicy Unfinished: pods that still run and all Services are deleted; ")


@pytest.mark.parametrize(
    ("builder", "sentence"),
    [
        (
            WORKERS.avoid_nodes(2),
            "new pods avoid a node that has failed the job 2 times, for 24 h; or until no other takes them for 5 min",
        ),
        (
            WORKERS.avoid_nodes(1),
            "new pods avoid a node that has failed the job once, for 24 h; or until no other takes them for 5 min",
        ),
        (
            WORKERS.avoid_nodes(1).merged(
                {"spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"nodeName": "n"}}}}}}
            ),
            "avoidNodes has no effect: Worker: the template names the node",
        ),
    ],
)
def test_it_is_said_which_nodes_are_avoided(builder, sentence):
    assert ("Nodes", sentence) in sentences(builder)
