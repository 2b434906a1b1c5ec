"""Which jobs are searched, and what may happen to each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from proof import oracle, wordings
from proof.wordings import Spec, Wording
from support.jobs import t9k
from support.jobs.builders import ObjectBuilder, merge, tfjob
from support.jobs.templates import CONTAINER
from support.resources import Json
from tf_operator.dialects import record
from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.kubeflow.versions import conversion
from tf_operator.dialects.mlkube import v1beta1 as mlkube
from tf_operator.dialects.served import ServedAPI
from tf_operator.dialects.t9k import v1beta1 as training
from tf_operator.job.record import ElasticRecord
from tf_operator.planning.snapshot import Settings

NO_DELAYS: Final = Settings(restart_delay=timedelta(0))
UNREPORTED: Final = replace(NO_DELAYS, report_pending_after=timedelta(hours=1))
"""The record of a pod that waits has its moment, which is another one in each plan here."""
FOREIGN: Final[Json] = {"type": "Audited", "status": "True", "reason": "X", "message": "by somebody else"}
FAILURES: Final = frozenset({"fails for good", "fails"})
LOSSES: Final = frozenset({"is evicted", "is deleted", "is drained", "is collected"})
OPERATOR: Final = frozenset({"is killed", "loses a reply", "is refused"})
ALL: Final = FAILURES | LOSSES | OPERATOR
EDITS: Final[Mapping[str, Callable[[Spec], Spec]]] = {
    "suspends the job": lambda spec: (1, *spec[1:3], spec[3] + 1),
    "resumes the job": lambda spec: (0, *spec[1:3], spec[3] + 1),
    "scales to 1": lambda spec: (spec[0], 1, spec[2], spec[3] + 1),
    "scales to 2": lambda spec: (spec[0], 2, spec[2], spec[3] + 1),
    "scales to 3": lambda spec: (spec[0], 3, spec[2], spec[3] + 1),
    "sets the limit to 0": lambda spec: (*spec[:2], 0, spec[3] + 1),
    "sets the limit to 3": lambda spec: (*spec[:2], 3, spec[3] + 1),
    "lets its pods be on all nodes": lambda spec: (*spec[:2], wordings.EVERYWHERE, spec[3] + 1),
    "suspends the job and asks for one Service": lambda spec: (1, spec[1], wordings.ONE_SERVICE, spec[3] + 1),
}
"""What people change."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One job, and how much may go wrong with it."""

    name: str
    job: ObjectBuilder
    faults: int = 2
    edits: int = 0
    may: frozenset[str] = ALL
    """Which faults there are."""
    people: tuple[str, ...] = ()
    """Which edits there are."""
    api: ServedAPI = v1.API
    wording: Wording = wordings.V1
    settings: Settings = NO_DELAYS
    is_timed: bool = False
    """Whether time passes in steps that the plans ask for; otherwise no rule waits for anything."""
    foreign: Json | None = field(default_factory=lambda: FOREIGN)
    decided: ElasticRecord | None = None
    """What the job queue had decided about the number of workers, before anybody edits it."""
    nodes: tuple[str, ...] = ()
    """Where its pods may be; of the others nobody asks, and they are placed as they are created."""
    most: int | None = None
    """How many workers may be asked for; an edit that is beyond it is ignored."""

    def start(self) -> Spec:
        spec = self.job.body()["spec"]
        policy, workers = (
            spec.get("runPolicy", {}),
            spec.get("tfReplicaSpecs", {}).get("Worker", {}).get("replicas", -1),
        )
        return int(policy.get("suspend", False)), workers, policy.get("backoffLimit", -1), 1

    @property
    def may_have_one_service(self) -> bool:
        return "serviceMode" in self.job.body()["spec"] or any("one Service" in name for name in self.people)

    def generation(self, spec: Spec) -> int:
        return spec[3]

    def body(self, spec: Spec) -> Json:
        """The job as it is stored."""
        return merge(self.job.body(), {"spec": self.wording.edit(spec)})

    def start_status(self) -> Json:
        status: Json = {"conditions": [dict(self.foreign)]} if self.foreign else {}
        return status | ({"elastic": record.write_elastic(self.decided)} if self.decided else {})

    def as_asked(self, spec: Spec) -> oracle.Job:
        """The job as the oracle knows it."""
        job = self.wording.job(self.body(spec)["spec"])
        workers: int | None = spec[1]
        if self.decided and spec[3] == 1:
            workers = self.decided.workers
        elif self.most is not None and spec[1] > self.most:
            workers = self.start()[1]
        if workers is None or workers == spec[1]:
            return job
        replicas = {**job.replicas, "Worker": replace(job.replicas["Worker"], count=workers)}
        return replace(job, replicas=replicas, is_invalid=self.decided is None)


