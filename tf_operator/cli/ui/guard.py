"""Who is let in: the browser of the user who has started the server, and nobody else on this machine. Pure.

Every user of the machine can reach loopback, and so can every page in the user's browser. So there are four locks:

- a token, which the printed URL has: the first request that brings it gets a cookie, every later one is refused;
- the cookie, which no script can read and no other site can have sent;
- a path that cannot be guessed, for which alone the cookie is sent: a browser does not tell ports apart, and would
  show the cookie to the server of another user at another port;
- ``Host`` and ``Origin``: a name of somebody else that leads to this machine (DNS rebinding) is not this server's.

A change needs a fifth key: the token of the page that shows its job, in a header, which no form of another site can
send. It is of no use for another job.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final

from tf_operator.local.apiserver.http.guard import Headers

PAGE_HEADER: Final = "X-Tfjob-Page"
COOKIE: Final = "tfjob-ui"
_SITES: Final = frozenset({"same-origin", "none"})
"""Who may have caused a request: a page of ours, or the user."""
ASK_AGAIN: Final = "This page needs the link that tfjob ui printed, which works once. Start tfjob ui again for another."


class NotLetIn(Exception):
    """The request is refused; the message says why."""


class BrowserGuard:
    """Lets requests to one port in."""

    def __init__(self, port: int) -> None:
        # Browsers leave the port of HTTP out.
        self._hosts = tuple(f"{name}:{port}".removesuffix(":80") for name in ("127.0.0.1", "localhost"))
        self._token = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self._secret = secrets.token_bytes(32)
        self.path = f"/{secrets.token_hex(16)}/"
        """Where all pages are."""
        self.url = f"http://{self._hosts[0]}/?token={self._token}"
        """What to open, once."""

    def check_address(self, headers: Headers) -> None:
        """``NotLetIn`` for a request under another name, or of a page of another site."""
        hosts = headers.getall("Host", ())
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise NotLetIn(f"The header Host has to be {' or '.join(self._hosts)}.")
        if any(origin != f"http://{hosts[0].lower()}" for origin in headers.getall("Origin", ())):
            raise NotLetIn("Requests from other web pages are refused.")

    def redeem(self, query: Mapping[str, str]) -> str:
        """The cookie for a token that is right and was not used before; else ``NotLetIn``."""
        expected, token = self._token, query.get("token", "")
        if not expected or not _same(token, expected):
            raise NotLetIn(ASK_AGAIN)
        self._token = ""
        return f"{COOKIE}={self._session}; Path={self.path}; HttpOnly; SameSite=Strict"

    def check_session(self, headers: Headers) -> None:
        """``NotLetIn`` without the cookie, or for a request that the page of another site has caused."""
        if any(site not in _SITES for site in headers.getall("Sec-Fetch-Site", ())):
            raise NotLetIn("Requests from other web pages are refused.")
        # Others can add cookies of this name: any that is right will do.
        cookies = [part.strip().partition("=") for text in headers.getall("Cookie", ()) for part in text.split(";")]
        if not any(name == COOKIE and _same(value, self._session) for name, _, value in cookies):
            raise NotLetIn(ASK_AGAIN)

    def token_of(self, page: str) -> str:
        """What the page of a job sends with each change of it."""
        return hmac.new(self._secret, page.encode(), hashlib.sha256).hexdigest()

    def check_change(self, headers: Headers, page: str) -> None:
        """``NotLetIn`` for a change that the page of this job has not sent."""
        tokens = headers.getall(PAGE_HEADER, ())
        # Browsers name the origin of each POST; the address has been compared with it.
        if len(headers.getall("Origin", ())) != 1 or len(tokens) != 1 or not _same(tokens[0], self.token_of(page)):
            raise NotLetIn("A change needs the token of the page that shows the job: open it again.")


def _same(text: str, expected: str) -> bool:
    """In constant time: how long a refusal takes must not tell how much was right."""
    return hmac.compare_digest(text.encode("utf-8", "surrogateescape"), expected.encode())
