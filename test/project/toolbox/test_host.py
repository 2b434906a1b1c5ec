"""The machine is named as Go and the release pages name it, or refused in words."""

import pytest

from toolbox.errors import UnsupportedPlatform
from toolbox.host import this_host


@pytest.mark.parametrize(
    ("system", "machine", "host"),
    [
        ("Linux", "x86_64", "linux/amd64"),
        ("Linux", "aarch64", "linux/arm64"),
        ("Darwin", "arm64", "darwin/arm64"),
        ("Darwin", "x86_64", "darwin/amd64"),
    ],
)
def test_a_supported_machine_is_spelled_as_go_does(system, machine, host):
    assert str(this_host(system, machine)) == host


@pytest.mark.parametrize(("system", "machine"), [("Windows", "AMD64"), ("Linux", "riscv64")])
def test_any_other_machine_is_refused_and_told_what_to_use(system, machine):
    with pytest.raises(UnsupportedPlatform, match=f"there are no tools for {system} on {machine}") as refused:
        this_host(system, machine)

    assert "use Linux or macOS, on amd64 or arm64" in refused.value.advice
