"""Objects of a definition with several versions, from one to another.

That is done in this process, by the code of ``tfjob convert``; a CRD of anybody else can only have versions that differ
in nothing (``conversion.strategy: None``).
"""

from collections.abc import Callable
from functools import cache

from tf_operator.local.apiserver.kinds import Json
from tf_operator.local.apiserver.messages import ApiFailure
from tf_operator.meta import Body


def converter(spec: Body) -> Callable[[Body, str], Json]:
    """A function that gives a body in the ``apiVersion`` that it is asked for."""
    group, name = spec["group"], spec["names"]["kind"]
    strategy = (spec.get("conversion") or {}).get("strategy", "None")

    def convert(body: Body, api_version: str) -> Json:
        if body["apiVersion"] == api_version:
            return dict(body)
        if conversion := _conversion(group, name):
            return conversion(body, api_version)
        if strategy != "None":
            message = f"the embedded API server calls no webhook to convert {name}.{group}; a cluster (--context) does"
            raise ApiFailure(500, "InternalError", message)
        return {**body, "apiVersion": api_version}

    return convert


@cache
def _conversion(group: str, name: str) -> Callable[[Body, str], Json] | None:
    from tf_operator.dialects import registry  # noqa: PLC0415 - only for definitions with several versions
    from tf_operator.dialects.served import ConversionError  # noqa: PLC0415

    apis = (*registry.SERVED, *registry.ON_REQUEST)
    candidates = [api for api in apis if (api.resource.group, api.resource.kind) == (group, name)]
    if not any(api.conversion.versions for api in candidates):
        return None

    def convert(body: Body, api_version: str) -> Json:
        versions = {api_version.rpartition("/")[2], body["apiVersion"].rpartition("/")[2]}
        api = next((api for api in candidates if api.resource.version in versions), candidates[0])
        try:
            return api.conversion.convert(body, api_version.rpartition("/")[2])
        except ConversionError as error:
            message = f"conversion for {body['apiVersion']}, Kind={name} failed: {error}"
            raise ApiFailure(500, "InternalError", message) from None

    return convert
