"""Deployments: they are stored only. Nothing here makes pods of them."""

from collections.abc import Iterator
from datetime import datetime

from tf_operator.local.apiserver.built_in import pod_rules, pods
from tf_operator.local.apiserver.kinds import Json
from tf_operator.local.apiserver.messages import FieldCause
from tf_operator.local.apiserver.validation import causes
from tf_operator.meta import Body


def prepare(body: Json, _: Body | None, __: datetime) -> None:
    spec = body["spec"] = body.get("spec") or {}
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    defaults = {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": rolling}
    for name, value in defaults.items():
        spec.setdefault(name, value)
    template = spec.get("template") or {}
    if isinstance(template.get("spec"), dict):
        pods.set_spec_defaults(template["spec"])


def check(body: Body, old: Body | None) -> Iterator[FieldCause]:
    spec = body["spec"]
    if not spec.get("selector"):
        yield causes.required("spec.selector")
    if old is not None and spec.get("selector") != old["spec"].get("selector"):
        yield causes.invalid("spec.selector", spec.get("selector"), "field is immutable")
    template = spec.get("template") or {}
    selector = (spec.get("selector") or {}).get("matchLabels") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not selector.items() <= labels.items():
        detail = "`selector` does not match template `labels`"
        yield causes.invalid("spec.template.metadata.labels", labels, detail)
    yield from pod_rules.check_spec(template.get("spec") or {}, "spec.template.spec")
