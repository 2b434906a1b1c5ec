"""The endpoint that the API server sends conversion reviews to."""

import ssl
from collections.abc import Callable, Mapping
from typing import Final

from tf_operator.app.http.server import Answer, Endpoint, Reply
from tf_operator.app.options.flag_types import Address
from tf_operator.app.webhook import review
from tf_operator.dialects.served import ServedAPI

_JSON: Final = {"Content-Type": "application/json"}


def path_of(api: ServedAPI) -> str:
    """Where reviews of an API are answered: each has a path of its own, because its CRD names one."""
    return f"/convert/{api.resource}"


def endpoint(address: Address, tls: Callable[[], ssl.SSLContext], apis: tuple[ServedAPI, ...]) -> Endpoint:
    """The endpoint for the APIs that have other versions."""
    answers: Mapping[str, Answer] = {path_of(api): _answer(api) for api in apis if api.conversion.versions}
    return Endpoint(address, {}, tls, answers)


def _answer(api: ServedAPI) -> Answer:
    async def answer(body: bytes) -> Reply:
        try:
            return Reply(200, await review.answer(body, api.conversion.convert), _JSON)
        except review.ReviewError as error:
            return Reply(400, f"{error}\n".encode())

    return answer
