"""The PodGroup: what is asked for, and how it follows the job."""

from dataclasses import replace

import pytest

from support.jobs.builders import tfjob
from support.jobs.snapshots import snapshot_of
from support.jobs.templates import Template
from tf_operator import quantity
from tf_operator.controller import resources
from tf_operator.job.record import ReplicaType
from tf_operator.meta import GroupVersionResource
from tf_operator.planning.bodies import gang, gang_schedulers
from tf_operator.planning.bodies.gang_schedulers import GangScheduler
from tf_operator.planning.plan import make_plan
from tf_operator.planning.snapshot import PodGroup, Settings

VOLCANO = Settings(gang_scheduler="volcano")
ASKS = Template().resources(requests={"cpu": "1"})
ONE_CPU = tfjob().workers(3, template=ASKS)
PLUGINS = Settings(gang_scheduler="scheduler-plugins-scheduler")


def snapshot_with(job, settings, group=None):
    return snapshot_of(job, settings=settings, pod_group=group)


def spec_of(job, settings=VOLCANO):
    (create,) = gang.actions(snapshot_with(job, settings))
    return create.body()["spec"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("", ""), ("None", ""), ("volcano", "volcano"), ("Volcano", "volcano"), ("Native", "native"), ("Mine", "Mine")],
)
def test_the_schedulers_that_are_known_may_be_written_in_any_case(name, meant):
    assert gang.scheduler(name) == meant


@pytest.mark.parametrize(("phase", "waits"), [("", True), ("Pending", True), ("Inqueue", False), ("Running", False)])
def test_with_volcano_pods_wait_until_the_group_is_admitted(phase, waits):
    assert gang.keeps_waiting(snapshot_with(tfjob().workers(2), VOLCANO, PodGroup("job", "g", phase))) is waits


@pytest.mark.parametrize(
    ("job", "resources"),
    [
        (tfjob().workers(2), None),
        (tfjob().workers(2, template=Template().resources(requests={"cpu": "100m"})), {"cpu": "200m"}),
        (tfjob().workers(3, template=Template().resources(requests={"cpu": "0.1"})), {"cpu": "300m"}),
        (tfjob().workers(3, template=Template().resources(limits={"gpu": "2"})), {"gpu": "6"}),
        (
            tfjob().workers(2, template=Template().resources(requests={"cpu": "1"}, limits={"gpu": "2"})),
            {"cpu": "2"},
        ),
        (ONE_CPU.scheduling(min_available=2), {"cpu": "2"}),
        (tfjob().workers(1, template=Template().resources(requests={"cpu": "x", "gpu": "0"})), None),
        (tfjob().workers(1).scheduling(min_resources={"cpu": "7"}), {"cpu": "7"}),
        (tfjob().workers(1, template=Template().main(resources="many")), None),
        (tfjob().workers(1, template=Template().main(resources={"requests": "many"})), None),
    ],
    ids=["none", "requests", "exact", "limits", "both", "the first two", "no quantity", "as said", "no map", "no maps"],
)  # fmt: skip
def test_the_group_asks_for_what_its_members_ask_for(job, resources):
    assert spec_of(job).get("minResources") == resources


