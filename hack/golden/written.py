"""Writes a plan for people: the status as the patch that would be sent, each action a line.

Everything that a plan says is in the text once, so that two plans of different meaning never look the same.
``statusFirst`` is stored before the actions. The bodies of children are there only of the replicas that a case asks
for, as merge patches of those of a plain job, in which the entries of lists go by their names.
"""

import json
import re
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any, Final

import yaml

from golden.case import FOLDER, HEADER, PLAN, Case, Yaml, read, short_texts, topics
from tf_operator.dialects.served import ServedAPI
from tf_operator.meta import GroupVersionResource
from tf_operator.planning.actions import Action, Count, Create, Delete, DeleteCollection, Event, Patch, Plan
from tf_operator.planning.plan import make_plan

_WIDTH: Final = 130
PLAIN: Final = "create-all-roles"


def plans(root: Path) -> dict[Path, str]:
    plain = read(root, "creation")[PLAIN]
    return {FOLDER / f"{topic}{PLAN}": plans_text(read(root, topic), plain) for topic in topics(root)}


def plans_text(cases: Mapping[str, Case], plain: Case) -> str:
    return HEADER + "\n".join(compact({name: plan_of(case, plain)}) for name, case in cases.items())


def plan_of(case: Case, plain: Case) -> Yaml:
    """What a plan file says of a case. Pods that are looked for are not found, and nothing was said about others."""
    plan = make_plan(case.snapshot)
    names = plan.looks_for
    if names:
        plan = make_plan(case.snapshot.changed(looked_for=frozenset(names)))
    pods = [pod.name for pod in plan.asks_about]
    if pods:
        plan = make_plan(case.snapshot.changed(warnings={pod.uid: "" for pod in plan.asks_about}))
    status = short_texts(case.api.status_patch(plan.report)) or "unchanged"
    content: Yaml = {
        "asksAbout": pods,
        "looksFor": list(names),
        "statusFirst" if plan.status_first else "status": status,
        "actions": [_action(action) for action in plan.actions]
        + ["delete the job"] * plan.deletes_job
        + ["resume the job"] * plan.resumes_job,
        "bodies": _bodies(case, plan, plain),
        "events": [_event(event, case.api, status) for event in plan.events],
        "counts": [_count(count, case.api) for count in plan.counts],
        "requeueAfter": None if plan.requeue_after is None else plan.requeue_after.total_seconds(),
    }
    return {name: value for name, value in content.items() if value not in ([], {}, None)}


def compact(content: Yaml) -> str:
    """As YAML in few lines, below the first two levels."""
    copy = json.loads(json.dumps(content))  # what is the same object twice would get an anchor
    node = yaml.CSafeDumper(StringIO(), sort_keys=False).represent_data(copy)
    _fold(node, 0)
    return str(yaml.serialize(node, Dumper=yaml.CSafeDumper, width=_WIDTH, allow_unicode=True))


def _fold(node: yaml.Node, level: int) -> None:
    """Sets which are written in one line: the outermost that fit, a flat one in up to three, numbers in any number."""
    if not isinstance(node, yaml.CollectionNode):
        return
    is_flat = all(isinstance(child, yaml.ScalarNode) for child in _children(node))
    is_short = _length(node) <= (3 * _WIDTH if is_flat else _WIDTH - 2 * level)
    node.flow_style = level > 1 and (is_short or all(child.tag.endswith(":int") for child in _children(node)))
    for child in _children(node):
        _fold(child, level + 1)


def _length(node: yaml.Node) -> int:
    """About as many characters as it takes in one line."""
    inner = (_length(child) for child in _children(node))
    return 2 + sum(inner) if isinstance(node, yaml.CollectionNode) else len(node.value) + 3


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    for entry in node.value if isinstance(node, yaml.CollectionNode) else ():
        yield from entry if isinstance(entry, tuple) else (entry,)


