"""``tfjob submit --upload`` on an embedded API server: what is created, and what is not."""

import asyncio
import base64
import io
import random
import tarfile

import pytest

from support.embedded.embedded_jobs import TFJOBS, EmbeddedJobs
from support.jobs.builders import tfjob
from tf_operator.cli import main, session, target
from tf_operator.client.cluster import ClusterChoice
from tf_operator.client.manifests import kube_yaml
from tf_operator.client.upload import archive, uploaded_job
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.transport import requests
from tf_operator.machinery.transport.requests import Resource
from tf_operator.meta import ObjectKey

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")


@pytest.fixture
def cluster(monkeypatch):
    embedded = EmbeddedJobs(SystemClock())
    monkeypatch.setattr(session, "make_jobs", lambda arguments, _: embedded.client(namespace=arguments.namespace))
    monkeypatch.setattr(target, "choose", lambda _: ClusterChoice(None, None, "the cluster of a test"))
    return embedded


@pytest.fixture
def call(cluster, capsys, tmp_path, monkeypatch):
    """Call it in a folder with a program and a manifest."""
    (tmp_path / "train.py").write_text("print('here')")
    (tmp_path / "job.yaml").write_text(kube_yaml.write(tfjob("j").chief().workers(1).body()))
    monkeypatch.chdir(tmp_path)

    def run(line):
        code = main.main(line.split())
        output = capsys.readouterr()
        return code, output.out + output.err

    return run


@pytest.mark.parametrize(
    "line", ["job.yaml --upload", "--upload job.yaml", "--upload . job.yaml", "-f job.yaml --upload ."]
)
def test_the_files_belong_to_the_job(cluster, call, tmp_path, line):
    code, output = call(f"submit {line}")

    assert (code, "TFJob default/j submitted" in output) == (0, True), output
    job = cluster.find(TFJOBS, "j")
    stored = cluster.find(CONFIG_MAPS, uploaded_job.config_map_name(job))
    (owner,) = stored["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], stored["immutable"]) == ("TFJob", job["metadata"]["uid"], True)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(stored["binaryData"]["files.tar.gz"]))) as tar:
        assert tar.getnames() == ["job.yaml", "train.py"]
    digest = uploaded_job.digest(job)
    assert f"with the files of {tmp_path}: 2 files, " in output
    assert output.count(digest[:19]) == 1
    assert f"  Files:     {digest[:19]}, sent with --upload\n" in call("explain j")[1]


def test_a_job_whose_files_are_refused_does_not_stay(cluster, call, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MOST_BYTES", 2_000_000)
    (tmp_path / "noise").write_bytes(random.Random(0).randbytes(1_100_000))

    code, output = call("submit --upload job.yaml")

    assert (code, cluster.find(TFJOBS, "j")) == (1, None)
    assert "TFJob j is deleted again on this machine, because its files could not be sent\n" in output
    assert "Too long: may not be more than 1048576 bytes" in output.splitlines()[-1]


def test_a_job_is_deleted_again_if_its_submission_is_interrupted_before_its_files(cluster, call, monkeypatch):
    def interrupt(*_):
        raise asyncio.CancelledError

    monkeypatch.setattr(uploaded_job, "config_map", interrupt)

    code, output = call("submit --upload job.yaml")

    assert (code, "TFJob j is deleted again" in output) == (130, True), output
    assert cluster.find(TFJOBS, "j") is None


def test_a_job_that_is_tried_again_has_the_same_files_of_its_own(cluster, call):
    call("submit --upload job.yaml")
    cluster.report("j", "Failed")

    code, output = call("retry j")

    assert (code, "TFJob default/j-2 submitted" in output) == (0, True), output
    jobs = [cluster.find(TFJOBS, name) for name in ("j", "j-2")]
    first, second = (cluster.find(CONFIG_MAPS, uploaded_job.config_map_name(job)) for job in jobs)
    assert first["binaryData"] == second["binaryData"]
    assert [entry["metadata"]["ownerReferences"][0]["name"] for entry in (first, second)] == ["j", "j-2"]
    assert uploaded_job.digest(jobs[0]) == uploaded_job.digest(jobs[1])

    cluster.report("j-2", "Failed")
    cluster._send(
        requests.delete(CONFIG_MAPS, ObjectKey("default", second["metadata"]["name"]), uid=second["metadata"]["uid"])
    )
    assert call("retry j-2") == (1, "tfjob: the files of TFJob j-2 are gone: submit it again with --upload\n")
    assert cluster.find(TFJOBS, "j-3") is None


BAD = {
    "--upload nowhere job.yaml": (1, "tfjob: --upload nowhere: there is no such folder\n"),
    "--upload": (2, "tfjob: name a FILE with the job, or -f FILE\n"),
    "": (2, "tfjob: name a FILE with the job, or -f FILE\n"),
    "--upload nowhere": (2, "tfjob: cannot read nowhere: No such file or directory\n"),
}


@pytest.mark.parametrize(("line", "outcome"), BAD.items(), ids=BAD.keys())
def test_bad_usage_is_a_sentence_and_creates_nothing(cluster, call, line, outcome):
    assert call(f"submit {line}") == outcome
    assert cluster.find(TFJOBS, "j") is None


def test_what_is_no_manifest_is_left_to_the_server_where_checks_are_off(call, tmp_path):
    body = tfjob("j").workers(1).body()
    body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"] = ["tensorflow"]
    (tmp_path / "job.yaml").write_text(kube_yaml.write(body))

    code, output = call("submit --upload --no-check job.yaml")

    assert (code, "is invalid" in output) == (1, True), output


def test_a_link_out_of_the_folder_is_a_sentence_and_creates_nothing(cluster, call, tmp_path):
    (tmp_path / "hosts").symlink_to("/etc/hosts")

    code, output = call("run job.yaml --upload")

    assert (code, "hosts is a link to /etc/hosts, which is not in" in output) == (1, True), output
    assert cluster.find(TFJOBS, "j") is None
