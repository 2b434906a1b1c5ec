"""What every log record of a reconcile has: which job it is about, and which reconcile it is.

Bound by a context variable, so no logger has to be passed on: whatever logs inside, also in tasks that are
started there, has the same fields. Their names are those of docs/operations.md. ``app.logs`` merges them into records.
"""

import random
from contextlib import AbstractContextManager

from tf_operator.machinery import log
from tf_operator.meta import ObjectKey


def reconcile_of(key: ObjectKey) -> AbstractContextManager[None]:
    """Around one reconcile of a job; each has an identifier of its own."""
    return log.bound(job_namespace=key.namespace, job_name=key.name, reconcile_id=f"{random.getrandbits(128):032x}")


def job_found(uid: str) -> None:
    """From here to the end of the reconcile: which job of this name it is."""
    log.bind(job_uid=uid)


def job_read(runtime_id: str) -> None:
    """From here to the end of the reconcile: what is in the names of its pods, where something is."""
    if runtime_id:
        log.bind(runtime_id=runtime_id)


def replica(name: str) -> AbstractContextManager[None]:
    """Around what is done for one replica, such as ``Worker-3``; without a name it is for the whole job."""
    return log.bound(**({"replica": name} if name else {}))
