"""Where pods report, with the authority of the moment."""

import errno
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from tf_operator.app.http.certificates import CertificateError
from tf_operator.app.progress.serving import with_server
from tf_operator.planning.bodies.progress_reporting import ProgressServer
from tf_operator.planning.snapshot import Settings

URL = "https://here:9444"
PLAIN = Settings(cluster_domain="cluster.example")


@pytest.fixture
def authority(tmp_path):
    file = tmp_path / "ca.crt"
    file.write_text("first")
    return file


def settings(authority, plain):
    return with_server(SimpleNamespace(url=URL, folder=str(authority.parent)), plain)


def put(authority, content):
    """As a Secret is renewed: another file takes the place of the first."""
    new = authority.with_name("new")
    new.write_bytes(content)
    new.replace(authority)


def test_a_pod_gets_the_authority_that_is_in_the_file_when_it_is_made(authority):
    current = settings(authority, lambda: PLAIN)
    before = current()
    assert before == replace(PLAIN, progress=ProgressServer(URL, authority="first"))

    put(authority, b"second")
    assert current().progress.authority == "second"
    assert current() is current()


def test_other_settings_change_as_before(authority):
    plain = [PLAIN, Settings(cluster_domain="b")]
    current = settings(authority, lambda: plain[0])
    del plain[0]

    assert (current().cluster_domain, current().progress.authority) == ("b", "first")


@pytest.mark.parametrize("break_it", [os.remove, lambda file: put(file, b"\xff")], ids=["it is missing", "no text"])
def test_while_the_authority_cannot_be_read_pods_get_the_last_one_and_the_log_says_so_once(authority, break_it):
    current = settings(authority, lambda: PLAIN)
    break_it(authority)
    with capture_logs() as logs:
        assert [current().progress.authority for _ in range(3)] == ["first"] * 3
    assert [entry["event"] for entry in logs] == ["new pods get the authority that was read last"]

    put(authority, b"second")
    assert current().progress.authority == "second"


def test_an_authority_that_could_not_be_read_for_a_moment_is_read_again(authority, monkeypatch):
    current = settings(authority, lambda: PLAIN)
    put(authority, b"second")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
        assert current().progress.authority == "first"

    assert current().progress.authority == "second"


def test_where_no_pod_reports_nothing_is_read():
    assert with_server(None, lambda: PLAIN)() is PLAIN


def test_without_an_authority_the_operator_does_not_start(tmp_path):
    with pytest.raises(CertificateError, match=r"the authority of reports of progress: .*/ca\.crt cannot be read"):
        settings(tmp_path / "ca.crt", lambda: PLAIN)
