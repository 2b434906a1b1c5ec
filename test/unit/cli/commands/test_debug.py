"""``tfjob debug`` on an embedded API server: what is in the text, and what never is."""

import json
import zipfile
from urllib.parse import quote, quote_plus

import pytest

from support.embedded.embedded_jobs import RUNNING, TFJOBS, EmbeddedJobs
from support.jobs.builders import tfjob
from tf_operator.cli import main, session, target
from tf_operator.cli.debug.redaction import Redaction
from tf_operator.client.cluster import ClusterChoice
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.transport import errors, requests

TOKEN, KEY_LINE, ARGUMENT, NOTE = "hunter2-\ttoken", "MIIEvQIBADAN", "--password=abc123", "note-of-the-team"
PLANTED = (TOKEN, KEY_LINE, ARGUMENT, NOTE)
ENV = [
    {"name": "TOKEN", "value": TOKEN},
    {"name": "KEY", "value": f"-----BEGIN-----\n{KEY_LINE}\n"},
    {"name": "DEBUG", "value": "true"},
    {"name": "LOGIN", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}},
]


@pytest.fixture
def cluster(monkeypatch):
    """A job that has failed, whose manifest, programs and events say what they should not."""
    embedded = EmbeddedJobs(SystemClock())
    monkeypatch.setattr(session, "make_jobs", lambda arguments, _: embedded.client(namespace=arguments.namespace))
    monkeypatch.setattr(target, "choose", lambda _: ClusterChoice(None, None, "the cluster of a test"))
    applied = {"kubectl.kubernetes.io/last-applied-configuration": f"{ENV}", "team/note": NOTE}
    body = tfjob("j").chief(restart="Never").workers(1, restart="Never").annotations(applied).body()
    for spec in body["spec"]["tfReplicaSpecs"].values():
        (container,) = spec["template"]["spec"]["containers"]
        container |= {"env": ENV, "args": [ARGUMENT], "envFrom": [{"secretRef": {"name": "all"}}]}
    job = embedded._send(requests.create(TFJOBS, "default", body))
    end = {"terminated": {"exitCode": 3, "message": f"refused {TOKEN}", "containerID": "process://1"}}
    embedded.pod(job, "worker-0", containerStatuses=[{**RUNNING, "restartCount": 1, "lastState": end}])
    ended = {"name": "tensorflow", "state": end}
    embedded.event(embedded.pod(job, "chief-0", "Failed", containerStatuses=[ended]), "Unhealthy", f"got {TOKEN}")
    failure = {"pod": "j-chief-0", "exitCode": 3, "message": f"refused {TOKEN}"}
    failed = {"type": "Failed", "status": "True", "message": f"chief-0 said: refused {TOKEN}"}
    embedded.report("j", conditions=[failed], firstFailure=failure)
    embedded.logs["j-worker-0"] = [f"step {number}\n".encode() for number in range(30)]
    embedded.logs["j-chief-0"] = [f"with {TOKEN}\n{KEY_LINE}\n\x1b[2Jdone\n".encode()]
    return embedded


@pytest.fixture
def call(cluster, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(line):
        code = main.main(line.split())
        output = capsys.readouterr()
        return code, output.out + output.err

    return run


def test_the_text_has_what_is_known_of_a_job(call):
    code, text = call("debug j")

    assert code == 0, text
    headings = [line.removeprefix("== ") for line in text.splitlines() if line.startswith("== ")]
    assert headings == [
        *("Versions", "Explanation", "First failure", "Templates", "Plan", "Status", "Replicas", "Events"),
        *("Log of chief-0", "Log of worker-0.previous", "Log of worker-0"),
    ]
    assert text.startswith("TFJob default/j on 20")
    for part in (
        "tfjob 0.",
        "you have all permissions that tfjob needs",
        "TFJob default/j has failed.",
        "j-chief-0, exit code 3, refused $TOKEN\n",
        "    variables: TOKEN, KEY, DEBUG, LOGIN (secretKeyRef), those of secretRef\n",
        "TFJob default/j: 2 pods and 2 Services\n",
        "firstFailure:\n",
        "ended with exit code 3",
        "got $TOKEN",
        "with $TOKEN\n$KEY\n?[2Jdone\n",
        "step 29\n",
    ):
        assert part in text, part
    assert "step 9\n" not in text


def test_an_archive_has_more_of_the_logs(call, tmp_path):
    assert call("debug j -o zip") == (0, "j-debug.zip written\n")

    with zipfile.ZipFile(tmp_path / "j-debug.zip") as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert list(texts) == ["debug.txt", "logs/chief-0.log", "logs/worker-0.previous.log", "logs/worker-0.log"]
    assert texts["logs/worker-0.log"].startswith("step 0\n")
    assert "step 9\n" not in texts["debug.txt"]
    assert [word for word in PLANTED for text in texts.values() if word in text] == []
    assert call("debug j -o zip") == (1, "tfjob: j-debug.zip exists already: move it away\n")


def test_secrets_in_variables_arguments_and_annotations_never_appear(call):
    text = call("debug j")[1]

    assert [word for word in PLANTED if word in text] == []
    assert "DEBUG" in text  # its value, true, is a word of many texts


def test_what_may_not_be_read_is_a_line(cluster, call):
    refused = errors.Forbidden(403, errors.Status(reason="Forbidden", message="no logs for you"))
    cluster.logs |= {"j-worker-0": [refused], "j-chief-0": [refused]}

    code, text = call("debug j")

    assert (code, text.count("\n(not read: no logs for you)\n")) == (0, 3), text


def test_a_job_that_is_not_there_is_a_sentence(call):
    assert call("debug k") == (
        1,
        'tfjob: tfjobs.kubeflow.org "k" not found; tfjob list shows the jobs, -n names another namespace\n',
    )


def test_the_longest_value_is_replaced_first():
    container = {"env": [{"name": "A", "value": "secret"}, {"name": "B", "value": "secret-and-more"}]}
    redaction = Redaction([{"spec": {"containers": [container]}}])

    assert redaction.value({"a": ["secret-and-more", 1], "b": "secrets"}) == {"a": ["$B", 1], "b": "$As"}


@pytest.mark.parametrize("write", [str, repr, json.dumps, quote, quote_plus])
def test_a_value_is_found_as_programs_write_it(write):
    value = "p@ss/wo\\rd \"+' é"
    redaction = Redaction([{"spec": {"containers": [{"env": [{"name": "A", "value": value}]}]}}])

    assert redaction.text(write(value)).strip("'\"") == "$A"
