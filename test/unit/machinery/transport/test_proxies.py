"""Proxies from the environment: each row of proxies.yaml, which was computed by Go, and what cannot be used."""

from pathlib import Path

import pytest
import yaml

from tf_operator.machinery.transport import proxies
from tf_operator.machinery.transport.config import ConfigurationError

TABLE = yaml.safe_load(Path(__file__).with_name("proxies.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", TABLE, ids=lambda row: "_".join(row["environment"].values()))
def test_the_proxy_is_the_one_that_go_chooses(row):
    choices = {target: proxies.from_environment(target, row["environment"]) or "" for target in row["proxies"]}

    assert choices == row["proxies"]


PASSWORD = "s3cr3t"
UNUSABLE = {
    "socks": (f"socks5://u:{PASSWORD}@p:1080", "HTTPS_PROXY has to be http:// or https://; other proxies"),
    "another scheme": (f"{PASSWORD}://p", "HTTPS_PROXY has to be http:// or https://"),
    "a blank": (f"http://u:{PASSWORD}@a b", "HTTPS_PROXY is not the address of a proxy"),
    "no number as port": (f"http://u:{PASSWORD}@p:x", "HTTPS_PROXY is not the address of a proxy"),
    "port 0": (f"http://u:{PASSWORD}@p:0", "HTTPS_PROXY is not the address of a proxy"),
    "no host": (f"http://u:{PASSWORD}@", "HTTPS_PROXY is not the address of a proxy"),
    "spaces": (" ", "HTTPS_PROXY is not the address of a proxy"),
}


@pytest.mark.parametrize(("value", "problem"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_a_proxy_that_cannot_be_used_is_named_by_its_variable_and_not_shown(value, problem):
    environment = {"HTTPS_PROXY": value, "NO_PROXY": "direct"}

    with pytest.raises(ConfigurationError) as failure:
        proxies.from_environment("https://h:6443", environment)

    assert problem in str(failure.value)
    assert PASSWORD not in str(failure.value)
    assert proxies.from_environment("https://direct:6443", environment) is None


def test_a_cgi_program_does_not_trust_a_variable_that_a_header_may_have_set():
    environment = {"HTTP_PROXY": "http://p", "REQUEST_METHOD": "GET"}

    with pytest.raises(ConfigurationError, match="HTTP_PROXY is not used in a CGI program"):
        proxies.from_environment("http://h", environment)
    assert proxies.from_environment("http://localhost", environment) is None
