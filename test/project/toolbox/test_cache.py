"""The cache folder is where its variables say, and a finished tool appears there in one step."""

from pathlib import Path

import pytest

from toolbox import cache


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        ({}, Path.home() / ".cache" / "tf-operator"),
        ({"XDG_CACHE_HOME": "/x"}, Path("/x/tf-operator")),
        ({"XDG_CACHE_HOME": "/x", "TF_OPERATOR_CACHE": "/mine"}, Path("/mine")),
        ({"TF_OPERATOR_CACHE": "~/mine"}, Path.home() / "mine"),
        ({"TF_OPERATOR_CACHE": ""}, Path.home() / ".cache" / "tf-operator"),
    ],
    ids=["default", "XDG", "ours", "home", "empty"],
)
def test_the_folder_is_where_the_variables_say(environ, root):
    assert cache.cache_root(environ) == root


def test_a_published_tool_can_be_run_and_takes_the_place_of_another(tmp_path):
    finished = tmp_path / "alpha-1.2.3" / "alpha"
    for text in ("first", "second"):
        made = tmp_path / "made"
        made.write_text(text)
        made.chmod(0o600)

        cache.publish(made, finished)

    assert finished.read_text() == "second"
    assert finished.stat().st_mode & 0o777 == 0o755
    assert not made.exists()
