"""Logs of the process: one JSON record a line for machines, or lines for people.

Everything ends in one handler on standard error: what the operator's own modules say through structlog, what
libraries say through ``logging``, and Python's warnings. A record says ``time``, ``level``, ``logger``, ``message``,
whatever its writer added, and what is bound around it by ``machinery.log`` (which job, which reconcile:
``controller/log_context.py``).

Two guards stand before the renderer, because words in a log come from servers and from tenants' objects. ``guarded``
takes out what is a secret, by the look of it (a token, a key, a password in an address) or by its name (``env``,
``template``, ``authorization``). Both renderers then keep a record on its line, and a terminal safe from escape codes.
"""

import json
import logging
import re
import sys
from collections.abc import Mapping
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from tf_operator.machinery import log
from tf_operator.text import escaped

HIDDEN = "[hidden]"
_SECRET_NAMES = frozenset(
    {"authorization", "token", "password", "passwd", "secret", "cookie", "env", "environment", "template", "body"}
)
_SECRET_LOOKS = {
    mark: re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for mark, pattern in {
        "bearer ": r"(?<=\bbearer )[\w.~+/=-]{6,}",
        "basic ": r"(?<=\bbasic )[\w.~+/=-]{6,}",
        "eyj": r"\beyJ[\w-]{6,}\.[\w-]{6,}\.[\w-]*",
        "://": r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)",
        "private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)",
        "token=": r"(?<=\btoken=)[^&\s]+",
    }.items()
}
"""By what is in each such text, as ``str.casefold`` spells it: to look for that first takes a tenth of the time."""
_LONGEST_TEXT = 16_384
_DEEPEST = 6
_FIRST = ("time", "level", "logger", "message")
# Libraries that log each request or retry at "info", which is not what an operator's log is for.
_CHATTY = ("aiohttp", "asyncio", "kubernetes", "urllib3")


def configure(log_format: str, level: str, *, stream: TextIO | None = None) -> None:
    """Send all logs to ``stream`` (standard error), from ``level`` on, as ``json`` or for the ``console``."""
    stream = stream or sys.stderr
    number = logging.getLevelNamesMapping()[level.upper()]
    own = _own_processors()
    structlog.configure(
        processors=[*own, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=own, processors=_last_processors(log_format, stream))
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
    logging.captureWarnings(capture=True)
    # A broken pipe on standard error cannot be reported on standard error.
    logging.raiseExceptions = False
    _skip_what_is_not_written()


def _skip_what_is_not_written() -> None:
    """Collect for a record neither who called nor in which thread: that takes half the time, and no line says it.

    These are the switches of Python's "Logging HOWTO" (Optimization).
    """
    logging._srcfile = None  # noqa: SLF001 (as the page says)
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


def _own_processors() -> list[Processor]:
    return [
        log.merge_bound,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]


def _last_processors(log_format: str, stream: TextIO) -> list[Processor]:
    """From a record of either origin to a line."""
    shared: list[Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.EventRenamer("message"),
        structlog.processors.format_exc_info,
        guarded,
    ]
    return [*shared, as_json] if log_format == "json" else [*shared, printable, _console(stream)]


def _console(stream: TextIO) -> Processor:
    return structlog.dev.ConsoleRenderer(
        event_key="message", timestamp_key="time", colors=stream.isatty(), pad_level=True
    )


def guarded(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Take secrets out of a record, and make everything in it text, a number or a bounded collection of these."""
    return {str(name): _guarded_value(str(name), value, depth=0) for name, value in event.items()}


def _guarded_value(name: str, value: object, *, depth: int) -> object:
    if name.lower() in _SECRET_NAMES:
        return HIDDEN
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return _guarded_text(value)
    if depth < _DEEPEST and isinstance(value, Mapping):
        return {str(key): _guarded_value(str(key), member, depth=depth + 1) for key, member in value.items()}
    if depth < _DEEPEST and isinstance(value, list | tuple | set | frozenset):
        return [_guarded_value("", member, depth=depth + 1) for member in value]
    return _guarded_text(_repr(value))


def _guarded_text(text: str) -> str:
    if len(text) > _LONGEST_TEXT:
        text = f"{text[:_LONGEST_TEXT]}... ({len(text)} characters)"
    folded = text.casefold()
    for mark, look in _SECRET_LOOKS.items():
        if mark in folded:
            text = look.sub(HIDDEN, text)
    return text


def _repr(value: object) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 (a log must not fail because of a value in it)
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def as_json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    """One line of ASCII, in the order in which a person looks for things."""
    ordered = {name: event.pop(name) for name in _FIRST if name in event}
    return json.dumps({**ordered, **event})


def printable(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escape what would begin a new line or talk to the terminal; only a traceback keeps its lines."""
    return {
        name: escaped(value, keeps="\n" if name == "exception" else "") if isinstance(value, str) else value
        for name, value in event.items()
    }
