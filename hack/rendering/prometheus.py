"""Prometheus' HTTP API, as much of it as pictures need.

Every failure is a RenderError whose message tells a reader what to do; whoever knows the panel adds its name.
"""

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rendering.errors import RefusedError, UnreachableError

_TIMEOUT_SECONDS: Final = 30.0
_SCHEMES: Final = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class Series:
    """Labels, and values by time."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Span:
    """What is looked at: from ``start`` to ``end``, every ``step`` seconds."""

    start: float
    end: float
    step: float

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Prometheus:
    """One server, by its address."""

    url: str

    def __post_init__(self) -> None:
        """Take nothing for an address that names another kind of thing."""
        if not self.url.startswith(_SCHEMES):
            raise UnreachableError(f"{self.url!r} is no address of a Prometheus: it begins with http:// or https://")

    def instant(self, query: str, *, at: float) -> list[Series]:
        """What a query finds at one time."""
        found = self._ask("query", {"query": query, "time": f"{at:.3f}"})["result"]
        return [Series(entry["metric"], (_point(entry["value"]),)) for entry in found]

    def ranged(self, query: str, span: Span) -> list[Series]:
        """What a query finds during a span."""
        times = {"start": f"{span.start:.3f}", "end": f"{span.end:.3f}", "step": f"{span.step:.3f}"}
        found = self._ask("query_range", {"query": query, **times})["result"]
        return [Series(entry["metric"], tuple(map(_point, entry["values"]))) for entry in found]

    def label_values(self, label: str, series: str, span: Span) -> list[str]:
        """The values that a label has during a span, in alphabetical order."""
        parameters = {"match[]": series, "start": f"{span.start:.3f}", "end": f"{span.end:.3f}"}
        found: list[str] = self._ask(f"label/{label}/values", parameters)
        return sorted(found)

    def now(self) -> float:
        """The time by its clock; also shows that it is there."""
        found = self._ask("query", {"query": "time()"})["result"]
        return float(found[1])

    def _ask(self, what: str, parameters: Mapping[str, str]) -> Any:  # noqa: ANN401 (it depends on what is asked)
        address = f"{self.url.rstrip('/')}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=_TIMEOUT_SECONDS) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as refusal:
            raise _refused(refusal) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise UnreachableError(f"Prometheus cannot be reached at {self.url}: {reason}") from None
        except (ValueError, KeyError, TypeError):
            raise UnreachableError(f"what answers at {self.url} is no Prometheus") from None


def _refused(refusal: urllib.error.HTTPError) -> RefusedError:
    text = refusal.read().decode(errors="replace")
    try:
        return RefusedError(str(json.loads(text)["error"]))
    except (ValueError, KeyError, TypeError):
        return RefusedError(f"HTTP {refusal.code}: {text.strip()[:200]}")


def _point(pair: Sequence[Any]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])
