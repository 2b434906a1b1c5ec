"""What a server finds that is started again."""

import sqlite3

import pytest

from support.fake_clock import FakeClock
from support.toys import toy_kinds
from support.toys.toy_kinds import call, events, watch
from tf_operator.local.apiserver.storage.journal import SqliteJournal, UnusableJournal

TOYS = "/apis/toys.io/v1/namespaces/team/toys"


@pytest.fixture
def again(tmp_path):
    """Starts the server on the same file. The one before is not closed, as after SIGKILL."""
    journals = []

    def start():
        journals.append(SqliteJournal(tmp_path / "journal.sqlite"))
        return toy_kinds.server(FakeClock(), journal=journals[-1])

    yield start
    for journal in journals:
        journal.close()


def test_everything_is_there_with_the_same_versions(again):
    server = again()
    for name in "ab":
        call(server, "POST", TOYS, {"metadata": {"name": name}})
    call(server, "DELETE", f"{TOYS}/a")
    listing = call(server, "GET", TOYS)
    server = again()
    assert call(server, "GET", TOYS) == listing
    assert call(server, "POST", TOYS, {"metadata": {"name": "c"}})[1]["metadata"]["resourceVersion"] == "6"


@pytest.mark.parametrize("raw", [b"", b"\0\0", b"[]", b"{}", b'{"metadata": {"name": "a"}}', "text"])
def test_a_row_that_is_no_object_is_named(again, tmp_path, raw):
    call(again(), "POST", TOYS, {"metadata": {"name": "a"}})
    file = tmp_path / "journal.sqlite"
    with sqlite3.connect(file) as connection:
        connection.execute("update objects set body = ? where path = 'team/a'", (raw,))
    connection.close()
    with pytest.raises(UnusableJournal, match="the object team/a in it is damaged"):
        again()


def test_nobody_else_may_read_it(again, tmp_path):
    call(again(), "POST", TOYS, {"metadata": {"name": "a"}})
    files = [*tmp_path.iterdir()]
    assert len(files) == 3  # two beside it
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_a_watch_goes_on_from_the_last_version_and_no_earlier_one(again):
    call(again(), "POST", TOYS, {"metadata": {"name": "a"}})
    server = again()
    reached, earlier = (watch(server, TOYS, resourceVersion=version) for version in "32")
    call(server, "POST", TOYS, {"metadata": {"name": "b"}})
    assert events(reached) == ["ADDED b 4"]
    assert events(earlier) == ["ERROR"]


def test_definitions_and_owners_are_known_again(again):
    server = again()
    call(server, "POST", "/api/v1/definitions", {"metadata": {"name": "apps"}, "spec": {"plural": "apps"}})
    apps = "/apis/made.io/v1/namespaces/team/apps"
    owner = {"apiVersion": "toys.io/v1", "kind": "Toy", "name": "x", "uid": "gone"}
    assert call(server, "POST", apps, {"metadata": {"name": "one", "ownerReferences": [owner]}})[0] == 201
    server = again()
    assert call(server, "GET", f"{apps}/one")[0] == 200
    assert server.collect()
    assert call(server, "GET", f"{apps}/one")[0] == 404


def test_a_definition_that_cannot_be_read_does_not_keep_the_server_from_starting(again):
    assert call(again(), "POST", "/api/v1/definitions", {"metadata": {"name": "unreadable"}})[0] == 201
    server = again()
    assert call(server, "GET", "/api/v1/definitions/unreadable")[0] == 200
    call(server, "DELETE", "/api/v1/definitions/unreadable")
    server.collect()
    assert call(server, "GET", "/api/v1/definitions/unreadable")[0] == 404


def test_a_full_disk_is_said_to_whoever_writes(again, tmp_path):
    server = again()
    with sqlite3.connect(tmp_path / "journal.sqlite") as other:
        other.execute("create trigger full before insert on objects begin select raise(abort, 'disk is full'); end")
    other.close()

    code, answer = call(server, "POST", TOYS, {"metadata": {"name": "a"}})

    assert (code, answer["message"].partition(": ")[2]) == (
        500,
        f"{tmp_path / 'journal.sqlite'} cannot be written: disk is full",
    )


def test_what_could_not_be_kept_has_not_happened(again, monkeypatch):
    server = again()
    stream = watch(server, TOYS, resourceVersion="2")
    with monkeypatch.context() as patch:
        patch.setattr(SqliteJournal, "write", None)
        assert call(server, "POST", TOYS, {"metadata": {"name": "a"}})[0] == 500
    assert (call(server, "GET", f"{TOYS}/a")[0], events(stream)) == (404, [])
