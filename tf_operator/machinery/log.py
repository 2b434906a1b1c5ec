"""Loggers, and what records have in common.

structlog writes the records, but it takes a tenth of a second to import, and a job on a laptop has to start within one:
so it is imported when there is the first record to write. Until something is configured (``app.logs``), records below
WARNING are dropped, as the standard library does it, by the level of its root logger.
"""

import logging
from collections.abc import Callable, Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any

_preparations: list[Callable[[], object]] = []
_bound_fields: ContextVar[Mapping[str, object]] = ContextVar("bound", default={})  # noqa: B039 (it is never changed in place)


class Logger:
    """structlog's logger of a module."""

    def __init__(self, name: str, fields: Mapping[str, object] | None = None) -> None:
        self._name = name
        self._fields = dict(fields or {})

    def bind(self, **fields: object) -> "Logger":
        """The same logger, with these fields in all of its records."""
        return Logger(self._name, {**self._fields, **fields})

    def info(self, message: str, **fields: object) -> None:
        if logging.root.isEnabledFor(logging.INFO):
            self._structlog().info(message, **fields)

    def warning(self, message: str, **fields: object) -> None:
        """What somebody may want to do something about."""
        self._structlog().warning(message, **fields)

    def error(self, message: str, **fields: object) -> None:
        """What has failed."""
        self._structlog().error(message, **fields)

    def exception(self, message: str, **fields: object) -> None:
        """What has failed by a bug; with the traceback of the exception that is handled at the moment."""
        self._structlog().exception(message, **fields)

    def _structlog(self) -> Any:  # noqa: ANN401 (structlog's loggers have no common type)
        import structlog  # noqa: PLC0415 (a tenth of a second, without a record)

        while _preparations:
            _preparations.pop()()
        if not structlog.is_configured():
            return structlog.wrap_logger(None, without_variables()).bind(**self._fields)
        return structlog.get_logger(self._name).bind(**self._fields)


def without_variables() -> list[Any]:
    """The default processors of structlog, with tracebacks as Python prints them.

    Where rich is installed, structlog would show the variables of all frames: secrets, and a second for each record.
    """
    import structlog  # noqa: PLC0415 (as above)

    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    return [*structlog.get_config()["processors"][:-1], renderer]


def before_first_record(prepare: Callable[[], object]) -> None:
    """Call this once, when there is something to write: it configures structlog."""
    _preparations.append(prepare)


class bound:  # noqa: N801 (reads as what it does)
    """In records of the block, and of the tasks and threads that are started there, are these fields.

    At its end, whatever ``bind`` has added inside is forgotten, too.
    """

    __slots__ = ("_fields", "_token")

    def __init__(self, **fields: object) -> None:
        self._fields = fields

    def __enter__(self) -> None:
        self._token = _bound_fields.set({**_bound_fields.get(), **self._fields})

    def __exit__(self, *_: object) -> None:
        _bound_fields.reset(self._token)


def bind(**fields: object) -> None:
    """From here to the end of the block of ``bound`` around it, records have these fields as well."""
    _bound_fields.set({**_bound_fields.get(), **fields})


def bound_fields() -> Mapping[str, object]:
    return _bound_fields.get()


def merge_bound(_logger: object, _method: str, record: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor of structlog: what is bound, below what the record says itself."""
    return {**_bound_fields.get(), **record}
