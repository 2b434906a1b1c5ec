"""Who is let in: the token, and no page in a browser."""

import pytest
from multidict import CIMultiDict

from tf_operator.local.apiserver.http.guard import Guard
from tf_operator.local.apiserver.messages import ApiFailure

GOOD = (("Host", "127.0.0.1:6443"), ("Authorization", "Bearer right"))


@pytest.fixture
def guard():
    return Guard("right", hosts=("127.0.0.1", "localhost", "::1"), port=6443)


@pytest.mark.parametrize("host", ["127.0.0.1:6443", "localhost:6443", "LOCALHOST:6443", "[::1]:6443"])
def test_the_token_is_let_in_by_each_name_of_loopback(guard, host):
    guard.check(CIMultiDict([("host", host), GOOD[1]]))


def test_the_scheme_of_credentials_has_no_case(guard):
    guard.check(CIMultiDict([GOOD[0], ("Authorization", "bearer right")]))


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        pytest.param([GOOD[0]], 401, id="no token"),
        pytest.param([GOOD[0], ("Authorization", "Bearer wrong")], 401, id="wrong token"),
        pytest.param([GOOD[0], ("Authorization", "Bearer r\udce9ght\u20ac")], 401, id="token that is no text"),
        pytest.param([GOOD[0], ("Authorization", "Basic right")], 401, id="other scheme"),
        pytest.param([*GOOD, GOOD[1]], 401, id="two tokens"),
        pytest.param([GOOD[1]], 403, id="no host"),
        pytest.param([*GOOD, GOOD[0]], 403, id="two hosts"),
        pytest.param([("Host", "evil.example:6443"), GOOD[1]], 403, id="DNS rebinding"),
        pytest.param([("Host", "127.0.0.1"), GOOD[1]], 403, id="other port"),
        pytest.param([*GOOD, ("Origin", "https://127.0.0.1:6443")], 403, id="a page, even of the server's own"),
        pytest.param([*GOOD, ("origin", "null")], 403, id="a page without a name"),
    ],
)
def test_others_are_not_let_in(guard, headers, code):
    with pytest.raises(ApiFailure) as refusal:
        guard.check(CIMultiDict(headers))
    assert refusal.value.code == code