@pytest.mark.parametrize(
    ("template", "cpu"),
    [
        (Template().resources(requests={"cpu": "1"}), "2.02"),
        (
            Template()
            .resources(requests={"cpu": "1"})
            .spec(
                initContainers=[
                    {"name": "own", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                    {"name": "before", "resources": {"requests": {"cpu": "5"}}},
                ]
            ),
            "4.02",
        ),
        (Template().resources(requests={"cpu": "1"}).main(env=[{"name": "TF_CONFIG", "value": "{}"}]), "2"),
    ],
    ids=["beside the training", "beside a sidecar of the user", "not beside an own TF_CONFIG"],
)
def test_the_group_asks_for_what_sidecars_ask_for_as_the_pods_are_made(template, cpu):
    job = tfjob().workers(2, template=template).elastic(1, 4, restartInPlace=True)
    spec = spec_of(job, replace(VOLCANO, restarts_in_place=True))

    assert float(quantity.parse(spec["minResources"]["cpu"])) == float(cpu)


@pytest.mark.parametrize(("asks", "queue"), [({"queue": "q"}, "q"), ({}, "default")])
def test_t9k_is_told_the_queue_by_the_labels_of_pods_too(asks, queue):
    job = snapshot_of(tfjob("j").workers(2).scheduling(**asks)).job
    assert gang_schedulers.T9K.spec(job, 2, {}) == {"minMember": 2, "queue": queue, "priority": 0}
    marks = gang_schedulers.T9K.labels(job, ReplicaType.WORKER)

    assert {name.rpartition("/")[2]: value for name, value in marks.items()} == {
        "group-name": "j",
        "queue": queue,
        "role": "worker",
    }


def test_volcano_is_told_queue_and_priority_and_the_plugins_the_patience():
    job = tfjob().workers(2).scheduling(queue="q", priority_class="p", timeout=5)

    assert spec_of(job) == {"minMember": 2, "queue": "q", "priorityClassName": "p"}
    assert spec_of(job, PLUGINS) == {"minMember": 2, "scheduleTimeoutSeconds": 5}
    assert spec_of(tfjob().workers(2)) == {"minMember": 2, "queue": "default"}
    assert spec_of(tfjob().workers(2), PLUGINS) == {"minMember": 2}


@pytest.mark.parametrize(
    ("servers", "workers", "of_job", "priority"),
    [
        ((1, "high"), "high", "", "high"),
        ((1, "low"), "high", "", None),
        ((1, ""), "high", "", None),
        ((0, "low"), "high", "", "high"),
        ((1, "low"), "high", "mine", "mine"),
    ],
    ids=["one class", "two classes", "none in one of them", "another one of no pod", "that of the job"],
)
def test_a_native_group_has_the_class_of_the_job_or_the_one_that_all_its_templates_name(
    servers, workers, of_job, priority
):
    count, name = servers
    job = tfjob().workers(1, template=Template().spec(priorityClassName=workers))
    job = job.parameter_servers(count, template=Template().spec(priorityClassName=name))

    spec = spec_of(job.scheduling(priority_class=of_job), Settings(gang_scheduler="native"))
    assert spec.get("priorityClassName") == priority


@pytest.mark.parametrize("settings", [VOLCANO, PLUGINS], ids=["volcano", "plugins"])
@pytest.mark.parametrize(
    ("job", "resources"),
    [
        (tfjob().workers(0, template=ASKS).dynamic_workers(), None),
        (tfjob().workers(2, template=ASKS).scheduling(min_available=0), {"cpu": "1"}),
        (tfjob().workers(2, template=ASKS).scheduling(min_available=-1), {"cpu": "1"}),
    ],
    ids=["no workers yet", "nobody has to be there", "nonsense of an older operator"],
)
def test_a_group_has_at_least_one_member(job, resources, settings):
    """The PodGroups of scheduler-plugins take no less."""
    spec = spec_of(job, settings)

    assert (spec["minMember"], spec.get("minResources")) == (1, resources)


@pytest.mark.parametrize(
    ("spec", "patch"),
    [
        ({"minMember": 2, "queue": "default"}, None),
        ({"minMember": 2, "queue": "given-by-others", "theirs": 1}, None),
        ({"minMember": 3, "queue": "default"}, {"minMember": 2}),
        ({"minMember": 2, "queue": "default", "priorityClassName": "p"}, {"priorityClassName": None}),
        ({"minMember": 2, "queue": "default", "minResources": {"cpu": "1"}}, {"minResources": None}),
        (None, {"minMember": 2, "queue": "default"}),
    ],
    ids=["the same", "another queue", "another size", "no priority any more", "no resources any more", "no spec"],
)
def test_the_group_follows_the_job_in_what_is_ours(spec, patch):
    group = PodGroup("job", "g", "Running", spec)
    patches = gang.actions(snapshot_with(tfjob().workers(2), VOLCANO, group))

    assert gang.actions(snapshot_with(tfjob().workers(2), VOLCANO, replace(group, is_terminating=True))) == ()
    assert [(change.name, change.uid, change.body) for change in patches] == (
        [] if patch is None else [("job", "g", {"spec": patch})]
    )


def test_a_resource_that_is_no_longer_asked_for_is_taken_away():
    job = tfjob().workers(2).scheduling(min_resources={"cpu": "1"})
    group = PodGroup(
        "job", "g", "Running", {"minMember": 2, "queue": "default", "minResources": {"cpu": "1", "gpu": "2"}}
    )

    (patch,) = gang.actions(snapshot_with(job, VOLCANO, group))

    assert patch.body == {"spec": {"minResources": {"gpu": None}}}


@pytest.mark.parametrize(
    ("memory", "patched"),
    [("2G", ()), ("2000000k", ()), (2000000000, ()), ("2Gi", ("2000000000",)), ("plenty", ("2000000000",))],
)
def test_a_quantity_that_a_scheduler_has_written_in_its_own_form_is_the_same(memory, patched):
    job = tfjob().workers(2).scheduling(min_resources={"memory": "2000000000"})
    spec = {"minMember": 2, "queue": "default", "minResources": {"memory": memory}}

    patches = gang.actions(snapshot_with(job, VOLCANO, PodGroup("job", "g", "Running", spec)))

    assert tuple(patch.body["spec"]["minResources"]["memory"] for patch in patches) == patched


def test_what_others_wrote_into_a_group_stays():
    spec = {"minMember": 2, "queue": "theirs", "scheduleTimeoutSeconds": 5}
    job = tfjob().workers(2)

    (patch,) = gang.actions(snapshot_with(job, PLUGINS, PodGroup("job", "g", spec=spec)))

    assert patch.body == {"spec": {"scheduleTimeoutSeconds": None}}
    assert gang.actions(snapshot_with(job, VOLCANO, PodGroup("job", "g", spec=spec))) == ()


def test_another_gang_scheduler_is_one_more_value(monkeypatch):
    groups = GroupVersionResource("scheduling.example.com", "v1", "podgroups", "PodGroup")
    another = GangScheduler(
        name="another",
        resource=groups,
        spec=lambda _job, members, _spec: {"minMember": members, "priority": 50},
        fields=("minMember", "priority"),
        uses=frozenset(),
        labels=lambda job, kind: {"group": job.key.name, "role": kind.label},
        waits_in=frozenset({"Waiting"}),
        least_members=2,
    )
    monkeypatch.setattr(gang_schedulers, "KNOWN", (*gang_schedulers.KNOWN, another))
    snapshot = snapshot_of(tfjob().workers(1), settings=Settings(gang_scheduler="another"))

    (group,) = make_plan(snapshot).actions
    placed = PodGroup("job", "g", "Placed", {"minMember": 2, "priority": 50})
    (pod,) = make_plan(snapshot.changed(pod_group=placed)).actions

    assert (group.resource, group.body()["spec"]) == (groups, {"minMember": 2, "priority": 50})
    assert pod.body()["spec"]["schedulerName"] == "another"
    assert pod.body()["metadata"]["labels"].items() >= {"group": "job", "role": "worker"}.items()
    assert resources.pod_groups("another") == groups


@pytest.mark.parametrize(
    ("annotation", "offered", "scheduler", "missing"),
    [
        ("", "", "volcano", ""),
        ("none", "", None, ""),
        ("native", "native-v1alpha2", "default-scheduler", ""),
        ("native", "", "volcano", "native"),
        ("volcano", "", "volcano", ""),
    ],
    ids=["the operator's", "none", "one that is offered", "one that is not", "the operator's by its name"],
)
def test_a_job_may_have_no_gang_scheduler_or_one_that_is_offered(annotation, offered, scheduler, missing):
    annotations = {"tf-operator.kubeflow.org/gang-scheduler": annotation} if annotation else {}
    job = tfjob().workers(1).annotations(annotations)

    snapshot = snapshot_with(job, VOLCANO).changed(offered_scheduler=offered).decided()

    gang_scheduler = gang_schedulers.of(snapshot.job, snapshot.settings)
    assert (gang_scheduler.pods_scheduler if gang_scheduler else None) == scheduler
    assert gang.unavailable(snapshot) == missing


@pytest.mark.parametrize(
    ("spec", "size"),
    [({"minMember": 3}, 3), ({"schedulingPolicy": {"gang": {"minCount": 4}}}, 4), ({"schedulingPolicy": {}}, None)],
)
def test_the_size_of_a_group_is_found_in_each_kind_of_spec(spec, size):
    assert gang_schedulers.size_of(spec) == size