PAIR: Final = tfjob("job").chief(restart="ExitCode").workers(1, restart="ExitCode")
NEVER: Final = tfjob("job").chief(restart="Never").workers(1, restart="Never")
SUSPENSION: Final = ("suspends the job", "resumes the job")
AGAIN: Final = "deletes the job, and makes it again"

SPARE: Final = frozenset({"fails", "is drained", "is killed"})
_TEMPLATE: Final[Json] = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
_ITEMS: Final = [{"tfReplicaType": kind, "replicas": 1, "template": _TEMPLATE} for kind in ("MASTER", "WORKER")]


def _training(worker: str) -> ObjectBuilder:
    """A job of T9k whose worker has this restart policy."""
    replicas = t9k.replicas("chief", 1, "ExitCode"), t9k.replicas("worker", 1, worker)
    return ObjectBuilder("job", t9k.job("job", *replicas, runPolicy={"cleanUpPolicy": "Unfinished"}))


LISTED: Final = ObjectBuilder(
    "job",
    {
        "apiVersion": mlkube.RESOURCE.api_version,
        "kind": "TfJob",
        "spec": {"replicaSpecs": _ITEMS, "cleanupPodPolicy": "All"},
    },
)


def _in_v1(spec: Json) -> ObjectBuilder:
    """A job of v1alpha1 as it is stored."""
    body = {"apiVersion": "kubeflow.org/v1alpha1", "kind": "TFJob", "metadata": {"name": "job"}, "spec": spec}
    stored = conversion.convert(body, "v1", is_written=True)
    return ObjectBuilder("job", stored).annotations(stored["metadata"]["annotations"])


V1ALPHA1: Final = _in_v1({"replicaSpecs": _ITEMS})

ELASTIC: Final = tfjob("job").workers(2, restart="ExitCode").dynamic_workers()

