"""The APIs that this operator knows; a process runs a controller for each that ``--enable-scheme`` chooses.

A new API takes:

1. a folder beside this file with a ``served.ServedAPI`` (read, write_status, summarize, reasons, profile, framework)
   and a line in ``SERVED``; how its jobs differ is said by the profile, and planning does not change for it;
2. in setup.cfg: its crd.json in ``package_data``, and its folder in the contract ``served``;
3. ``hack/crd/<api>.yaml``, the source of its CRD, and in ``hack/crd/outputs.py`` what is made of it: the manifest, and
   the crd.json that is packaged here;
4. rights: ``manifests/rbac`` (operator, view and edit); ``hack/generate chart`` copies them into the chart;
5. in the chart: a value below ``apis`` that serves it;
6. ``manifests/examples/<api>``, ``docs/<api>.md``, and a scenario in test/scenarios.
"""

from typing import Final

from tf_operator.dialects.kubeflow import v1
from tf_operator.dialects.mlkube import v1beta1 as mlkube
from tf_operator.dialects.served import ServedAPI
from tf_operator.dialects.t9k import v1beta1 as t9k
from tf_operator.meta import Body

SERVED: Final[tuple[ServedAPI, ...]] = (v1.API, mlkube.API, t9k.API)
DEFAULT: Final = v1.API
"""What is meant where no API is named."""


def kinds() -> str:
    """All kinds, for messages: ``TFJob or Training``."""
    return " or ".join(dict.fromkeys(api.resource.kind for api in SERVED))


def of_kind(kind: str) -> tuple[ServedAPI, ...]:
    """The APIs that have this kind, of whatever version."""
    return tuple(api for api in SERVED if api.profile.kind == kind)


def api_of(body: Body) -> ServedAPI | None:
    """The API that has this object, in any of its versions."""
    return next((api for api in SERVED if api.has(body)), None)


def named(name: str) -> ServedAPI | None:
    """The API that a user names in any letter case: by kind, or by kind and group where two groups have the same kind.

    ``tfjob`` is the first of that kind, as for ``kubectl get``; ``tfjob.kubeflow.org`` is that one.
    """
    wanted = name.lower()
    for api in SERVED:
        kind = api.resource.kind.lower()
        if wanted in {kind, f"{kind}.{api.resource.group}"}:
            return api
    return None
