"""Writes a plan for people: the status as the patch that would be sent, each action a line.

Everything that a plan says is in the text, so that two plans of different meaning never look the same; the bodies of
children only of the replicas that a case asks for.
"""

import re
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any, Final

import yaml

from golden.case import FOLDER, HEADER, PLAN, Case, Yaml, read, topics, with_short_conditions
from tf_operator.dialects import merge_patch
from tf_operator.dialects.served import ServedAPI
from tf_operator.meta import GroupVersionResource
from tf_operator.planning.actions import Action, Count, Create, Delete, DeleteCollection, Event, Patch, Plan
from tf_operator.planning.plan import make_plan

_WIDTH: Final = 130


def plans(root: Path) -> dict[Path, str]:
    return {FOLDER / f"{topic}{PLAN}": plans_text(read(root, topic)) for topic in topics(root)}


def plans_text(cases: Mapping[str, Case]) -> str:
    return HEADER + "\n".join(compact({name: plan_of(case)}) for name, case in cases.items())


def plan_of(case: Case) -> Yaml:
    """What a plan file says of a case. Pods that are looked for are not found, and nothing was said about others."""
    plan = make_plan(case.snapshot)
    names = plan.looks_for
    if names:
        plan = make_plan(case.snapshot.changed(looked_for=frozenset(names)))
    pods = [pod.name for pod in plan.asks_about]
    if pods:
        plan = make_plan(case.snapshot.changed(warnings={pod.uid: "" for pod in plan.asks_about}))
    content: Yaml = {
        "asksAbout": pods,
        "looksFor": list(names),
        "status": with_short_conditions(case.api.status_patch(plan.report)) or "unchanged",
        "record": plan.status_first or None,
        "actions": [_action(action) for action in plan.actions]
        + ["delete the job"] * plan.deletes_job
        + ["resume the job"] * plan.resumes_job,
        "bodies": _bodies(case, plan),
        "events": [_event(event, case.api) for event in plan.events],
        "counts": [_count(count, case.api) for count in plan.counts],
        "requeueAfter": None if plan.requeue_after is None else plan.requeue_after.total_seconds(),
    }
    return {name: value for name, value in content.items() if value not in ([], {}, None)}


class _Plain(yaml.CSafeDumper):
    """Without anchors: what is said twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ANN401, ARG002 (as PyYAML has it)
        return True


def compact(content: Yaml) -> str:
    """As YAML in few lines, below the first two levels."""
    stream = StringIO()
    dumper = _Plain(stream, sort_keys=False, width=_WIDTH, allow_unicode=True)
    node = dumper.represent_data(content)
    _fold(node, 0)
    dumper.open()
    dumper.serialize(node)
    dumper.close()
    return stream.getvalue()


def _fold(node: yaml.Node, level: int) -> None:
    """Sets which collections are written in one line: the outermost that fit, and a flat one in up to three."""
    if not isinstance(node, yaml.CollectionNode):
        return
    is_flat = all(isinstance(child, yaml.ScalarNode) for child in _children(node))
    node.flow_style = level > 1 and _length(node) <= (3 * _WIDTH if is_flat else _WIDTH - 2 * level)
    for child in _children(node):
        _fold(child, level + 1)


def _length(node: yaml.Node) -> int:
    """About as many characters as it takes in one line."""
    if not isinstance(node, yaml.CollectionNode):
        return len(node.value) + 4
    return 2 + sum(_length(child) for child in _children(node))


def _children(node: yaml.CollectionNode) -> Iterator[yaml.Node]:
    for entry in node.value:
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
            listed = ", ".join(f"{child.name} ({child.uid})" for child in action.objects)
            return f"delete {kind}s where {action.selector}: {listed}"


def _words(resource: GroupVersionResource) -> str:
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", resource.kind).lower()


def _bodies(case: Case, plan: Plan) -> Yaml:
    """Those of the first replica, and of each other one the merge patch from there."""
    created = {action.replica.lower(): action for action in plan.actions if isinstance(action, Create)}
    parts = {name: _parts(action) for name, action in created.items() if name in case.bodies}
    first = next(iter(parts), "")
    return {
        name: bodies if name == first else {"like": first, **merge_patch.difference(parts[first], bodies)}
        for name, bodies in parts.items()
    }


def _parts(action: Create) -> Yaml:
    return {_words(child.resource): child.body() for child in action.in_order()}


def _event(event: Event, api: ServedAPI) -> str:
    reason = api.event_reason(event.kind, event.cause)
    return f"{'Warning' if event.is_warning else 'Normal'} {reason}: {event.message}"


def _count(count: Count, api: ServedAPI) -> str:
    parts = [
        count.transition.name.lower(),
        str(count.kind),
        _cause(count, api),
        f"x{count.by}" if count.by != 1 else "",
    ]
    parts += [f"after {count.seconds:g} s"] if count.seconds is not None else []
    return " ".join(part for part in parts if part)


def _cause(count: Count, api: ServedAPI) -> str:
    return api.failure_reasons[count.cause] if count.cause else count.reason
