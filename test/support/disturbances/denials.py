"""Who keeps pods from being created: a policy that refuses them (422), and a webhook that nobody answers (500)."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from lab.control_plane.plane import namespace_name
from support.api import Api, RefusedError
from support.jobs import builders
from support.resources import PODS, Json, Resource
from support.settle import eventually

_POLICIES = Resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies")
_BINDINGS = Resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings")
_WEBHOOKS = Resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")


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
        await eventually(self._is_over, within=30)

    async def _is_over(self) -> bool:
        return not await self.is_in_force()

    async def is_in_force(self) -> bool:
        """Whether such a pod would be refused; in the namespace ``default``, and without making one."""
        pod = builders.pod(namespace_name("probe")).labels(self.labels).body()
        try:
            await self.admin.create(PODS.path("default"), pod, dryRun="All")
        except RefusedError as refusal:
            return refusal.status == 422 and "ValidatingAdmissionPolicy" in refusal.message
        return False


@asynccontextmanager
async def denied_pods(admin: Api, labels: Mapping[str, str], message: str) -> AsyncIterator[Denial]:
    denial = Denial(admin, namespace_name("denial"), labels)
    await admin.create(_POLICIES.path(), _policy(denial, message))
    binding = {"policyName": denial.name, "validationActions": ["Deny"]}
    await admin.create(_BINDINGS.path(), {"metadata": {"name": denial.name}, "spec": binding})
    try:
        await eventually(denial.is_in_force, within=30)
        yield denial
    finally:
        await denial.end()


def _policy(denial: Denial, message: str) -> dict[str, object]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    return {
        "metadata": {"name": denial.name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule], "objectSelector": {"matchLabels": dict(denial.labels)}},
            "validations": [{"expression": "false", "message": message}],
        },
    }


@asynccontextmanager
async def dead_webhook(admin: Api, namespace: str) -> AsyncIterator[None]:
    """Have the pods of a namespace wait for a webhook that does not answer, while the body runs."""
    name = namespace_name("webhook")
    await admin.create(_WEBHOOKS.path(), {"metadata": {"name": name}, "webhooks": [_dead(namespace)]})
    try:
        await eventually(lambda: _fails(admin, namespace), within=30)
        yield
    finally:
        await admin.delete(_WEBHOOKS.path(name=name))


def _dead(namespace: str) -> Json:
    return {
        "name": "dead.test.example",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


async def _fails(admin: Api, namespace: str) -> bool:
    try:
        await admin.create(PODS.path(namespace), builders.pod("probe").body(), dryRun="All")
    except RefusedError as refusal:
        return refusal.status == 500
    return False
