"""A consistent list, page by page."""

from contextlib import aclosing

import pytest

from support.sample_objects import THINGS, thing
from support.scripted_transport import page
from tf_operator.machinery.cache import pager
from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.requests import EVERYWHERE, Scope

EXPIRED = errors.refused(410, b'{"reason": "Expired"}')


class Script:
    def __init__(self, *replies):
        self.replies = list(replies)
        self.queries = []

    async def send(self, request):
        self.queries.append(dict(request.query))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


async def read(script, scope=EVERYWHERE):
    async with aclosing(pager.pages(script.send, THINGS, scope)) as leaves:
        return [(leaf.is_first, len(leaf.page.items), leaf.page.resource_version) async for leaf in leaves]


async def test_a_list_is_read_in_pages_of_one_moment_and_never_from_a_stale_cache():
    script = Script(
        page([thing("a", 1), thing("b", 2)], version=9, token="one"),
        page([thing("c", 3)], version=9, token="two"),
        page([], version=9),
    )

    assert await read(script, Scope("ns", "job=x", "status.phase=Running")) == [
        (True, 2, "9"),
        (False, 1, "9"),
        (False, 0, "9"),
    ]
    selectors = {"labelSelector": "job=x", "fieldSelector": "status.phase=Running", "limit": "500"}
    assert script.queries == [selectors, selectors | {"continue": "one"}, selectors | {"continue": "two"}]
    assert not any("resourceVersion" in query for query in script.queries), "0 would be whatever a cache has"


async def test_the_list_begins_again_in_one_piece_when_its_token_has_expired():
    """client-go: TestReflectorFullListIfExpired, for a continue token."""
    script = Script(page([thing("a", 1)], version=9, token="one"), EXPIRED, page([thing("b", 2)], version=20))

    assert await read(script) == [(True, 1, "9"), (True, 1, "20")]
    assert script.queries[2] == {"limit": "0"}


PAGE = page([], version=9, token="one")


@pytest.mark.parametrize(
    ("replies", "error"),
    [
        pytest.param([EXPIRED], errors.Expired, id="on the first page"),
        pytest.param([PAGE, errors.refused(500, b"")], errors.ServerFailed, id="on a later page"),
        pytest.param([PAGE, EXPIRED, EXPIRED], errors.Expired, id="in one piece"),
        pytest.param([PAGE] * 3, errors.Garbled, id="a page that leads to itself"),
        pytest.param([b"<html>"], errors.Garbled, id="HTML"),
    ],
)
async def test_an_error_is_the_callers(replies, error):
    with pytest.raises(error):
        await read(Script(*replies))
