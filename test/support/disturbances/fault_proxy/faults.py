"""The catalogue of faults; a trigger and ``proxy.on`` say when they act.

    proxy.on(watch("pods", event="MODIFIED"), do=faults.duplicate())
    proxy.on(create("pods"), do=faults.lose_reply(), nth=3)
    proxy.on(anything(), do=faults.fail(500, 502, 503), chance=0.2)
    proxy.now(watch("pods"), do=faults.half_open())

[L]: acts on lines of watches. [R]: on requests. [LR]: on lines with ``watch``, on requests with any other trigger.
[N]: also at once on open watches, by ``proxy.now``. What concerns whole connections is a method of the proxy.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import urlsplit

from support.disturbances.fault_proxy.messages import JSON_TYPE, Body, Cut, Ending, Raw, Reply, pieces_of, with_header
from support.disturbances.fault_proxy.request import Json, decoded
from support.disturbances.fault_proxy.rule import Exchange, Fault, Rule
from support.disturbances.fault_proxy.watch import Line, Output, WatchStream

CLEAN, FIN, RST, SILENT = Ending.CLEAN, Ending.FIN, Ending.RST, Ending.SILENT

_REASONS = {
    410: "Expired",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    502: "",
    504: "Timeout",
}
_NOT_GZIP = bytes.fromhex("1f8b0800000000000003") + b"\xff" * 64
"""The head of a gzip file and a block of a type that does not exist."""
_TOO_MUCH = 1000


def status(code: int, message: str, *, reason: str | None = None, details: Json | None = None) -> Json:
    """Make a Status as an apiserver sends it; without a *reason* the usual one of its code."""
    usual = _REASONS.get(code, HTTPStatus(code).phrase.replace(" ", ""))
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": usual if reason is None else reason,
        "details": details,
        "code": code,
    }
    return {key: value for key, value in body.items() if value not in (None, "")}


# Time


def hold() -> Fault:
    """[LR] Hold the request, or the line and all behind it, until ``rule.release()``."""

    async def on_line(rule: Rule, line: Line, stream: WatchStream) -> Output:
        await stream.wait(rule.released.wait())
        return [line]

    return Fault("hold", _after_wait(lambda rule: rule.released.wait()), on_line)


def delay(seconds: float) -> Fault:
    """[LR] Deliver each line *seconds* after it arrived, in order; or forward the request that much later."""

    async def on_line(_rule: Rule, line: Line, stream: WatchStream) -> Output:
        stream.read_ahead()
        return [line.delayed(seconds)]

    return Fault(f"delay({seconds})", _after_wait(lambda _: asyncio.sleep(seconds)), on_line)


def call(act: Callable[[], Any]) -> Fault:
    """[R] Call a function of the test, in a thread of its own, and forward the request when it has returned."""
    return Fault("call", _after_wait(lambda _: asyncio.to_thread(act)))


def _after_wait(wait: Callable[[Rule], Awaitable[object]]) -> Callable[[Rule, Exchange], Awaitable[Reply]]:
    async def on_request(rule: Rule, exchange: Exchange) -> Reply:
        await wait(rule)
        return await exchange.proceed()

    return on_request


# Lines of a watch


def drop() -> Fault:
    """[L] Leave the line out."""
    return _lines("drop", lambda _line: [])


def duplicate(times: int = 1) -> Fault:
    """[L] Send the line again, *times* times."""
    return _lines("duplicate", lambda line: [line] * (1 + times))


def replay() -> Fault:
    """[L] After the line, send the event before it of the same object. Does not act if none is known."""

    async def on_line(_rule: Rule, line: Line, stream: WatchStream) -> Output:
        older = stream.log.older(line)
        return [line, replace(older, due=0.0)] if older else [line]

    return Fault("replay", on_line=on_line, fits=lambda line, stream: stream.log.older(line) is not None)


def rewrite(change: Callable[[Any], Json | bytes]) -> Fault:
    """[L] Send the event that *change* makes of it, or these bytes."""

    def changed(line: Line) -> Output:
        event = change(decoded(line.raw))
        raw = event + b"\n" if isinstance(event, bytes) else Line.of(event).raw
        return [replace(line, raw=raw)]

    return _lines("rewrite", changed)


def set_version(version: int) -> Fault:
    """[L] Give the event another resourceVersion: a bookmark that jumps."""

    def change(event: Json) -> Json:
        event["object"]["metadata"]["resourceVersion"] = str(version)
        return event

    return rewrite(change)


def split(pause: float = 0.05) -> Fault:
    """[L] Send the line in two pieces with a pause between them."""

    def halves(line: Line) -> Output:
        half = len(line.raw) // 2
        return [Line(line.raw[:half], line.at, line.due), Line(line.raw[half:], line.at).delayed(pause)]

    return _lines("split", halves)


def unknown_event(type: str = "FLUSHED") -> Fault:  # noqa: A002 - the name that the API uses
    """[L] Before the line, send another with the same object and an unknown type."""
    return _lines(f"unknown_event({type})", lambda line: [Line.of((decoded(line.raw) or {}) | {"type": type}), line])


def _lines(label: str, change: Callable[[Line], Output], *, now: Callable[[], Output] | None = None) -> Fault:
    async def on_line(_rule: Rule, line: Line, _stream: WatchStream) -> Output:
        return change(line)

    return Fault(label, on_line=on_line, now=now)


# The end of a watch


def cut(ending: Ending = CLEAN, where: Literal["before", "within", "after"] = "before") -> Fault:
    """[LN] End the stream before the line, in the middle of it or after it."""

    def shortened(line: Line) -> Output:
        keep = {"before": 0, "within": len(line.raw) // 2, "after": len(line.raw)}[where]
        return [replace(line, raw=line.raw[:keep]), Cut(ending)] if keep else [Cut(ending)]

    return _lines(f"cut({ending.value}, {where})", shortened, now=lambda: [Cut(ending)])


def half_open() -> Fault:
    """[LRN] From here on no byte moves on this connection, which stays open."""
    return replace(cut(SILENT), label="half_open", on_request=reset(SILENT).on_request)


def error_event(code: int, message: str = "injected") -> Fault:
    """[LRN] An ERROR line with this Status and the end of the stream; for an ``opening``: 200, that line, EOF."""
    line = Line.of({"type": "ERROR", "object": status(code, message)})
    whole = _lines(f"error_event({code})", lambda _line: [line, Cut(CLEAN)], now=lambda: [line, Cut(CLEAN)])
    return replace(whole, on_request=_stream(line.raw).on_request)


def gone_event() -> Fault:
    """[LRN] 410 in its second form: an ERROR line within a 200 stream, then EOF."""
    return error_event(410, "too old resource version: 1 (2)")


def empty_watch() -> Fault:
    """[R] 200 and at once EOF."""
    return replace(_stream(), label="empty_watch")


def _stream(*lines: bytes) -> Fault:
    return _answer("stream", lambda _rule, _exchange: Reply(200, [("Content-Type", JSON_TYPE)], pieces_of(*lines)))


# Answers in place of the apiserver


def fail(*codes: int, message: str = "injected", reason: str | None = None) -> Fault:
    """[R] A Status of this code, or of one of these codes, by chance."""

    def make(rule: Rule, _exchange: Exchange) -> Reply:
        code = rule.random.choice(codes)
        return Reply.of_json(code, status(code, message, reason=reason))

    return _answer(f"fail({', '.join(map(str, codes))})", make)


def gone() -> Fault:
    """[R] 410 in its first form: the HTTP status."""
    return fail(410, message="too old resource version: 1 (2)")


def throttle(retry_after: str | None = "1") -> Fault:
    """[R] 429 with this text as Retry-After, whatever it is, or without the header."""
    headers = [] if retry_after is None else [("Retry-After", retry_after)]
    details = {"retryAfterSeconds": int(retry_after)} if retry_after and retry_after.isdecimal() else None
    body = status(429, "storage is (re)initializing", details=details)
    return _answer(f"throttle({retry_after!r})", lambda _rule, _exchange: Reply.of_json(429, body, headers))


def html(code: int = 502) -> Fault:
    """[R] A load balancer without a backend."""
    page = f"<html>\r\n<head><title>{code}</title></head>\r\n<body><h1>{code}</h1></body>\r\n</html>\r\n".encode()
    return _answer(f"html({code})", lambda _rule, _exchange: Reply.of(code, page, "text/html"))


def plain_404() -> Fault:
    """[R] The answer of an apiserver for a CRD that is gone: no Status."""
    page, kind = b"404 page not found\n", "text/plain; charset=utf-8"
    return _answer(
        "plain_404", lambda _rule, _exchange: Reply.of(404, page, kind, [("X-Content-Type-Options", "nosniff")])
    )


def redirect(url: str) -> Fault:
    """[R] 307 to the same path on another host."""
    parts = urlsplit(url)
    host = f"{parts.scheme}://{parts.netloc}"
    return _answer(
        f"redirect({url})",
        lambda _rule, exchange: Reply.of(307, b"", headers=[("Location", host + exchange.request.target)]),
    )


def _answer(label: str, make: Callable[[Rule, Exchange], Reply]) -> Fault:
    async def on_request(rule: Rule, exchange: Exchange) -> Reply:
        return make(rule, exchange)

    return Fault(label, on_request)


# Answers lost and late


def reset(ending: Ending = RST) -> Fault:
    """[R] End the connection instead of forwarding."""

    async def on_request(_rule: Rule, _exchange: Exchange) -> Reply:
        raise Cut(ending)

    return Fault("reset", on_request)


def lose_reply() -> Fault:
    """[R] Forward, wait until the apiserver has answered in full, and reset the connection."""

    async def on_request(_rule: Rule, exchange: Exchange) -> Reply:
        await (await exchange.proceed()).drain()
        raise Cut(RST)

    return Fault("lose_reply", on_request)


def late_write(seconds: float | None = 10) -> Fault:
    """[R] Answer 504 at once; forward after *seconds*, or (``None``) at ``rule.release()``."""
    timeout = status(504, "request did not complete within the allotted timeout")

    def make(rule: Rule, exchange: Exchange) -> Reply:
        exchange.forward_later(rule.released.wait if seconds is None else lambda: asyncio.sleep(seconds))
        return Reply.of_json(504, timeout)

    return _answer(f"late_write({seconds})", make)


# Bodies


def truncate(keep: int = 40) -> Fault:
    """[R] A complete HTTP message with the first *keep* bytes of its body: half a JSON document."""
    return _reshape("truncate", lambda reply: reply.with_body(_beginning(reply, keep, CLEAN)))


def cut_body(after: int = 40) -> Fault:
    """[R] FIN after this many bytes of the body: short of its length, or without a last chunk."""
    return _reshape("cut_body", lambda reply: reply.with_body(_beginning(reply, after, FIN), length=reply.length))


def unended_chunk() -> Fault:
    """[R] FIN within a chunk, which is announced longer than what comes."""

    async def body(reply: Reply) -> Body:
        async with aclosing(reply.body) as pieces:
            async for piece in pieces:
                yield Raw(b"%x\r\n%b" % (len(piece) + _TOO_MUCH, piece))
                raise Cut(FIN)

    return _reshape("unended_chunk", lambda reply: reply.with_body(body(reply)))


def bad_gzip() -> Fault:
    """[R] A body that is announced as gzip and cannot be unpacked."""

    async def body(reply: Reply) -> Body:
        await reply.drain()
        yield _NOT_GZIP

    def reshape(reply: Reply) -> Reply:
        return Reply(reply.code, with_header(reply.headers, "Content-Encoding", "gzip"), body(reply), len(_NOT_GZIP))

    return _reshape("bad_gzip", reshape)


def trickle(bytes_per_second: float = 1) -> Fault:
    """[R] Send the body of the reply, or the whole watch, byte by byte, or as many at once as a timer's tick allows."""
    at_once = max(1, round(bytes_per_second / 100))

    async def body(reply: Reply) -> Body:
        async with aclosing(reply.body) as pieces:
            async for piece in pieces:
                for start in range(0, len(piece), at_once):
                    yield piece[start : start + at_once]
                    await asyncio.sleep(at_once / bytes_per_second)

    return _reshape("trickle", lambda reply: reply.with_body(body(reply), length=reply.length))


def _reshape(label: str, reshape: Callable[[Reply], Reply]) -> Fault:
    async def on_request(_rule: Rule, exchange: Exchange) -> Reply:
        return reshape(await exchange.proceed())

    return Fault(label, on_request)


async def _beginning(reply: Reply, keep: int, ending: Ending) -> Body:
    left = keep if reply.length is None else min(keep, reply.length - 1)
    async with aclosing(reply.body) as pieces:
        async for piece in pieces:
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                break
    raise Cut(ending)
