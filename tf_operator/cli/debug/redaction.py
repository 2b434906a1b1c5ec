"""Values of environment variables, kept out of a text wherever they occur: in a log, a message, a termination message.

In their place is the name of the variable. Pure.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import quote, quote_plus

from tf_operator.client.manifests import templates
from tf_operator.meta import Body, objects_of, text_of
from tf_operator.text import printable

_SHORTEST: Final = 6
"""Characters. Shorter values, as ``true`` and ``1000``, are in every text, and no secret is as short."""
_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")


class Redaction:
    def __init__(self, bodies: Iterable[Body]) -> None:
        """Of the variables of these jobs and pods."""
        self._names = {value: name for body in bodies for name, value in _values(body)}
        longest_first = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: f"${self._names[match[0]]}", text)

    def value(self, value: Any) -> Any:  # noqa: ANN401 (any JSON)
        """JSON with the texts in it redacted."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {name: self.value(entry) for name, entry in value.items()}
        return [self.value(entry) for entry in value] if isinstance(value, list) else value


def _values(body: Body) -> Iterator[tuple[str, str]]:
    for template in templates.of(body):
        for container in (entry for kind in _LISTS for entry in objects_of(template["spec"].get(kind))):
            for variable in objects_of(container.get("env")):
                # Whoever prints a certificate prints it line by line.
                lines = {text_of(variable, "value"), *text_of(variable, "value").splitlines()}
                lines = {printable(form) for line in lines for form in _forms(line)} | lines
                yield from ((text_of(variable, "name"), line) for line in lines if len(line.strip()) >= _SHORTEST)


def _forms(text: str) -> set[str]:
    """How programs print a text: as it is, in a dictionary or as JSON (``print(os.environ)``), in an address."""
    return {text, repr(text)[1:-1], json.dumps(text)[1:-1], quote(text), quote_plus(text)}
