"""Who sees the pages of ``tfjob ui``: the user's own browser."""

import pytest
from multidict import CIMultiDict

from tf_operator.cli.ui.guard import BrowserGuard, NotLetIn

PORT = 8090
OWN = {"Host": "127.0.0.1:8090"}


@pytest.fixture
def guard():
    return BrowserGuard(PORT)


def token(guard):
    return {"token": guard.url.partition("token=")[2]}


def test_a_token_is_exchanged_once_and_only_for_the_right_one(guard):
    with pytest.raises(NotLetIn, match="works once"):
        guard.redeem({"token": "x"})
    cookie = guard.redeem(token(guard))

    assert cookie.endswith(f"; Path={guard.path}; HttpOnly; SameSite=Strict")
    for query in (token(guard), {"token": ""}, {}):
        with pytest.raises(NotLetIn, match="works once"):
            guard.redeem(query)


@pytest.mark.parametrize(
    "headers",
    [
        OWN,
        {"Host": "localhost:8090", "Origin": "http://localhost:8090"},
        {"Host": "LOCALHOST:8090"},
    ],
    ids=str,
)
def test_this_server_is_known_by_its_addresses(guard, headers):
    guard.check_address(CIMultiDict(headers))


def test_the_port_of_http_is_in_no_address():
    guard = BrowserGuard(80)

    guard.check_address(CIMultiDict({"Host": "127.0.0.1", "Origin": "http://127.0.0.1"}))
    assert guard.url.startswith("http://127.0.0.1/?token=")


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Host", "evil.example:8090")],
        [("Host", "127.0.0.1:8091")],
        [("Host", "127.0.0.1")],
        [("Host", "127.0.0.1:8090"), ("Host", "evil.example")],
        [*OWN.items(), ("Origin", "http://evil.example")],
        [*OWN.items(), ("Origin", "null")],
        [*OWN.items(), ("Origin", "http://127.0.0.1:8091")],
        [*OWN.items(), ("Origin", "http://localhost:8090")],
    ],
    ids=str,
)
def test_requests_under_other_names_and_of_other_pages_are_refused(guard, headers):
    with pytest.raises(NotLetIn):
        guard.check_address(CIMultiDict(headers))


def test_only_the_cookie_lets_in_whatever_else_others_have_set(guard):
    mine = guard.redeem(token(guard)).partition(";")[0]

    guard.check_session(CIMultiDict({"Cookie": f"other=1; tfjob-ui=forged; {mine}", "Sec-Fetch-Site": "same-origin"}))
    for headers in ({}, {"Cookie": "tfjob-ui="}, {"Cookie": f"{mine}x"}, {"Cookie": mine.replace("tfjob-ui", "other")}):
        with pytest.raises(NotLetIn, match="works once"):
            guard.check_session(CIMultiDict(headers))


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_the_cookie_is_of_no_use_to_the_page_of_another_site_or_port(guard, site):
    mine = guard.redeem(token(guard)).partition(";")[0]

    with pytest.raises(NotLetIn, match="other web pages"):
        guard.check_session(CIMultiDict({"Cookie": mine, "Sec-Fetch-Site": site}))


PAGE = "tfjob.kubeflow.org/default/j"
OURS = {**OWN, "Origin": "http://127.0.0.1:8090"}


def test_a_change_needs_the_token_of_the_page_that_shows_the_job(guard):
    token = guard.token_of(PAGE)

    guard.check_change(CIMultiDict({**OURS, "X-Tfjob-Page": token}), PAGE)
    assert token != BrowserGuard(PORT).token_of(PAGE)
    wrong = [{}, {"X-Tfjob-Page": ""}, {"X-Tfjob-Page": guard.token_of(f"{PAGE}-2")}, {"X-Tfjob-Page": f"{token}é"}]
    for headers in [{**OURS, **each} for each in wrong] + [{**OWN, "X-Tfjob-Page": token}]:
        with pytest.raises(NotLetIn, match="token of the page"):
            guard.check_change(CIMultiDict(headers), PAGE)
