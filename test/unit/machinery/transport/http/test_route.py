"""Heads of requests: each is what was asked for, and no value can add a line to one."""

import re
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as some
from yarl import URL

from tf_operator.machinery.transport import errors
from tf_operator.machinery.transport.config import ClientConfig
from tf_operator.machinery.transport.http.route import HttpRoute
from tf_operator.machinery.transport.requests import Request

GET = Request("get", "GET", "/version")


def route(host="https://h", **options):
    return HttpRoute(ClientConfig(host, **options), user_agent="me/1")


def lines(head):
    return head.decode().split("\r\n")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("https://h", "h"),
        ("https://h:443", "h"),
        ("https://h:6443/", "h:6443"),
        ("http://h:80", "h"),
        ("https://[::1]", "[::1]"),
        ("https://[::1]:6443/x", "[::1]:6443"),
        ("https://Bücher.example:1", "xn--bcher-kva.example:1"),
    ],
)
def test_the_host_is_named_as_it_is_addressed(host, expected):
    assert f"Host: {expected}" in lines(route(host).head(GET))


def test_a_user_in_the_address_is_let_in_by_password_unless_there_is_a_token():
    assert "Authorization: Basic bWU6YSBi" in lines(route("https://me:a%20b@h").head(GET))
    assert "Authorization: Bearer t" in lines(route("https://me:p@h", authorization="Bearer t").head(GET))


def test_a_proxy_sees_requests_only_where_nothing_is_encrypted():
    secret, plain = (route(f"{scheme}://h/x", proxy="http://me:p@proxy:3128") for scheme in ("https", "http"))

    assert lines(secret.head(GET))[0] == "GET /x/version HTTP/1.1"
    assert lines(plain.head(GET))[0] == "GET http://h/x/version HTTP/1.1"
    assert [any("Proxy-Authorization" in line for line in lines(each.head(GET))) for each in (secret, plain)] == [0, 1]
    assert lines(secret.way.tunnel_head()) == [
        "CONNECT h:443 HTTP/1.1",
        "Host: h:443",
        "Proxy-Authorization: Basic bWU6cA==",
        "",
        "",
    ]


@pytest.mark.parametrize("host", ["", "h", "http://", "ftp://h", "http://h:99999999", "https://h:x", "https://[::1"])
def test_an_address_that_is_none_is_an_error(host):
    with pytest.raises(ValueError):  # noqa: PT011 (of whoever reads addresses)
        route(host)


def test_no_credentials_can_add_a_header():
    for value in ("Bearer a\r\nX: y", "Bearer a\n", "Bearer é", "Bearer a\x00b", " "):
        with pytest.raises(ValueError, match="a header") as failure:
            route(authorization=value)
        assert "Bearer" not in str(failure.value)


@given(
    method=some.sampled_from(["GET", "PUT", "get", "G T", "GET\r\n"]),
    path=some.text(max_size=20).map("/".__add__),
    query=some.dictionaries(some.text(max_size=9), some.text(max_size=9), max_size=3),
    content_type=some.one_of(some.just("application/json"), some.text(max_size=9)),
    body=some.none() | some.binary(max_size=9),
)
def test_a_head_has_the_lines_that_it_should_have_whatever_is_asked_for(method, path, query, content_type, body):
    try:
        head = route().head(Request("get", method, path, query, body, content_type))
    except (errors.Unreachable, ValueError):
        assert (
            not re.fullmatch("[A-Z]+", method)
            or not re.fullmatch("[!-~]+", path)
            or content_type.strip() != ("application/json")
        )
        return
    first, *others = lines(head)
    names = [line.partition(": ")[0] for line in others]
    assert names[:4] == ["Host", "User-Agent", "Accept-Encoding", "Accept"]
    about = [] if body is None else ["Content-Type"]
    assert names[4:] == [*about, *(["Content-Length"] if body is not None or method != "GET" else []), "", ""]
    assert len(first.split(" ")) == 3


def test_the_form_that_is_asked_for_is_said():
    form = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

    assert f"Accept: {form}" in lines(route().head(Request("list", "GET", "/x", accept=form)))
    assert "Accept: application/json" in lines(route().head(GET))


@given(query=some.dictionaries(some.text(), some.text(), min_size=1))
def test_a_query_arrives_as_it_was_asked_for(query):
    target = lines(route().head(Request("list", "GET", "/x", query)))[0].split(" ")[1]

    assert dict(parse_qsl(urlsplit(target).query, keep_blank_values=True, strict_parsing=True)) == query
    assert target == str(URL("https://h/x", encoded=True).with_query(query).relative())
