"""Real networks, as root makes them and as others do; and what is said where there can be none."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tf_operator.local.node.processes import network, network_requests
from tf_operator.local.node.processes.network_requests import NetworkError

ENTER = """
import os, runpy, sys, threading, time
threading.Thread(target=time.sleep, args=[0.1]).start()  # nobody with two threads may enter a user namespace
runpy.run_path(sys.argv[1])["enter"](sys.argv[3:])
os.execv("/bin/sh", ["sh", "-c", sys.argv[2]])
"""
LOOK = "id -u; id -g; tail -n +3 /proc/net/dev | cut -d : -f 1; grep CapEff /proc/self/status"
MAKE = """
import asyncio, subprocess, sys
from tf_operator.local.node.processes import network_requests

async def main():
    made, inner = await network_requests.make()
    inner.bind(("127.0.0.1", 4000))
    inner.listen()
    connection = await network_requests.connect(made.paths, "127.0.0.1", 4000)
    print(len(made.paths), connection.getpeername()[1], flush=True)
    sys.exit(subprocess.run([*sys.argv[1:], *made.paths]).returncode)

asyncio.run(main())
"""
NOBODY = "65534"
AS_NOBODY = ("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups")
READS_FILES = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
"""Of the tests, which may be root's."""
NONE_LEFT = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"'


def shell(command, *paths):
    """How a shell with this command is started in a network."""
    return [sys.executable, "-I", "-S", "-c", ENTER, network.__file__, command, *paths]


def output_of(command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def name_of(path):
    return str(Path(path).readlink())


def is_kept(name):
    """Whether this process keeps the network with this name."""
    return any(str(link.readlink()) == name for link in Path("/proc/self/fd").iterdir() if link.is_symlink())


async def test_a_network_has_loopback_and_nothing_else_and_is_gone_when_it_is_closed():
    made, inner = await network_requests.make()
    with inner:
        inner.bind(("127.0.0.1", 4000))
        inner.listen()
        name = name_of(made.paths[-1])
        assert is_kept(name)
        with await network_requests.connect(made.paths, "127.0.0.1", 4000) as connection:
            assert connection.getpeername() == ("127.0.0.1", 4000)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", 4000))
    with pytest.raises(ConnectionRefusedError):
        await network_requests.connect(made.paths, "127.0.0.1", 4000)
    assert not any(map(os.get_inheritable, made.descriptors))
    assert output_of(shell(LOOK, *made.paths)).split()[:3] == [str(os.getuid()), str(os.getgid()), "lo"]
    made.close()
    assert not is_kept(name)
    with pytest.raises(NetworkError):  # what has the number of its descriptor now, if anything, is no network
        await network_requests.connect(made.paths, "127.0.0.1", 4000)


def test_a_user_without_rights_has_one_with_the_same_numbers_and_gets_no_rights_by_it():
    is_root = os.geteuid() == 0
    prefix = (*AS_NOBODY, *READS_FILES) if is_root else ()
    made, number, *seen = output_of([*prefix, sys.executable, "-c", MAKE, *shell(LOOK)]).split()

    user, group = (NOBODY, NOBODY) if is_root else (str(os.getuid()), str(os.getgid()))
    assert (made, number) == ("2", "4000")
    assert seen == [user, group, "lo", "CapEff:", "0" * 16]


def test_the_paths_of_a_process_are_those_in_which_this_one_is_not():
    assert network.paths_of(Path("/proc/self")) == ()
    with subprocess.Popen(["unshare", "--user", "--net", "cat"], stdin=subprocess.PIPE) as other:
        process = Path(f"/proc/{other.pid}")
        while (process / "comm").read_text() != "cat\n":
            pass
        assert network.paths_of(process) == (f"{process}/ns/user", f"{process}/ns/net")
        assert other.stdin is not None
        other.stdin.close()


def test_a_kernel_without_user_namespaces_has_processes_all_the_same(monkeypatch):
    """``tfjob exec`` and ``port-forward`` find those of jobs that are not isolated."""
    monkeypatch.setattr(network, "_KINDS", ("none", "net"))
    assert network.paths_of(Path("/proc/self")) == ()


async def test_why_there_is_none_is_a_reason(monkeypatch):
    assert await network_requests.refusal() == ""
    reason = f"import asyncio; from {network_requests.__name__} import refusal; print(asyncio.run(refusal()))"
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", NONE_LEFT, "sh", sys.executable, "-c", reason]
    assert output_of(command) == "unshare: a limit in /proc/sys/user is reached\n"

    monkeypatch.setattr(network_requests.network, "__file__", "/dev/null")
    assert await network_requests.refusal() == "the program that makes it was killed"
    monkeypatch.setattr(network.sys, "platform", "darwin")
    with pytest.raises(OSError, match="there are network namespaces on Linux only"):
        network.enter(["/proc/self/ns/net"])
