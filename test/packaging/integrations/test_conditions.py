"""What Katib, Argo Workflows and Pipelines make of a job's status, which decides when their step has ended.

Each has a small language of its own. The rules here are those of their sources; the expressions are those of our
examples, asked of every job that the golden cases have, and of jobs that were lived through.
"""

import re
from pathlib import Path

import pytest
import yaml

from support.embedded.pod_events import everything_runs, fails, resume, succeeds, suspend, time_passes
from support.jobs import recorded_jobs
from support.jobs.builders import tfjob

EXAMPLES = Path(__file__).resolve().parents[3] / "manifests/examples/integrations"
# A key of a label selector, which is what Argo has conditions parsed as.
LABEL = r"[A-Za-z0-9](?:[-\w.]{0,61}[A-Za-z0-9])?"
QUERY = re.compile(r'#\((\w+)=="(\w+)"\)#')


def document(file, kind):
    bodies = yaml.load_all((EXAMPLES / file).read_text(), yaml.CSafeLoader)
    return next(body for body in bodies if body["kind"] == kind)


def at(body, path):
    """A dotted path of GJSON without queries; numbers are places in a list."""
    for part in path.split("."):
        if isinstance(body, list):
            body = body[int(part)] if part.isdigit() and int(part) < len(body) else None
        else:
            body = body.get(part) if isinstance(body, dict) else None
    return body


def is_met(requirement, job):
    """One requirement of a selector: Argo asks each by itself."""
    match = re.fullmatch(rf"({LABEL})(?:\s*(=|==|>|<)\s*({LABEL}))?", requirement.strip())
    assert match, f"not a requirement of a label selector: {requirement}"
    path, operator, bound = match.groups()
    value = at(job, path)
    if operator is None or value is None:
        return value is not None
    if operator in "<>":
        return int(value) > int(bound) if operator == ">" else int(value) < int(bound)
    return str(value) == bound


def by_argo(step, job):
    """Any requirement of the failure is enough, and is asked first; a success needs all."""
    if any(is_met(part, job) for part in step.get("failureCondition", "").split(",")):
        return "Failed"
    return "Succeeded" if all(is_met(part, job) for part in step["successCondition"].split(",")) else None


def by_katib(template, job):
    """An array that is not empty means yes."""
    for outcome, expression in (("Failed", "failureCondition"), ("Succeeded", "successCondition")):
        path, *queries = template[expression].replace(".#(", "|#(").split("|")
        entries = at(job, path) or []
        for query in queries:
            key, value = QUERY.fullmatch(query).groups()
            entries = [entry for entry in entries if entry.get(key) == value]
        if entries:
            return outcome
    return None


def by_launcher(_, job):
    """The launcher of Pipelines 1 looks at the last condition alone."""
    last = (at(job, "status.conditions") or [{}])[-1]
    return last["type"] if last.get("type") in ("Succeeded", "Failed") and last["status"] == "True" else None


WORKFLOW = document("argo-workflows.yaml", "Workflow")["spec"]["templates"][0]["resource"]
COUNTS = {
    "successCondition": "status.replicaStatuses.Worker.succeeded = 2",
    "failureCondition": "status.replicaStatuses.Worker.failed > 0",
}
TRIAL = document("katib.yaml", "Experiment")["spec"]["trialTemplate"]
# No step waits for a job that an operator before this one has ended.
OF_OLD = {"upgrade-finished-without-completion-time"}
partners = pytest.mark.parametrize(
    ("outcome", "expressions"),
    [(by_argo, WORKFLOW), (by_katib, TRIAL), (by_launcher, None)],
    ids=["Argo Workflows", "Katib", "Pipelines"],
)


@partners
def test_a_step_ends_as_the_job_of_each_golden_case_and_no_sooner(outcome, expressions):
    endings = set()
    for case, job in recorded_jobs.golden().items():
        conditions = job.get("status", {}).get("conditions")
        if case in OF_OLD or job["kind"] != "TFJob" or not conditions:
            continue
        last = conditions[-1]["type"]
        assert outcome(expressions, job) == (last if last in ("Succeeded", "Failed") else None), case
        endings.add(last)

    assert len(endings) >= 6


LIVES = [
    ((), None),
    ((everything_runs,), None),
    ((everything_runs, fails("worker-1", 137)), None),
    ((everything_runs, suspend), None),
    ((everything_runs, suspend, resume, everything_runs, succeeds("worker-0"), succeeds("worker-1")), "Succeeded"),
    ((everything_runs, suspend, resume, everything_runs, fails("worker-0", 1)), "Failed"),
    ((time_passes(601),), "Failed"),
    ((everything_runs, time_passes(601)), "Failed"),
]


@partners
@pytest.mark.parametrize(("moves", "end"), LIVES)
def test_a_step_ends_as_a_job_that_was_lived_through(outcome, expressions, moves, end):
    job = tfjob("job").workers(2, restart="ExitCode").success_policy().deadline(600).body()

    assert outcome(expressions, recorded_jobs.lived(job, *moves)) == end


@pytest.mark.parametrize(
    ("moves", "end"),
    [
        ((everything_runs, succeeds("worker-0")), None),
        ((everything_runs, succeeds("worker-0"), succeeds("worker-1")), "Succeeded"),
        ((everything_runs, fails("worker-0", 1)), "Failed"),
        # Why the example does not count: what ends by its deadline has no failed replica.
        ((everything_runs, time_passes(601)), None),
    ],
)
def test_conditions_that_count_replicas_work_as_far_as_they_did(moves, end):
    job = tfjob("job").workers(2, restart="ExitCode").success_policy().clean_pods("All").deadline(600).body()

    assert by_argo(COUNTS, recorded_jobs.lived(job, *moves)) == end
