"""A 401: what is asked for other credentials, and how often."""

import base64
import json
from pathlib import Path

from support.fake_clock import FakeClock
from tf_operator.machinery.transport.config import ClientConfig
from tf_operator.machinery.transport.kubeconfig_files import KubeConfigFiles
from tf_operator.machinery.transport.oidc_auth import OpenIdConnect, _Tokens
from tf_operator.machinery.transport.shared_config import SharedConfig


class Source:
    """Always has the same credentials; remembers whether the last ones had been refused."""

    def __init__(self):
        self.asked = []

    async def read(self, *, refused=False):
        self.asked.append(refused)
        return ClientConfig("http://h", "Bearer one")


async def test_an_account_that_is_refused_for_good_causes_one_read_in_ten_seconds():
    clock, source = FakeClock(), Source()
    config = SharedConfig(source, clock=clock)
    found = await config.first()

    for _ in range(100):
        assert await config.renewed(found) is found
    assert source.asked == [False, True]

    await clock.advance(10)
    await config.renewed(found)
    assert source.asked == [False, True, True]


def jwt(name):
    return f"x.{base64.urlsafe_b64encode(json.dumps({'sub': name}).encode()).decode().rstrip('=')}.x"


async def test_an_id_token_that_the_apiserver_refuses_is_refreshed_before_its_end(tmp_path: Path, monkeypatch):
    async def refreshed(*_):
        return _Tokens(jwt("new"), "r2")

    monkeypatch.setattr(OpenIdConnect, "_refreshed", refreshed)
    provider = {"name": "oidc", "config": {"id-token": jwt("old"), "refresh-token": "r1"}}
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "current-context": "x",
                "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
                "clusters": [{"name": "x", "cluster": {"server": "https://h"}}],
                "users": [{"name": "x", "user": {"auth-provider": provider}}],
            }
        )
    )
    files = KubeConfigFiles([path], context=None, clock=FakeClock())

    found = [(await files.read(refused=refused)).authorization for refused in (False, True, False)]
    assert found == [f"Bearer {jwt(name)}" for name in ("old", "new", "new")]
