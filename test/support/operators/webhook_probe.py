"""The operator of this tree, which logs what its webhook is asked, and renews its certificate in seconds: a program."""

import json
import os
import sys
from datetime import timedelta
from typing import Any

from tf_operator.app import command
from tf_operator.app.webhook import certificate, keys, review

ASKED = "a review is answered"
_answer = review.answer


async def _reporting(text: bytes, convert: review.Convert) -> bytes:
    request = json.loads(text)["request"]
    jobs = [_place(body) for body in request["objects"]]
    record = {"level": "info", "message": ASKED, "to": request["desiredAPIVersion"], "jobs": jobs}
    os.write(sys.stdout.fileno(), f"{json.dumps(record)}\n".encode())  # one line at once, beside other threads
    return await _answer(text, convert)


def _place(body: Any) -> str:  # noqa: ANN401
    return "/".join(str(body["metadata"].get(name)) for name in ("namespace", "name"))


if __name__ == "__main__":
    review.answer = _reporting
    certificate.EVERY = 6.0  # type: ignore[misc]
    keys.KNOWN_AFTER = timedelta(seconds=6)  # type: ignore[misc]
    sys.exit(command.main())
