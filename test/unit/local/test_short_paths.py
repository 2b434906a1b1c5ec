"""Short paths to deep folders."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from tf_operator.local import short_paths


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where links are."""
    folder = tmp_path / "p"
    folder.mkdir()
    monkeypatch.setattr(short_paths, "PLACE", folder)
    return folder


@pytest.fixture
def deep(tmp_path):
    """A folder in which no socket could be made."""
    folder = tmp_path / ("x" * 100) / "node"
    (folder / "tmp").mkdir(parents=True)
    return folder


def test_a_deep_folder_is_reached_by_a_short_path(place, deep):
    path = short_paths.short(deep / "tmp", within=deep)
    assert (path.resolve(), path.parent.parent) == ((deep / "tmp").resolve(), place)
    assert short_paths.short(deep / "tmp", within=deep) == path
    short_paths.remove(deep)
    short_paths.remove(deep)
    assert list(place.iterdir()) == []


def test_sockets_can_be_made_there(deep):
    path = short_paths.short(deep / "tmp", within=deep)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{path}/{'x' * 31}")
    finally:
        short_paths.remove(deep)


async def test_a_link_that_is_used_for_weeks_is_never_old(place, deep, clock):
    short_paths.short(deep / "tmp", within=deep)
    link = short_paths.link_to(deep)
    keeping = asyncio.ensure_future(short_paths.keep(deep, clock))
    for _ in range(2):
        os.utime(link, (0, 0), follow_symlinks=False)
        await clock.advance(24 * 3600)
        assert link.lstat().st_mtime > 0

    short_paths.remove(deep)
    await clock.advance(24 * 3600)
    keeping.cancel()
    assert list(place.iterdir()) == []


def test_a_folder_that_is_not_deep_is_itself():
    assert short_paths.short(Path("/x/tmp"), within=Path("/x")) == Path("/x/tmp")


@pytest.mark.parametrize("other", ["a file", "a link elsewhere", "no place"])
def test_what_is_in_the_way_is_not_used(place, deep, tmp_path, other):
    link = short_paths.link_to(deep)
    if other == "a file":
        link.write_text("")
    elif other == "a link elsewhere":
        link.symlink_to(tmp_path)
    else:
        place.rmdir()
    assert short_paths.short(deep / "tmp", within=deep) == deep / "tmp"


def test_a_link_of_somebody_else_is_not_used(place, deep, monkeypatch):
    short_paths.link_to(deep).symlink_to(deep)
    assert short_paths.short(deep / "tmp", within=deep) != deep / "tmp"
    uid, link = short_paths.os.geteuid(), short_paths.link_to(deep)
    monkeypatch.setattr(short_paths, "link_to", lambda _: link)
    monkeypatch.setattr(short_paths.os, "geteuid", lambda: uid + 1)
    assert short_paths.short(deep / "tmp", within=deep) == deep / "tmp"
