"""The objects that would be made, in full."""

import yaml

from support.jobs.builders import tfjob
from tf_operator.cli.manifests import bodies
from tf_operator.client.manifests import validate
from tf_operator.client.plan import dry_run
from tf_operator.planning.snapshot import DEFAULT_SETTINGS, Settings


def written(builder, settings=DEFAULT_SETTINGS):
    return "".join(bodies.text(dry_run.run(validate.check(builder.body()).job, settings)))


def kinds(text):
    return [document["kind"] for document in yaml.safe_load_all(text) if document]


def test_each_service_comes_before_its_pod():
    assert kinds(written(tfjob("j").workers(2))) == ["Service", "Pod", "Service", "Pod"]


def test_the_pod_group_comes_first_and_in_the_version_of_its_scheduler():
    text = written(tfjob("j").workers(1), Settings(gang_scheduler="volcano"))
    group = next(yaml.safe_load_all(text))

    assert (group["kind"], group["apiVersion"]) == ("PodGroup", "scheduling.volcano.sh/v1beta1")


def test_it_is_said_that_the_uid_is_not_known_yet():
    assert "stands for the UID" in written(tfjob("j").workers(1))
    assert "stands for the UID" not in written(tfjob("j").workers(1).merged({"metadata": {"uid": "u"}}))


def test_it_is_said_that_a_job_is_suspended():
    assert "# It is suspended" in written(tfjob("j").workers(1).suspended())
