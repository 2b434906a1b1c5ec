"""What an explanation is made from, and what it is."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from html import escape
from typing import Final

from tf_operator.client import display
from tf_operator.client.events import JobEvent
from tf_operator.client.job import Job
from tf_operator.client.pods import JobPod
from tf_operator.text import printable

_KEEP: Final = "to inspect a job after its end: tfjob local up, and tfjob run again; then pods, logs and events stay"


@dataclass(frozen=True, slots=True)
class Situation:
    """A job, its pods and what was reported about them, at one moment."""

    job: Job
    pods: tuple[JobPod, ...]
    events: tuple[JobEvent, ...]
    """The oldest first."""
    now: datetime
    are_pods_known: bool = True
    """Whether the pods may be read; if not, ``pods`` is empty."""
    log: tuple[str, ...] = ()
    """The last lines of a failed program, if nothing else says why."""
    notes: tuple[str, ...] = ()
    """What may not be read."""
    room: tuple[str, ...] = ()
    """What the nodes lack for a job in the operator's queue, and who has it."""

    @property
    def age(self) -> float | None:
        return (self.now - self.job.created).total_seconds() if self.job.created else None

    def last_warning(self, *names: str) -> JobEvent | None:
        """The last warning about one of these objects."""
        return next((event for event in reversed(self.events) if event.is_warning and event.name in names), None)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job is in its state, what it waits for, and what to do next. ``print`` shows it as ``tfjob explain``."""

    state: str
    """As in ``has failed after 2m``."""
    reasons: tuple[str, ...] = ()
    """Why it is in this state."""
    waits: tuple[str, ...] = ()
    """What it waits for."""
    steps: tuple[str, ...] = ()
    """What to do next."""
    job: str = ""
    """``TFJob team/mnist``."""
    log: tuple[str, ...] = ()
    """The last lines of a failed program, if nothing else says why."""
    notes: tuple[str, ...] = ()
    """What you have no permission to read."""
    files: str = ""
    """The digest of the files that went along with the job."""

    def without_server(self) -> "Explanation":
        """The same where the server ends with the job, so that no step asks for what is gone."""
        return replace(self, steps=(*(step for step in self.steps if not step.startswith("tfjob ")), _KEEP))

    def __str__(self) -> str:
        lines = (f"  {heading:<11}{printable(sentence)}" for heading, sentence in self._rows())
        return "\n".join((self._title, *lines))

    def _repr_html_(self) -> str:
        return f"<p>{escape(self._title)}</p>{display.html_table((), self._rows())}"

    @property
    def _title(self) -> str:
        return f"{self.job} {printable(self.state)}."

    def _rows(self) -> Iterator[tuple[str, str]]:
        files = (f"{display.short(self.files)}, sent with --upload",) if self.files else ()
        sections = (
            *(("Why:", self.reasons), ("Waits for:", self.waits), ("Files:", files)),
            *(("Log:", self.log), ("Next:", self.steps)),
        )
        for heading, sentences in sections:
            yield from ((heading if number == 0 else "", sentence) for number, sentence in enumerate(sentences))
