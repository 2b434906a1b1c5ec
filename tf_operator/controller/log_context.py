"""What every log record of a reconcile has: which job it is about, and which reconcile it is.

Bound by contextvars, so no logger has to be passed on: whatever logs inside, also in tasks that are started there,
has the same fields. The names are those of docs/operations.md. Neighbours: ``app.logs`` merges them into records.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from structlog.contextvars import bind_contextvars, bound_contextvars, unbind_contextvars

from tf_operator.meta import ObjectKey


@contextmanager
def reconcile_of(key: ObjectKey) -> Iterator[None]:
    """Around one reconcile of a job; each has an identifier of its own."""
    try:
        with bound_contextvars(job_namespace=key.namespace, job_name=key.name, reconcile_id=uuid.uuid4().hex):
            yield
    finally:
        unbind_contextvars("job_uid", "runtime_id")


def job_found(uid: str) -> None:
    """From here to the end of the reconcile: which job of this name it is."""
    bind_contextvars(job_uid=uid)


def job_read(runtime_id: str) -> None:
    """From here to the end of the reconcile: what is in the names of its pods, where something is."""
    if runtime_id:
        bind_contextvars(runtime_id=runtime_id)


@contextmanager
def replica(name: str) -> Iterator[None]:
    """Around what is done for one replica, such as ``Worker-3``; without a name it is for the whole job."""
    with bound_contextvars(**({"replica": name} if name else {})):
        yield
