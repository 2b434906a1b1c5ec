"""The APIs that this operator knows. A new API is a folder beside this file, and a line in it.

``tfjob`` accepts all of them; a process runs a controller for ``DEFAULT``.
"""

from typing import Final

from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.served import ServedAPI
from tf_operator.meta import Body

SERVED: Final[tuple[ServedAPI, ...]] = (v1.API,)
DEFAULT: Final = v1.API
"""What commands mean that are not told which."""


def of_kind(kind: str) -> tuple[ServedAPI, ...]:
    """The APIs that have this kind, of whatever version."""
    return tuple(api for api in SERVED if api.profile.kind == kind)


def api_of(body: Body) -> ServedAPI | None:
    """The API that has this object, in any of its versions."""
    return next((api for api in SERVED if api.has(body)), None)
