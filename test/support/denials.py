"""An admission policy that refuses pods with a label, as a policy engine would: 403, with words of its own."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from support import builders
from support.api import Api, RefusedError
from support.control_plane import namespace_name
from support.resources import PODS, Resource
from support.settle import eventually

_POLICIES = Resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies")
_BINDINGS = Resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings")


@dataclass(frozen=True, slots=True)
class Denial:
    """A denial that is in force; over with ``end``, or with the block that it was made in."""

    admin: Api
    name: str
    labels: Mapping[str, str]

    async def end(self) -> None:
        """Have such pods accepted again, and wait until they are."""
        for resource in (_BINDINGS, _POLICIES):
            if await self.admin.find(resource.path(name=self.name)):
                await self.admin.delete(resource.path(name=self.name))
        accepted: bool = await eventually(self.is_over, within=30)
        assert accepted

    async def is_over(self) -> bool:
        """Whether such a pod would be accepted."""
        return not await self.is_in_force()

    async def is_in_force(self) -> bool:
        """Whether such a pod would be refused; in the namespace ``default``, and without making one."""
        pod = builders.pod(namespace_name("probe")).labels(self.labels).body()
        try:
            await self.admin.create(PODS.path("default"), pod, dryRun="All")
        except RefusedError as refusal:
            return refusal.status == 403 and "ValidatingAdmissionPolicy" in refusal.message
        return False


@asynccontextmanager
async def denied_pods(admin: Api, labels: Mapping[str, str], message: str) -> AsyncIterator[Denial]:
    """Have pods with these labels refused while the body runs."""
    denial = Denial(admin, namespace_name("denial"), labels)
    await admin.create(_POLICIES.path(), _policy(denial, message))
    binding = {"policyName": denial.name, "validationActions": ["Deny"]}
    await admin.create(_BINDINGS.path(), {"metadata": {"name": denial.name}, "spec": binding})
    try:
        in_force: bool = await eventually(denial.is_in_force, within=30)
        assert in_force
        yield denial
    finally:
        await denial.end()


def _policy(denial: Denial, message: str) -> dict[str, object]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    return {
        "metadata": {"name": denial.name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [rule],
                "objectSelector": {"matchLabels": dict(denial.labels)},
            },
            "validations": [{"expression": "false", "message": message, "reason": "Forbidden"}],
        },
    }