def _action(action: Action) -> str | Yaml:
    kind = _words(action.resource)
    match action:
        case Create() if action.replica:
            return f"create {action.replica.lower()}: {' and '.join(_parts(action))}"
        case Create():
            return {f"create {kind}": action.body()}
        case Patch():
            place = f" {action.subresource}, unless it has changed" if action.subresource else ""
            return {f"patch {kind} {action.name} ({action.uid}){place}": dict(action.content())}
        case Delete():
            condition = ", unless it has changed" if action.version else ""
            reason = f": {action.reason}" if action.reason else ""
            return f"delete {kind} {action.name} ({action.uid}{condition}){reason}"
        case DeleteCollection():
            names = ", ".join(f"{child.name} ({child.uid})" for child in action.objects)
            return f"delete {kind}s where {action.selector}: {names}"


def _words(resource: GroupVersionResource) -> str:
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", resource.kind).lower()


def _bodies(case: Case, plan: Plan, plain: Case) -> Yaml:
    """As they differ from those of the same replica of the plain job, or of the first one here; or whole."""
    bodies = _replica_bodies(case, plan)
    is_like_plain = case.name != PLAIN and case.api is plain.api
    plain_bodies = _replica_bodies(plain, make_plan(plain.snapshot)) if bodies and is_like_plain else {}
    content: Yaml = {}
    for name, parts in bodies.items():
        first = next(iter(bodies))
        like, base = (f"{name} of {PLAIN}", plain_bodies[name]) if name in plain_bodies else (first, bodies[first])
        difference = _difference({kind: body for kind, body in base.items() if kind in parts}, parts)
        content[name] = parts if name == like else {"like": like, **difference}
    return content


def _replica_bodies(case: Case, plan: Plan) -> Yaml:
    """The bodies of the replicas that a case asks for."""
    created = {action.replica.lower(): action for action in plan.actions if isinstance(action, Create)}
    return {name: _parts(action) for name, action in created.items() if name in case.bodies}


def _difference(old: Any, new: Any) -> Any:  # noqa: ANN401 (any part of a body)
    """The merge patch; entries of a list go by their names, unless their order is another."""
    if isinstance(old, list) and isinstance(new, list):
        old_names, new_names = _by_name(old), _by_name(new)
        common_names = [name for name in old_names if name in new_names]
        if common_names and common_names == list(new_names)[: len(common_names)]:
            old, new = old_names, new_names
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    gone = {name: None for name in old if name not in new}
    changed = {name: value for name, value in new.items() if name not in old or old[name] != value}
    return gone | {name: _difference(old.get(name), value) for name, value in changed.items()}


def _by_name(entries: list[Any]) -> Yaml:
    """A list of objects by their names; nothing when one has none, or two have the same."""
    bodies = [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("name"), str)]
    by_name = {body["name"]: {key: value for key, value in body.items() if key != "name"} for body in bodies}
    return by_name if len(by_name) == len(entries) else {}


def _parts(action: Create) -> Yaml:
    return {_words(child.resource): child.body() for child in action.in_order()}


def _event(event: Event, api: ServedAPI, status: Any) -> str:  # noqa: ANN401 (a patch, or that there is none)
    """With its message, unless it is that of the last condition above."""
    text = f"{'Warning' if event.is_warning else 'Normal'} {api.event_reason(event.kind, event.cause)}"
    last = str(status.get("says", status.get("conditions", [""])[-1])) if isinstance(status, dict) else ""
    is_in_status = event.message in (last, last.partition(": ")[2])
    return f"{text}, as the status says" if is_in_status else f"{text}: {event.message}"


def _count(count: Count, api: ServedAPI) -> str:
    reason = api.failure_reasons[count.cause] if count.cause else count.reason
    parts = [count.transition.name.lower(), str(count.kind), reason, f"x{count.by}" if count.by != 1 else ""]
    parts += [f"after {count.seconds:g} s"] if count.seconds is not None else []
    return " ".join(part for part in parts if part)
