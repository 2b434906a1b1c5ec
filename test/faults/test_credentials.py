"""The token is replaced or revoked, and the authority of the apiserver is replaced."""

import json

import pytest_asyncio

from support import oracle
from support.api import Api, RefusedError
from support.disturbances.fault_proxy.request import fingerprint
from support.disturbances.fault_proxy.trigger import anything, watch, write
from support.resources import TFJOBS, Resource
from support.settle import eventually
from support.stopwatch import Stopwatch

ACCOUNTS = Resource("", "v1", "serviceaccounts")
SECRETS = Resource("", "v1", "secrets")
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings")


class Account:
    """A service account that may do everything in the test's namespace. Its tokens are bound to Secrets."""

    def __init__(self, admin, namespace):
        self.admin = admin
        self.namespace = namespace

    async def make(self):
        subject = {"kind": "ServiceAccount", "name": "account", "namespace": self.namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        await self.admin.create(ACCOUNTS.path(self.namespace), {"metadata": {"name": "account"}})
        binding = {"metadata": {"name": "account"}, "subjects": [subject], "roleRef": role}
        await self.admin.create(BINDINGS.path(self.namespace), binding)
        return self

    async def token(self, secret):
        """A token that is valid for as long as this Secret exists."""
        secret_object = await self.admin.create(SECRETS.path(self.namespace), {"metadata": {"name": secret}})
        bound = {"apiVersion": "v1", "kind": "Secret", "name": secret, "uid": secret_object["metadata"]["uid"]}
        path = ACCOUNTS.path(self.namespace, "account", "token")
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}}
        return (await self.admin.create(path, request))["status"]["token"]

    async def revoke(self, secret, token, kubeconfig):
        """Have the token refused; the apiserver remembers for ten seconds that it was valid."""
        await self.admin.delete(SECRETS.path(self.namespace, secret))
        async with Api(kubeconfig) as api:

            async def is_refused():
                try:
                    return await api.get(TFJOBS.path(self.namespace), limit="1") is None
                except RefusedError as refusal:
                    return refusal.status == 401

            await eventually(is_refused, within=30, every=0.5)


@pytest_asyncio.fixture(loop_scope="module")
async def account(admin, field):
    return await Account(admin, field.namespace).make()


def with_token_file(proxy, folder, token):
    """A kubeconfig whose token comes from a file, and the file."""
    file, kubeconfig = folder / "token", proxy.kubeconfig(folder / "kubeconfig", client="operator")
    file.write_text(token)
    config = json.loads(kubeconfig.read_text())
    config["users"][0]["user"] = {"tokenFile": str(file)}
    kubeconfig.write_text(json.dumps(config))
    return kubeconfig, file


def replace(file, text):
    """Write a file as the kubelet does: nobody ever sees half of it."""
    fresh = file.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(file)


async def test_a_token_that_was_replaced_is_used_within_a_minute(proxy, field, start, account, tmp_path):
    """Nobody has been refused yet; the file is read again when it is a minute old."""
    first, second = await account.token("first"), await account.token("second")
    kubeconfig, file = with_token_file(proxy, tmp_path, first)
    operator = await start(speed=20, kubeconfig=kubeconfig)
    await field.reach(operator, "w", 3)

    replace(file, second)
    async with Stopwatch() as passed:
        for number in range(100):
            await field.want("w", 1 + number % 3)
            await field.quiet(0.1)
            if any(call.token == fingerprint(second) for call in proxy.calls(write())):
                break
        seconds = passed.seconds

    assert {call.token for call in proxy.calls(write())} == {fingerprint(first), fingerprint(second)}
    assert 20 * seconds <= 60 + 20 * 4  # what the test's own checks take passes as fast
    assert [call for call in proxy.calls(anything()) if call.upstream_code == 401] == []
    await field.settled(operator)


async def test_a_token_that_was_revoked_costs_one_refusal(proxy, field, start, account, tmp_path):
    """The old token is refused, a new one is in the file: found at once, not in a minute."""
    old, fresh = await account.token("old"), await account.token("fresh")
    kubeconfig, file = with_token_file(proxy, tmp_path, old)
    operator = await start(kubeconfig=kubeconfig)

    past_proxy = json.loads(field.plane.kubeconfig("admin").read_text())
    past_proxy["users"][0]["user"] = {"token": old}
    (tmp_path / "past-proxy").write_text(json.dumps(past_proxy))
    await account.revoke("old", old, tmp_path / "past-proxy")
    replace(file, fresh)
    await field.reach(operator, "w", 4)

    tokens = [call.token for call in proxy.calls(anything(client="operator")) if call.upstream_code == 401]
    assert set(tokens) == {fingerprint(old)}
    assert "Unauthorized" not in {record["cause"] for record in operator.records_of("reconcile failed; retrying")}
    oracle.nothing_twice(proxy)


async def test_a_new_authority_is_trusted_within_a_minute(proxy, field, start, tmp_path):
    """The apiserver hangs up and shows another certificate; then the kubeconfig gets the new authority."""
    operator = await start(speed=20)
    await field.reach(operator, "w", 2)

    proxy.rotate_authority()
    await field.want("w", 4)
    await field.quiet(2)
    assert proxy.open_watches(watch()) == 0, "the old authority is still trusted"
    proxy.kubeconfig(tmp_path / "kubeconfig", client="operator")
    async with Stopwatch() as passed:
        await eventually(lambda: field.has_pods("w", 4), within=60)
        assert 20 * passed.seconds <= 60 + 30 + 20 * 2  # with a pause of the reflectors, and the test's checks
    await field.settled(operator)
    oracle.nothing_twice(proxy)
