"""The pages of docs/reference, which follow from the program, and the TF_CONFIG of a real plan."""

import contextlib
import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import yaml

from pages import client, rights
from pages.all_metrics import full_registry
from pages.parts import between, plain
from tf_operator.app.options import flags
from tf_operator.app.options.flag import Flag
from tf_operator.cli import main
from tf_operator.dialects import registry
from tf_operator.job.record import FailureCause
from tf_operator.job.report import EventKind

FOLDER: Final = Path("docs/reference")
TF_CONFIG: Final = Path("docs/concepts/tf-config.md")
SECURITY: Final = Path("docs/security.md")
JOB: Final = Path("manifests/examples/chief-workers-ps.yaml")
HEAD: Final = "<!-- written by hack/generate reference -->\n\n# {title}\n\n{text}\n\n"
MEANINGS: Final[Mapping[EventKind, str]] = {
    EventKind.SUSPENDED: "the job is suspended: its pods are deleted",
    EventKind.RESUMED: "the job continues",
    EventKind.QUEUED: "the job waits for its place, without pods, or has lost it",
    EventKind.ADMITTED: "the job has its place",
    EventKind.SUCCEEDED: "the job has succeeded",
    EventKind.FAILED: "the job has failed; the reason is that of the condition",
    EventKind.RESTARTING: "a replica failed, and is replaced",
    EventKind.JOB_RESTARTED: "a replica was lost, and all are restarted (`runPolicy.restarts.scope: Job`)",
    EventKind.REPLICA_DISRUPTED: "a pod was evicted, preempted, deleted or lost, and is replaced, which is no failure",
    EventKind.MEMORY_GROWN: "a pod was killed because it used too much memory; the next ones have more (`oomPolicy`)",
    EventKind.REPLICA_FAILED: "a dynamic worker has failed for good; the job continues",
    EventKind.RESTARTED_IN_PLACE: "the kubelet has started a container again",
    EventKind.NODE_AVOIDED: "replicas have failed on a node too often: new pods avoid it (`runPolicy.avoidNodes`)",
    EventKind.NODE_ALLOWED_AGAIN: "new pods may use that node again, as after 24 hours, or if no other node has room",
    EventKind.RESIZED: "the number of replicas has changed",
    EventKind.REPLICA_PENDING: "a pod does not start; the message says why",
    EventKind.CREATE_FAILED: "a pod or Service was rejected; the operator retries",
    EventKind.CHILDREN_CREATED: "pods and Services were created",
    EventKind.ANOTHER_CONTROLLER: "another controller has changed the status: two operators serve this job",
    EventKind.USER_TF_CONFIG: "the template's own TF_CONFIG is kept",
    EventKind.TEMPLATE_RESTART_POLICY: "the pod template's restartPolicy is ignored; that of the replica type applies",
    EventKind.TEMPLATE_SCHEDULER: "the pod template's schedulerName is not that of the gang scheduler",
    EventKind.SCHEDULER_UNAVAILABLE: "the gang scheduler that the job requests is not available",
    EventKind.OUTDATED_FIELDS: "fields have values that are invalid today; the job continues",
    EventKind.PROGRESS_NOT_SERVED: "the job asks for reports of progress, and the operator takes none",
    EventKind.NO_PROGRESS: "the program makes no progress for longer than `runPolicy.progressPolicy.deadlineSeconds`",
    EventKind.RESUMED_BEHIND_CHECKPOINT: "the program has started again, from a step before its last checkpoint",
    EventKind.GRACE_TOO_SHORT: "a save takes longer than the pods have to stop: it is cut off when they are evicted",
    EventKind.UNUSED_FIELDS: "fields have no effect, such as those of schedulingPolicy that the gang scheduler lacks",
    EventKind.EDIT_IGNORED: "an edit made the spec of a running job invalid; the operator ignores what is invalid",
}
CAUSES: Final[Mapping[FailureCause, str]] = {
    FailureCause.PERMANENT_FAILURE: "a replica failed, and its policy does not restart it",
    FailureCause.REPLICA_LOST: "under `Never`, a replica that had run was disrupted",
    FailureCause.BACKOFF_LIMIT_EXCEEDED: "the limit of restarts was reached",
    FailureCause.DEADLINE_EXCEEDED: "the job ran longer than it may",
    FailureCause.STARTUP_DEADLINE_EXCEEDED: "its pods did not all run in time",
    FailureCause.PROGRESS_DEADLINE_EXCEEDED: "its program made no progress for too long",
    FailureCause.INVALID_SPEC: "the job is invalid; the message names each field and its rule",
}