BOUNDS: Final = (
    Bound("chief and worker, ExitCode", PAIR.backoff_limit(1)),
    Bound("chief and worker, Never, cleanPodPolicy All", NEVER.clean_pods("All"), may=ALL | {"is rejected"}),
    Bound(
        "workers, OnFailure, cleanPodPolicy Running",
        tfjob("job").workers(2, restart="OnFailure").clean_pods("Running").backoff_limit(2),
        may=ALL | {"restarts in place"},
    ),
    Bound(
        "chief and server, Always",
        tfjob("job").chief(restart="ExitCode").parameter_servers(1, restart="Always").backoff_limit(2),
        may=ALL | {"restarts in place", "ends beside a sidecar"},
    ),
    Bound("all workers, ExitCode", tfjob("job").workers(2, restart="ExitCode").success_policy().clean_pods("All")),
    Bound("suspended and resumed, ExitCode", PAIR.backoff_limit(1), faults=1, edits=2, people=SUSPENSION),
    Bound(
        "suspended and resumed, Never",
        tfjob("job").workers(1, restart="Never").clean_pods("Running"),
        edits=2,
        people=SUSPENSION,
        may=ALL | {"ends when stopped"},
    ),
    Bound(
        "the limit is changed",
        PAIR.backoff_limit(2),
        edits=1,
        people=("sets the limit to 0", "sets the limit to 3"),
        may=FAILURES | {"is killed", "loses a reply"},
    ),
    Bound(
        "dynamic workers are scaled, Never",
        tfjob("job").workers(2, restart="Never").dynamic_workers(),
        faults=1,
        edits=2,
        people=("scales to 1", "scales to 2"),
        may=SPARE,
    ),
    Bound(
        "time passes, ExitCode",
        tfjob("job").workers(2, restart="ExitCode").backoff_limit(2).deadline(30).ttl(60).clean_pods("All"),
        faults=1,
        may=SPARE,
        settings=Settings(),
        is_timed=True,
    ),
    Bound(
        "time passes while the job is suspended and resumed",
        PAIR.deadline(30),
        faults=0,
        edits=2,
        may=frozenset(),
        people=SUSPENSION,
        settings=Settings(),
        is_timed=True,
    ),
    Bound(
        "time passes, all start again",
        tfjob("job").workers(2, restart="ExitCode").restarts_as_a_whole().deadline(5).clean_pods("All"),
        faults=1,
        may=frozenset({"fails"}),
        settings=Settings(),
        is_timed=True,
    ),
    Bound(
        "neither chief nor workers",
        tfjob("job").parameter_servers(1, restart="ExitCode").evaluators(1, restart="OnFailure"),
        faults=1,
        may=SPARE,
    ),
    Bound(
        "dynamic workers come and go",
        tfjob("job").workers(2, restart="ExitCode").dynamic_workers(),
        may=frozenset({"fails for good", "is deleted", "is collected", "ends when stopped"}),
    ),
    Bound("caches lag, ExitCode", PAIR.backoff_limit(1), may=SPARE | {"lags", "is collected", "is succeeded"}),
    Bound(
        "caches lag while the job is suspended and resumed",
        PAIR.backoff_limit(1),
        faults=1,
        edits=2,
        people=SUSPENSION,
        may=frozenset({"lags", "fails"}),
    ),
    Bound("pods lose their labels", PAIR.backoff_limit(1), may=SPARE | {"loses its label", "loses a reply"}),
    Bound("a node is lost, Never", NEVER, may=frozenset({"loses a node", "ends when stopped", "is killed", "lags"})),
    Bound(
        "creates are refused",
        PAIR.backoff_limit(1),
        may=frozenset({"exceeds a quota", "fails", "is killed", "is refused", "loses a reply"}),
    ),
    Bound(
        "T9k, paused and resumed",
        _training("OnFailure"),
        faults=0,
        edits=2,
        people=SUSPENSION,
        api=training.API,
        wording=wordings.T9K,
        may=frozenset(),
        foreign=None,
    ),
    Bound(
        "T9k, a worker fails for good",
        _training("ExitCode"),
        faults=1,
        api=training.API,
        wording=wordings.T9K,
        may=FAILURES,
        foreign=None,
    ),
    Bound("mlkube", LISTED, faults=1, api=mlkube.API, wording=wordings.LISTS, foreign=None),
    Bound("v1alpha1", V1ALPHA1, faults=1, wording=wordings.V1ALPHA1, foreign=None),
    Bound(
        "a decision of the job queue is overruled",
        ELASTIC.elastic(1, 3),
        faults=1,
        edits=2,
        people=("scales to 2", "scales to 3"),
        may=frozenset({"is killed", "loses a reply"}),
        decided=ElasticRecord(workers=1, asked_for=2),
    ),
    Bound(
        "an invalid edit",
        tfjob("job").workers(1, restart="ExitCode").dynamic_workers().elastic(1, 2),
        faults=1,
        edits=1,
        people=("scales to 3",),
        may=SPARE,
        most=2,
    ),
    Bound("all start again, ExitCode", PAIR.backoff_limit(1).restarts_as_a_whole()),
    Bound(
        "all start again, OnFailure",
        tfjob("job").workers(2, restart="OnFailure").backoff_limit(2).clean_pods("Running").restarts_as_a_whole(),
        faults=1,
        may=SPARE | {"is evicted", "is refused", "lags"},
    ),
    Bound(
        "all start again, suspended and resumed",
        PAIR.backoff_limit(1).restarts_as_a_whole(),
        faults=1,
        edits=2,
        people=SUSPENSION,
        may=frozenset({"fails"}),
    ),
    Bound(
        "a node is avoided after one failure",
        tfjob("job").workers(1, restart="ExitCode").avoid_nodes(1),
        may=FAILURES | OPERATOR | {"is drained", "is rejected", "lags"},
        nodes=("a", "b"),
        settings=UNREPORTED,
    ),
    Bound(
        "a node is avoided after two failures",
        tfjob("job").workers(2, restart="ExitCode").avoid_nodes(2),
        may=frozenset({"fails", "is killed", "is collected"}),
        nodes=("a",),
        settings=UNREPORTED,
    ),
    Bound(
        "a node is not avoided any more",
        tfjob("job").workers(2, restart="OnFailure").avoid_nodes(1),
        faults=1,
        edits=1,
        people=("lets its pods be on all nodes",),
        may=frozenset({"is rejected", "is killed", "lags"}),
        nodes=("a",),
        settings=UNREPORTED,
    ),
    Bound(
        "memory grows, Never",
        tfjob("job").workers(2, restart="Never").oom_policy("Worker", "2Gi", limit="1Gi", percent=100).backoff_limit(0),
        may=frozenset({"needs more memory", "is killed", "loses a reply", "lags"}),
    ),
    Bound(
        "memory grows, OnFailure",
        tfjob("job")
        .workers(2, restart="OnFailure")
        .oom_policy("Worker", "2Gi", limit="1Gi", percent=100)
        .backoff_limit(1),
        faults=1,
        may=frozenset({"needs more memory", "fails", "is drained", "is killed"}),
    ),
    Bound(
        "memory grows, all start again",
        PAIR.oom_policy("Worker", "2Gi", limit="1Gi", percent=100).backoff_limit(0).restarts_as_a_whole(),
        faults=1,
        may=frozenset({"needs more memory", "is killed", "loses a reply"}),
    ),
    Bound(
        "memory grows, suspended and resumed",
        tfjob("job").workers(1, restart="Never").oom_policy("Worker", "2Gi", limit="1Gi", percent=100),
        edits=2,
        people=SUSPENSION,
        may=frozenset({"needs more memory", "is killed"}),
    ),
    Bound(
        "one Service, ExitCode",
        PAIR.backoff_limit(1).service_mode("Job").clean_pods("All"),
        faults=1,
        may=SPARE | {"loses a reply", "is refused", "lags"},
    ),
    Bound(
        "one Service, asked for with the suspension",
        PAIR,
        faults=1,
        edits=2,
        people=("suspends the job and asks for one Service", "resumes the job"),
        may=frozenset({"fails", "loses a reply"}),
    ),
    Bound(
        "one Service, and the job is made again",
        PAIR.service_mode("Job"),
        faults=1,
        edits=1,
        people=(AGAIN,),
        may=SPARE | {"exceeds a quota"},
    ),
    Bound("the job is made again", PAIR, edits=1, people=(AGAIN,), may=SPARE | {"exceeds a quota"}, faults=1),
)
BY_NAME: Final = {bound.name: bound for bound in BOUNDS}
FEW: Final = {bound.name: replace(bound, faults=min(bound.faults, 1)) for bound in BOUNDS}
STOPS: Final = frozenset({"fails", "is killed", "loses a reply"})
FEWER: Final[Mapping[str, frozenset[str]]] = {
    "chief and worker, ExitCode": ALL - {"is refused", "is deleted", "is evicted"},
    "chief and worker, Never, cleanPodPolicy All": ALL - {"is refused", "is deleted", "is collected"} | {"is rejected"},
    "workers, OnFailure, cleanPodPolicy Running": STOPS | {"restarts in place"},
    "chief and server, Always": STOPS | {"restarts in place", "ends beside a sidecar"},
    "all workers, ExitCode": FAILURES | {"is killed", "is collected"},
    "suspended and resumed, ExitCode": FAILURES,
    "suspended and resumed, Never": STOPS | {"ends when stopped"},
    "the limit is changed": FAILURES,
    "dynamic workers come and go": frozenset({"fails for good", "is deleted", "ends when stopped"}),
    "caches lag, ExitCode": frozenset({"lags", "is succeeded", "fails"}),
    "pods lose their labels": frozenset({"loses its label", "fails"}),
    "all start again, ExitCode": SPARE | {"fails for good", "loses a reply"},
}
"""Of the jobs with most states, fewer kinds of faults for a gate of few minutes."""
QUICK: Final = ("chief and worker, ExitCode", "creates are refused", "an invalid edit")
LIGHT: Final = replace(FEW["suspended and resumed, ExitCode"], may=FAILURES | {"is killed"})
SIZES: Final[Mapping[str, tuple[Bound, ...]]] = {
    "quick": (*map(FEW.__getitem__, QUICK), replace(BY_NAME["the job is made again"], faults=0)),
    "planted": (*(bound for bound in FEW.values() if bound.name != LIGHT.name), LIGHT),
    "gate": tuple(replace(bound, may=FEWER.get(bound.name, bound.may)) for bound in BOUNDS),
    "night": tuple(replace(bound, faults=bound.faults + 1) for bound in BOUNDS),
}
"""What ``make test``, ``make proof`` and ``make nightly`` search, and where planted defects have to show."""
