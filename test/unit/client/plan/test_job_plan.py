"""What would be made of a job, in words."""

import pytest

from support.jobs.builders import tfjob
from tf_operator.client.manifests import validate
from tf_operator.client.plan import dry_run, job_plan
from tf_operator.planning.snapshot import DEFAULT_SETTINGS


def summarised(builder, settings=DEFAULT_SETTINGS, *, wide=False):
    return "".join(dry_run.run(validate.check(builder.body()).job, settings).text(wide=wide))


def test_a_job_is_summed_up():
    assert summarised(tfjob("j").chief(restart="OnFailure").workers(2).clean_pods("Running")) == (
        "TFJob default/j: 3 pods and 3 Services\n"
        "\n"
        "  TYPE     REPLICAS   RESTART POLICY\n"
        "  Chief    1          OnFailure\n"
        "  Worker   2          Never\n"
        "\n"
        "  POD AND SERVICE   ADDRESS\n"
        "  j-chief-0         j-chief-0.default.svc:2222\n"
        "  j-worker-0        j-worker-0.default.svc:2222\n"
        "  j-worker-1        j-worker-1.default.svc:2222\n"
        "\n"
        "  Succeeds:   when the chief has exited with code 0\n"
        "  Failures:   Worker (Never): the first one ends the job, and so does the loss of a pod that ran,"
        " as when its node is drained; ExitCode and OnFailure survive that\n"
        "  Failures:   Chief (OnFailure): containers are restarted in place; a pod that fails or is lost is replaced\n"
        "  Clean-up:   cleanPodPolicy Running: pods that still run and all Services are deleted;"
        " other pods stay, for their logs\n"
        "  Images:     training:test in a cluster;"
        " tfjob run without one uses programs and Python (--python) of this machine\n"
    )


def test_a_job_with_one_service_is_summed_up():
    plan = dry_run.run(validate.check(tfjob("j").workers(2).service_mode("Job").body()).job, DEFAULT_SETTINGS)

    assert str(plan).startswith("TFJob default/j: 2 pods and 1 Service\n")
    assert "  POD          ADDRESS\n  j-worker-0   j-worker-0.j.default.svc:2222\n" in str(plan)
    assert "<th>Pod</th>" in plan._repr_html_()
    assert [body["metadata"]["name"] for body in plan.objects()] == ["j", "j-worker-0", "j-worker-1"]
    assert [replica.service for replica in plan.replicas] == ["j", "j"]


def test_many_replicas_are_not_all_listed():
    text = summarised(tfjob("j").workers(100))

    assert "j-worker-5 " in text
    assert "j-worker-6 " not in text
    assert "93 more" in text
    assert "j-worker-99 " in text


@pytest.mark.parametrize("count", [job_plan.MOST_LISTED, job_plan.MOST_LISTED + 1])
def test_no_replica_is_lost_in_between(count):
    lines = [line.split() for line in summarised(tfjob("j").workers(count)).splitlines()]
    listed = sum(words[:1] != [] and words[0].startswith("j-worker-") for words in lines)
    more = sum(int(words[1]) for words in lines if words[:1] == ["..."])

    assert listed + more == count


def test_wide_lists_all_replicas_with_tf_config():
    text = summarised(tfjob("j").workers(20), wide=True)

    assert text.count('TF_CONFIG  {"cluster":{"worker":["j-worker-0.default.svc:2222",') == 20


def test_wide_says_that_a_single_replica_needs_no_tf_config():
    assert "TF_CONFIG  (none: a single replica needs none)" in summarised(tfjob("j").workers(1), wide=True)


def test_a_suspended_job_makes_nothing_until_it_is_resumed():
    text = summarised(tfjob("j").workers(1).suspended())

    assert "It is suspended: nothing of this is made until it is resumed." in text
    assert "j-worker-0" in text


def test_a_job_of_somebody_else_is_not_gone_into():
    text = summarised(tfjob("j").workers(1).managed_by())

    assert text == "TFJob default/j is managed by kueue.x-k8s.io/multikueue: this operator creates nothing for it\n"
