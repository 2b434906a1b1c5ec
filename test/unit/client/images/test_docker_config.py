"""Logins of docker."""

import base64
import json
import os

import pytest

from tf_operator.client.images import docker_config
from tf_operator.client.images.docker_config import Login
from tf_operator.client.job import NotPossible


@pytest.fixture
def write(tmp_path):
    """Writes docker's configuration, and returns an environment with it."""

    def write(config: object) -> dict[str, str]:
        text = config if isinstance(config, str) else json.dumps(config)
        (tmp_path / "config.json").write_text(text)
        return {"DOCKER_CONFIG": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    return write


@pytest.fixture
def helper(tmp_path):
    """Writes a credential helper: a script of the shell."""

    def helper(script: str) -> None:
        path = tmp_path / "docker-credential-safe"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    return helper


def auth(user: str, password: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


@pytest.mark.parametrize(
    ("registry", "auths", "login"),
    [
        ("r.example.com", {"r.example.com": auth("ann", "a:b")}, Login("ann", "a:b")),
        ("r.example.com", {"https://r.example.com": auth("ann", "x")}, Login("ann", "x")),
        ("docker.io", {"https://index.docker.io/v1/": auth("ann", "x")}, Login("ann", "x")),
        ("r.example.com", {"r.example.com": {"username": "ann", "password": "x"}}, Login("ann", "x")),
        (
            "r.example.com",
            {"r.example.com": {**auth("ann", ""), "identitytoken": "t"}},
            Login("ann", "", identity_token="t"),
        ),
        ("r.example.com", {"r.example.com": {}}, None),
        ("r.example.com", {"other.example.com": auth("ann", "x")}, None),
    ],
    ids=["auth", "https", "hub", "plain", "token", "empty", "other"],
)
async def test_a_stored_login_is_read(write, registry, auths, login):
    assert await docker_config.login(registry, write({"auths": auths})) == login


async def test_without_a_configuration_there_is_no_login(tmp_path):
    assert await docker_config.login("r.example.com", {"DOCKER_CONFIG": str(tmp_path / "absent")}) is None


@pytest.mark.parametrize("config", ["{", {"auths": {"r.example.com": {"auth": "%"}}}], ids=["json", "auth"])
async def test_a_damaged_configuration_is_a_sentence(write, config):
    with pytest.raises(NotPossible, match=r"is not JSON|is damaged; docker login r.example.com writes it again"):
        await docker_config.login("r.example.com", write(config))


async def test_a_helper_is_asked_before_what_is_stored(write, helper):
    helper('read -r server; echo \'{"Username": "\'$1\'", "Secret": "\'$server\'"}\'')
    environment = write({"credsStore": "safe", "auths": {"docker.io": auth("ann", "x")}})

    assert await docker_config.login("docker.io", environment) == Login("get", "https://index.docker.io/v1/")


async def test_a_helper_of_the_registry_is_asked_before_that_of_all(write, helper):
    helper('echo \'{"Username": "<token>", "Secret": "t"}\'')
    environment = write({"credsStore": "absent", "credHelpers": {"r.example.com": "safe"}})

    assert await docker_config.login("r.example.com", environment) == Login(identity_token="t")


async def test_a_helper_without_a_login_is_none(write, helper):
    helper("echo 'credentials not found in native keychain'; exit 1")

    assert await docker_config.login("r.example.com", write({"credsStore": "safe"})) is None


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo password-in-output; exit 3", "docker-credential-safe ended with code 3 when asked for the login for"),
        ("echo password-in-output", "docker-credential-safe printed no login for r.example.com"),
        (None, "docker's logins are with docker-credential-safe, which cannot be run: No such file"),
    ],
    ids=["fails", "output", "absent"],
)
async def test_a_helper_that_fails_is_a_sentence_without_its_output(write, helper, script, sentence):
    if script:
        helper(script)
    with pytest.raises(NotPossible) as refusal:
        await docker_config.login("r.example.com", write({"credsStore": "safe"}))

    assert sentence in str(refusal.value)
    assert "password-in-output" not in str(refusal.value)


def test_a_login_shows_no_secret():
    assert "hidden" not in repr(Login("ann", "hidden", identity_token="hidden"))
