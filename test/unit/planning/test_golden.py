"""Each golden case: the plan in the file is the plan that is made."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from msgspec import structs

from golden import case, written
from support.jobs.builders import merge
from tf_operator.dialects.kubeflow import words
from tf_operator.job.ending import JobEnding
from tf_operator.job.training_job import RestartScope
from tf_operator.meta import objects_of
from tf_operator.planning import memory_growth, pending, restarts, spec_problems
from tf_operator.planning.actions import Stage, Transition
from tf_operator.planning.child_kinds import kinds
from tf_operator.planning.plan import make_plan
from tf_operator.planning.pods import failure_evidence

ROOT = Path(__file__).resolve().parents[3]
TOPICS = {topic: case.read(ROOT, topic) for topic in case.topics(ROOT)}
CASES = {name: entry for cases in TOPICS.values() for name, entry in cases.items()}
NAMES = sorted(CASES)
PLAIN = CASES[written.PLAIN]
SENTENCES = [
    *((failure_evidence, name) for name in ("describe", "describe_exit", "describe_restarts", "policy_hint")),
    *((pending, name) for name in ("note", "sentence")),
    *((words, name) for name in ("turned", "running", "restarting")),
    (spec_problems, "text"),
    (JobEnding, "sentence"),
]
"""All that words a sentence."""


@pytest.fixture(scope="module")
def plans():
    """What the plan files say, by the names of cases."""
    return {name: plan for topic in TOPICS for name, plan in read_plans(topic).items()}


def read_plans(topic):
    text = (ROOT / case.FOLDER / f"{topic}{case.PLAN}").read_text(encoding="utf-8")
    return yaml.load(text, yaml.CSafeLoader)


@pytest.mark.parametrize("name", NAMES)
def test_the_plan_of_a_case_is_the_one_in_its_file(name, plans):
    assert yaml.load(written.compact(written.plan_of(CASES[name], PLAIN)), yaml.CSafeLoader) == plans[name]


@pytest.mark.parametrize("topic", TOPICS)
def test_the_plans_of_a_topic_are_written_as_people_read_them(topic):
    path = ROOT / case.FOLDER / f"{topic}{case.PLAN}"

    assert path.read_text(encoding="utf-8") == written.plans_text(TOPICS[topic], PLAIN)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(("tensorboard-", "hpa-"))])
def test_nothing_that_is_done_for_what_a_job_has_beside_its_replicas_holds_it_up(name):
    extras = [kind.resource for kind in kinds.ALL]
    actions = [action for action in make_plan(CASES[name].snapshot).actions if action.resource in extras]

    assert {action.stage for action in actions} <= {Stage.EXTRAS}


@pytest.mark.parametrize("name", NAMES)
def test_no_decision_depends_on_a_sentence(name, monkeypatch):
    """Twice the same actions: also when nothing that is worded here was ever said, refused, or stored."""
    case = CASES[name]
    decided = decisions(case)
    for module, function in SENTENCES:
        monkeypatch.setattr(module, function, lambda *_args, **_kwargs: "")

    assert decisions(replace(case, snapshot=without_words(case.snapshot)), stored_as=without_messages) == decided


def without_words(snapshot):
    """The same refusals, of writes that were called nothing, by a server that says nothing."""
    extras = {
        kind: structs.replace(state, rejected=_without_words(state.rejected)) for kind, state in snapshot.extras.items()
    }
    return snapshot.changed(rejected=_without_words(snapshot.rejected), extras=extras)


def _without_words(refusal):
    return refusal and replace(refusal, subject="", message="")


def decisions(case, stored_as=lambda status: status):
    """What is decided now, and about the same pods once the status of that plan is stored."""
    status = case.snapshot.job.stored_status
    now = make_plan(with_status(case, stored_as(status)))
    then = make_plan(with_status(case, stored_as(merge(status, case.api.status_patch(now.report)))))
    return [(plan.actions, plan.status_first, plan.counts, plan.requeue_after) for plan in (now, then)]


def with_status(case, stored):
    record = case.api.read({}, None, stored).record
    return case.snapshot.changed(job=structs.replace(case.snapshot.job, record=record, stored_status=stored))


def without_messages(status):
    return {
        **status,
        "says": "",
        "conditions": [{**entry, "message": ""} for entry in objects_of(status.get("conditions"))],
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_status_in_its_short_form_says_the_same(name):
    status = CASES[name].api.status_patch(make_plan(CASES[name].snapshot).report)

    assert case.full_texts(case.short_texts(status)) == status


def test_every_restart_and_growth_that_a_job_reports_is_one_that_was_foreseen():
    """Metrics begin with 0 for those; all causes are reported by some case."""
    causes, of_former_spec = set(), "in-place-no-longer-by-an-edit"
    for entry in (entry for name, entry in CASES.items() if name != of_former_spec):
        job = entry.snapshot.job
        counts = make_plan(entry.snapshot).counts
        reported = {(count.kind, count.reason) for count in counts if count.transition is Transition.RESTARTED}
        growths = {count.kind for count in counts if count.transition is Transition.MEMORY_GROWN}
        assert reported <= set(restarts.possible(job)), entry.title
        assert growths <= set(memory_growth.possible(job)), entry.title
        causes.update(cause for _, cause in reported)

    assert causes == {"failed", "disrupted", "in-place", "completed", "job"}


@pytest.mark.parametrize("name", NAMES)
def test_restarts_are_foreseen_only_of_types_that_the_job_has_and_by_what_its_policies_allow(name):
    job = CASES[name].snapshot.job
    foreseen = list(restarts.possible(job))

    assert {kind for kind, _ in foreseen} == {spec.type for spec in job.replicas}
    whole = job.run_policy.restart_scope is RestartScope.JOB
    assert {cause == "job" for _, cause in foreseen if not whole} <= {False}
    assert len(foreseen) <= 5 * len(job.replicas)


def test_there_are_no_two_cases_of_one_observation_or_name():
    observations = [repr((case.snapshot, case.snapshot.job.stored_status, case.bodies)) for case in CASES.values()]

    assert len(observations) == len(set(observations))
    assert len(CASES) == sum(map(len, TOPICS.values())), "a name is that of one case"


@pytest.mark.parametrize("name", NAMES)
def test_a_case_says_in_one_sentence_what_it_shows(name):
    title = CASES[name].title

    assert re.fullmatch(r"\w.{10,}\.", title)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)


def test_a_case_that_says_something_nobody_reads_is_refused(tmp_path):
    folder = tmp_path / case.FOLDER
    folder.mkdir(parents=True)
    (folder / "odd.input.yaml").write_text("a-case: {title: Odd., job: {}, podz: []}")

    with pytest.raises(case.Malformed, match="podz"):
        case.read(tmp_path, "odd")
