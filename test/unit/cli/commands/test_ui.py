"""``tfjob ui`` as a command: what it prints, opens and ends with."""

import asyncio
import os
import re
import signal
import socket
from pathlib import Path
from unittest.mock import AsyncMock, Mock
from urllib.parse import unquote, urlsplit

import pytest

from support.embedded.embedded_jobs import EmbeddedJobs
from tf_operator.cli import main, session, target
from tf_operator.cli.commands import ui
from tf_operator.cli.commands.ui import ProblemReporter
from tf_operator.cli.ui import scopes
from tf_operator.client.cluster import ClusterChoice
from tf_operator.local.log_transport import LogTransport
from tf_operator.machinery.clock import SystemClock
from tf_operator.machinery.transport import errors

STOPPED = ui._stopped


@pytest.fixture
def call(monkeypatch, capsys):
    """Call it with a command line, and interrupt it once it serves; its exit code, and what was printed."""
    cluster = EmbeddedJobs(SystemClock())

    def interrupted():
        event = asyncio.Event()
        event.set()
        return event

    def run(line):
        code = main.main(line.split())
        output = capsys.readouterr()
        return code, output.out + output.err

    monkeypatch.setattr(session, "make_jobs", lambda arguments, _: cluster.client(kind=arguments.kind))
    monkeypatch.setattr(target, "choose", lambda _: ClusterChoice(None, None, "the cluster of a test"))
    monkeypatch.setattr(ui, "_stopped", interrupted)
    return run


def test_it_prints_a_link_and_ends_when_it_is_interrupted(call):
    code, output = call("ui --no-browser")

    link = r"  http://127\.0\.0\.1:\d+/\?token=[\w-]{43}\n"
    assert code == 0
    assert re.fullmatch(rf"Jobs of in-process:\n{link}The link works once; Ctrl-C ends\.\n", output)


def test_without_the_right_to_list_jobs_the_terminal_names_it_and_the_page_waits_for_it(call, monkeypatch):
    def refuse(*_, **__):
        raise errors.Forbidden(403, errors.Status(message="you may not"))

    monkeypatch.setattr(LogTransport, "send", refuse)
    monkeypatch.setattr(scopes, "_is_served", AsyncMock(return_value=True))
    code, output = call("ui --no-browser -n team")

    advice = "tfjob doctor shows what is missing; --namespace names another namespace"
    assert (code, "The link works once" in output, f"tfjob: you may not; {advice}\n" in output) == (0, True, True)


def test_it_is_interrupted_while_it_waits_for_an_api_server_that_is_silent(call, monkeypatch):
    async def visible(*_):
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(1)
        return Mock(refusal="", scopes=(), note="")

    monkeypatch.setattr(ui, "_stopped", STOPPED)
    monkeypatch.setattr(scopes, "visible", visible)

    assert call("ui --no-browser") == (130, "")


def test_the_terminal_says_once_that_jobs_may_be_old_and_once_that_they_are_not(capsys):
    board = Mock(problem="it is gone")
    reporter = ProblemReporter(board)
    for board.problem in ("it is gone", "it is gone", "", ""):
        reporter.report()

    assert capsys.readouterr().err == "tfjob: it is gone\ntfjob: the API server shows all jobs again\n"


def test_a_browser_gets_the_link_in_a_file_that_nobody_else_can_read(call, monkeypatch):
    opened = []

    def show(uri):
        page = Path(unquote(urlsplit(uri).path))
        opened.append((uri, page.read_text(), page.parent.stat().st_mode & 0o777))

    class AtOnce:
        """A thread that is over when it begins."""

        def __init__(self, target, args, **_options):
            target(*args)

        def start(self):
            pass

    monkeypatch.setattr(ui.webbrowser, "open", show)
    monkeypatch.setattr(ui.threading, "Thread", AtOnce)
    _, output = call("ui")

    ((uri, page, mode),) = opened
    url = re.search(r"http://\S+", output)[0]
    assert (url.partition("token=")[2] in uri, f"url={url}" in page, mode) == (False, True, 0o700)


def test_a_port_that_cannot_be_used_is_named(call):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, output = call(f"ui --no-browser --port {port}")

    assert (code, output) == (1, f"tfjob: port {port} cannot be used (Address already in use): --port names another\n")
    with pytest.raises(SystemExit):
        call("ui --port 70000")
