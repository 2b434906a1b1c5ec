"""The eyes of the other tests here: a page that is wrong on purpose is seen to be wrong."""

import pytest

from support.disturbances.loopback import Loopback, reply
from support.partners.browser import ONE_BROWSER, Visitor, audit, scrolls_sideways

pytestmark = ONE_BROWSER

HEAD = "<!doctype html><html lang=en><title>page</title><link rel=icon href=data:,><main><h1>page</h1>"


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("<script>console.error('broken')</script>", "broken"),
        ("<script>absent()</script>", "absent is not defined"),
        ("<img alt='' src=/gone.png>", "/gone.png is answered with 404"),
        ("<img alt='' src=https://example.com/font.png>", "is not on this machine"),
    ],
)
async def test_page_that_does_what_it_should_not_fails_the_test(visitor: Visitor, body: str, complaint: str) -> None:
    async with Loopback(
        lambda request: reply(404 if request.target == "/gone.png" else 200, (HEAD + body).encode())
    ) as site:
        await visitor.open(site.url)
        with pytest.raises(AssertionError, match=complaint):
            await visitor.close()


async def test_page_that_some_people_cannot_read_is_found(visitor: Visitor) -> None:
    body = "<p style='color: #aaa'>pale</p><img src=data:,><pre style='width: 800px'>wide</pre>"
    async with Loopback(reply(200, (HEAD + body).encode())) as site:
        page = await visitor.open(site.url, narrow=True)
        rules = {line.split(": ")[1] for line in await audit(page)}
        assert rules == {"color-contrast (serious)", "image-alt (critical)"}
        assert await scrolls_sideways(page)
        wide = await visitor.open(site.url)
        assert not await scrolls_sideways(wide)
