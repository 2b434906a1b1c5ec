"""How the values of flags are spelt: as Go's flag package and Kubernetes spell them.

A manifest that was written for the Go operator says ``--leader-elect=false``, ``15s``, ``:8080`` and ``0`` for "off",
so that is what is read here, down to Go's seven spellings of a boolean. Each function takes the text of one value and
returns what it means, or raises ``ValueError`` whose message is the rule, fit to follow the words "must be".
Neighbour: ``options``, which adds the name of the flag to the message.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

_SECONDS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),  # the micro sign
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")
_LONGEST = Fraction(2**63, 10**9)
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_HOST = re.compile(r"\[[0-9A-Fa-f:.%]+\]|[^\[\]:\s]*")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. An empty host is every address of the machine."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def switch(text: str) -> bool:
    """Read ``true`` or ``false``, or another of Go's spellings."""
    if text in _TRUE | _FALSE:
        return text in _TRUE
    raise ValueError("true or false")


def duration(text: str) -> float:
    """Read a duration such as ``15s`` or ``1m30s``; in seconds. Only 0 needs no unit."""
    # By hand: durationpy reads ``1d`` and ``1s, 2s``, which Go refuses, and a month for ``mm``.
    if text in {"0", "+0", "-0"}:
        return 0.0
    rule = "a duration of zero or more with a unit, such as 15s, 1m30s or 500ms"
    body = text.removeprefix("+")
    if not _DURATION.fullmatch(body):
        raise ValueError(rule)
    total = sum((Fraction(number) * _SECONDS[unit] for number, unit in _PART.findall(body)), Fraction(0))
    if total >= _LONGEST:
        raise ValueError(rule)
    return float(total)


def positive_duration(text: str) -> float:
    if (seconds := duration(text)) > 0:
        return seconds
    raise ValueError("longer than 0s")


def whole(*, least: int, most: int) -> Callable[[str], int]:
    """A reader of whole numbers in a range."""

    def read(text: str) -> int:
        if re.fullmatch(r"\+?[0-9]{1,18}", text) and least <= int(text) <= most:
            return int(text)
        raise ValueError(f"a whole number from {least} to {most}")

    return read


def rate(text: str) -> float:
    """Read how many a second; a negative number is "without limit", as in client-go."""
    try:
        number = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number == 0:
        raise ValueError("a number greater than 0, or a negative one for no limit")
    return math.inf if number < 0 else number


def choice(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text in words:
            return text
        raise ValueError(f"{', '.join(words[:-1])} or {words[-1]}")

    return read


def address(text: str) -> Address | None:
    """Read ``:8080``, ``10.0.0.1:8080`` or ``[::1]:8080``; ``0``, or nothing, is "off"."""
    if text in {"", "0"}:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not _HOST.fullmatch(host) or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise ValueError("an address such as :8080, 127.0.0.1:8080 or [::1]:8080, or 0 for none")
    return Address(host.strip("[]"), int(port))


def names(text: str) -> tuple[str, ...]:
    """Read names of namespaces, separated by commas; nothing is none."""
    namespaces = tuple(name for name in text.split(",") if name)
    if all(_LABEL.fullmatch(name) for name in namespaces):
        return namespaces
    raise ValueError("the name of a namespace (lower case letters, digits and '-', at most 63), or several with commas")


def name(text: str) -> str:
    """Read the name of one object: labels with dots between them."""
    if len(text) <= 253 and all(_LABEL.fullmatch(label) for label in text.split(".")):
        return text
    raise ValueError("the name of a Kubernetes object (lower case letters, digits, '-' and '.', at most 253)")


def text(value: str) -> str:
    return value


def texts(value: str) -> tuple[str, ...]:
    return tuple(part for part in value.split(",") if part)
