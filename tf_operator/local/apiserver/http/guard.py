"""Who is let in: whoever has the token, and no page in a browser. Pure.

The server listens on loopback, where every user of the machine and every page in a browser can reach it. A page cannot
read the token; that it may not even ask is the second lock: its requests have an ``Origin``, or, when a name of its
own leads to this machine (DNS rebinding), a foreign ``Host``.
"""

import hmac
from collections.abc import Sequence
from typing import Protocol

from tf_operator.local.apiserver.messages import ApiFailure


class Headers(Protocol):
    """Headers, whose names have no case, and of which each may be there several times."""

    def getall(self, key: str, default: Sequence[str]) -> Sequence[str]:
        """All values of one."""


class Guard:
    """Lets requests of one port in."""

    def __init__(self, token: str, *, hosts: Sequence[str], port: int) -> None:
        """``hosts`` are the names that the server's certificate has."""
        self._token = token.encode()
        names = [f"[{host}]" if ":" in host else host for host in hosts]
        self._hosts = {f"{name}:{port}" for name in names}

    def check(self, headers: Headers) -> None:
        hosts = headers.getall("Host", ())
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise ApiFailure(403, "Forbidden", f"the header Host has to be one of: {', '.join(sorted(self._hosts))}")
        if headers.getall("Origin", ()):
            raise ApiFailure(403, "Forbidden", "requests of web pages (with the header Origin) are not let in")
        credentials = headers.getall("Authorization", ())
        scheme, _, token = credentials[0].partition(" ") if len(credentials) == 1 else ("", "", "")
        # Compared in constant time: how long a refusal takes must not tell how much of a token was right.
        is_token = hmac.compare_digest(token.encode("utf-8", "surrogateescape"), self._token)
        if scheme.lower() != "bearer" or not is_token:
            raise ApiFailure(401, "Unauthorized", "Unauthorized")
