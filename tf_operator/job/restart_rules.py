"""What a container says itself about its restarts, whatever the restart policy of its pod.

A container may have a restart policy of its own (from Kubernetes 1.35), and rules by exit code, which may also restart
all containers of the pod (from 1.36). The kubelet asks the first rule that is about the code, then the container's
policy, then the pod's. It ignores an action that it does not know, and so does this.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tf_operator.job.ranges import NO_INDEXES, Indexes
from tf_operator.job.training_job import RestartPolicy
from tf_operator.meta import Body, list_of, objects_of

RESTARTING_ALL: Final = "RestartingAllContainers"
"""What the kubelet gives as the end of each container that it has restarted with all others of its pod."""
_POLICIES: Final = {str(policy): policy for policy in RestartPolicy if policy is not RestartPolicy.EXIT_CODE}
_ONE, _ALL = "Restart", "RestartAllContainers"
_OTHER: Final = 256
"""Stands for all codes that no program can exit with."""
_CODES: Final = frozenset(range(_OTHER + 1))


@dataclass(frozen=True, slots=True)
class RestartRules:
    """Of one container that has a policy of its own."""

    policy: RestartPolicy
    one: Indexes = NO_INDEXES
    """The exit codes after which a rule starts the container again."""
    all: Indexes = NO_INDEXES
    """The exit codes after which a rule starts all containers of the pod again."""

    def has_rule(self, code: int) -> bool:
        """Whether a rule, and not the container's policy, starts it again after this exit code."""
        bucket = _bucket_of(code)
        return bucket in self.one or bucket in self.all

    def restarts_all(self, code: int) -> bool:
        """Whether this exit code restarts all containers of the pod."""
        return _bucket_of(code) in self.all

    def restarts_after(self, code: int) -> bool:
        """Whether the container is started again after this exit code."""
        return self.has_rule(code) or restarts_by_policy(self.policy, code)


def restarts_by_policy(policy: RestartPolicy, code: int) -> bool:
    """Whether a policy alone starts a container again; ``ExitCode`` is ours, and leaves it to us."""
    return policy is RestartPolicy.ALWAYS or (policy is RestartPolicy.ON_FAILURE and code != 0)


def read(container: Body) -> RestartRules | None:
    """The rules of a container of a pod or a template; ``None`` where the pod's policy decides, as nearly always."""
    policy = _POLICIES.get(str(container.get("restartPolicy", "")))
    if policy is None:
        return None
    rest, by_action = _CODES, {_ONE: NO_INDEXES, _ALL: NO_INDEXES}
    for action, codes in _rules(container.get("restartPolicyRules")):
        if action in by_action:
            by_action[action] |= Indexes(rest & codes)
        rest -= codes
    return RestartRules(policy, by_action[_ONE], by_action[_ALL])


def _rules(entries: object) -> Iterator[tuple[str, frozenset[int]]]:
    """The action of each rule, and the codes that it is about."""
    for rule in objects_of(entries):
        exits = rule.get("exitCodes")
        if isinstance(exits, Mapping):
            # What is beyond the codes of programs is in no rule of "In", and in all of "NotIn".
            codes = frozenset(code for code in list_of(exits.get("values")) if isinstance(code, int)) - {_OTHER}
            about = {"In": _CODES & codes, "NotIn": _CODES - codes}
            yield str(rule.get("action")), about.get(str(exits.get("operator")), frozenset())


def _bucket_of(code: int) -> int:
    return code if 0 <= code < _OTHER else _OTHER
