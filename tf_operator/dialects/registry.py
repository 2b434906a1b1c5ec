"""The APIs that this operator knows; a process runs a controller for each that ``--enable-scheme`` chooses.

A new API takes (``mlkube`` is the example to follow):

1. a folder beside this file with a ``served.ServedAPI`` (read, write_status, summarize, reasons, profile, framework)
   and a line in ``SERVED``; how its jobs differ is said by the profile, and what its users call things by its words:
   planning does not change for it;
2. in setup.cfg: its crd.json in ``package_data``, and its folder in the contract ``served``;
3. ``hack/crd/<api>.yaml``, the source of its CRD, and in ``hack/crd/outputs.py`` the files that are made of it:
   ``manifests/crd/<api>/`` and the crd.json that is packaged here;
4. ``manifests/rbac/<api>/`` with the rights of the operator, viewers and editors; an overlay, if it is served alone;
5. in the chart: ``apis.<api>`` in values and schema, its flag in ``_arguments.tpl``, its rights in ``rbac.yaml`` and
   ``user-roles.yaml``; ``hack/chart/outputs.py`` copies CRD and rights from the manifests;
6. ``manifests/examples/<api>/``, ``docs/<api>.md``, and scenarios in test/scenarios.
"""

from typing import Final

from tf_operator.dialects.kubeflow import hub, v1
from tf_operator.dialects.mlkube import v1beta1 as mlkube
from tf_operator.dialects.served import ServedAPI
from tf_operator.dialects.t9k import v1beta1 as t9k
from tf_operator.meta import Body

SERVED: Final[tuple[ServedAPI, ...]] = (v1.API, mlkube.API, t9k.API)
DEFAULT: Final = v1.API
"""What is meant where no API is named."""
ON_REQUEST: Final[tuple[ServedAPI, ...]] = (hub.API,)
"""Other versions of an API above, for clusters that do not serve that one: who wants it names its version."""


def with_codes_of_fork(api: ServedAPI) -> ServedAPI:
    """The API with the exit codes of the fork for jobs that were created in v1alpha1, if it has such jobs."""
    return {v1.API: v1.FORK_API, hub.API: hub.FORK_API}.get(api, api)


def kinds() -> str:
    return " or ".join(dict.fromkeys(api.resource.kind for api in SERVED))


def of_kind(kind: str) -> tuple[ServedAPI, ...]:
    return tuple(api for api in SERVED if api.profile.kind == kind)


def api_of(body: Body) -> ServedAPI | None:
    return next((api for api in SERVED if api.has(body)), None)


def find(name: str) -> ServedAPI | None:
    """The API that a user names in any letter case: by kind, kind and group, or kind, version and group.

    ``tfjob`` is the first of that kind, as for ``kubectl get``; ``tfjob.kubeflow.org`` is that one.
    """
    lower_name = name.lower()
    for api in (*SERVED, *ON_REQUEST):
        kind, group = api.resource.kind.lower(), api.resource.group
        if lower_name in {kind, f"{kind}.{group}", f"{kind}.{api.resource.version}.{group}"}:
            return api
    return None