def render(root: Path) -> Mapping[Path, str]:
    python = HEAD.format(title="The Python client", text=client.TEXT) + client.page()
    pages = {"flags": _flags(), "metrics": _metrics(), "events": _events(), "python": python}
    texts = {FOLDER / f"{name}.md": text for name, text in pages.items()}
    parts = {TF_CONFIG: ("TF_CONFIG", _tf_config(root)), SECURITY: ("rights by option", rights.table(root))}
    return texts | {
        page: between((root / page).read_text("utf-8"), name, content) for page, (name, content) in parts.items()
    }


def _flags() -> str:
    text = (
        "The flags of `tf-operator run`: one dash or two, `--flag=value` or `--flag value`, booleans as `--flag=false`,"
        "\ndurations as `500ms`, `1m30s`. A flag overrides its environment variable.\n"
        "[Operations](../operations.md) says when to change one."
    )
    page = HEAD.format(title="Flags of the operator", text=text)
    for group in dict.fromkeys(flag.group for flag in flags.FLAGS):
        items = (
            f"- `--{flag.name}`{_default(flag)}: {plain(flag.help)}\n" for flag in flags.FLAGS if flag.group == group
        )
        page += f"## {group}\n\n{''.join(items)}\n"
    return page


def _default(flag: Flag) -> str:
    parts = (f"`${flag.variable}`" if flag.variable else "", f"`{flag.default}`" if flag.default else "")
    default = ", else ".join(filter(None, parts))
    return f" (default: {default})" if default else ""


def _metrics() -> str:
    text = (
        "The metrics on `/metrics`, with types and labels, besides `process_...`, which every Prometheus client has.\n"
        "Those without `tf_operator` in their name are those of training-operator, client-go and controller-runtime.\n"
        "[Operations](../operations.md#metrics) says how to aggregate them, "
        "[monitoring](../monitoring.md) has queries, alerts and dashboards."
    )
    items = []
    for family in full_registry().collect():
        if family.name.startswith("process_"):
            continue
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        labels = sorted({name for sample in family.samples for name in sample.labels} - {"le"})
        kind = "gauge" if family.type == "info" else family.type
        about = ", ".join([kind, *(f"`{name}`" for name in labels)])
        items.append(f"- `{family.name}{suffix}` ({about}): {plain(family.documentation)}\n")
    return HEAD.format(title="Metrics", text=text) + "".join(sorted(items))


def _events() -> str:
    text = (
        "The operator's events of a job: `kubectl describe tfjob NAME`, `tfjob events NAME`. Programs may rely on the "
        "reasons; messages are for people.\n[Behaviour](../behaviour.md#status) has the reasons of conditions."
    )
    kinds = [f"{api.resource.kind}, `{api.resource.group}`" for api in registry.SERVED]
    events = [([f"`{api.event_reasons[kind]}`" for api in registry.SERVED], MEANINGS[kind]) for kind in EventKind]
    of_each = ([*reasons, meaning] for reasons, meaning in events if len({*reasons}) > 1)
    of_all = (f"- {reasons[0]}: {meaning}\n" for reasons, meaning in events if len({*reasons}) == 1)
    causes = (
        [*(f"`{api.failure_reasons[cause]}`" for api in registry.SERVED), CAUSES[cause]] for cause in FailureCause
    )
    head = (*kinds, "meaning")
    return (
        HEAD.format(title="Events and reasons", text=text)
        + f"## Events\n\n{_table(head, of_each)}\n"
        + f"These are the same for all kinds of jobs:\n\n{''.join(of_all)}\n"
        + "## Reasons of a failure\n\nOf the event, and of the condition `Failed`.\n\n"
        + _table(head, causes)
    )


def _tf_config(root: Path) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        main.main(["plan", "-f", str(root / JOB), "-o", "yaml"])
    pods = (one for one in yaml.safe_load_all(output.getvalue()) if one and one["kind"] == "Pod")
    (pod,) = (pod for pod in pods if pod["metadata"]["name"].endswith("worker-1"))
    (value,) = (one["value"] for one in pod["spec"]["containers"][0]["env"] if one["name"] == "TF_CONFIG")
    text = f"What `{pod['metadata']['name']}` of [{JOB.name}](../../{JOB}) gets:"
    return f"{text}\n\n```json\n{json.dumps(json.loads(value), indent=2)}\n```"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = tuple(head)
    lines = (head, ["---"] * len(head), *rows)
    return "".join(f"| {' | '.join(map(plain, line))} |\n" for line in lines)
