"""The rules for names, label keys and label values, in the words of the real server.

Patterns are texts, compiled when they are used first: importing this is part of the start of each ``tfjob``.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

_ALPHANUMERIC: Final = "alphanumeric characters"
_QUALIFIED: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_DNS_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_DNS_1035_LABEL: Final = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_ENV_NAME: Final = r"[ -<>-~]+"
_CONFIG_KEY: Final = r"[-._a-zA-Z0-9]+"
_LABEL_LENGTH: Final = 63
_SUBDOMAIN_LENGTH: Final = 253
_PORT_NAME_LENGTH: Final = 15


def _too_long(length: int) -> str:
    return f"must be no more than {length} bytes"


def _regex(message: str, pattern: str, *examples: str) -> str:
    """As ``validation.RegexError``, whose examples after the first have two spaces in front of ``or``."""
    quoted_examples = "".join(
        f"'{example}', " if index == 0 else f" or '{example}', " for index, example in enumerate(examples)
    )
    return f"{message} (e.g. {quoted_examples}regex used for validation is '{pattern}')"


def subdomain(name: str) -> Iterator[str]:
    """What is wrong with the name of most objects."""
    if len(name) > _SUBDOMAIN_LENGTH:
        yield _too_long(_SUBDOMAIN_LENGTH)
    if not re.fullmatch(_DNS_SUBDOMAIN, name):
        rule = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',"
            " and must start and end with an alphanumeric character"
        )
        yield _regex(rule, _DNS_SUBDOMAIN, "example.com")


def label(name: str) -> Iterator[str]:
    if len(name) > _LABEL_LENGTH:
        yield _too_long(_LABEL_LENGTH)
    if not re.fullmatch(_DNS_LABEL, name):
        rule = (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-',"
            " and must start and end with an alphanumeric character"
        )
        yield _regex(rule, _DNS_LABEL, "my-name", "123-abc")


def label_1035(name: str) -> Iterator[str]:
    """What is wrong with the name of a service."""
    if len(name) > _LABEL_LENGTH:
        yield _too_long(_LABEL_LENGTH)
    if not re.fullmatch(_DNS_1035_LABEL, name):
        rule = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
            " character, and end with an alphanumeric character"
        )
        yield _regex(rule, _DNS_1035_LABEL, "my-name", "abc-123")


def path_segment(name: str) -> Iterator[str]:
    """What is wrong with the name of a role or a binding."""
    if name in {".", ".."}:
        yield f"may not be '{name}'"
    yield from (f"may not contain '{character}'" for character in "/%" if character in name)


def qualified(key: str, subject: str = "a qualified name") -> Iterator[str]:
    """What is wrong with the key of a label or annotation, or with a finalizer."""
    prefix, slash, name = key.partition("/")
    if not slash:
        name = prefix
    elif "/" in name:
        rule = (
            f"{subject} must consist of {_ALPHANUMERIC}, '-', '_' or '.', and must start and end with an"
            " alphanumeric character"
        )
        yield (
            _regex(rule, _QUALIFIED, "MyName", "my.name", "123-abc")
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )
        return
    elif not prefix:
        yield "prefix part must be non-empty"
    else:
        yield from (f"prefix part {problem}" for problem in subdomain(prefix))
    if not name:
        yield "name part must be non-empty"
    elif len(name) > _LABEL_LENGTH:
        yield f"name part {_too_long(_LABEL_LENGTH)}"
    if not re.fullmatch(_QUALIFIED, name):
        rule = (
            f"name part must consist of {_ALPHANUMERIC}, '-', '_' or '.', and must start and end with an"
            " alphanumeric character"
        )
        yield _regex(rule, _QUALIFIED, "MyName", "my.name", "123-abc")


def label_value(value: str) -> Iterator[str]:
    if len(value) > _LABEL_LENGTH:
        yield _too_long(_LABEL_LENGTH)
    if not re.fullmatch(_LABEL_VALUE, value):
        rule = (
            f"a valid label must be an empty string or consist of {_ALPHANUMERIC}, '-', '_' or '.', and must start"
            " and end with an alphanumeric character"
        )
        yield _regex(rule, _LABEL_VALUE, "MyValue", "my_value", "12345")


def env_name(name: str) -> Iterator[str]:
    if not re.fullmatch(_ENV_NAME, name):
        yield (
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
            f" (regex used for validation is '{_ENV_NAME}')"
        )


def config_key(key: str) -> Iterator[str]:
    if len(key) > _SUBDOMAIN_LENGTH:
        yield _too_long(_SUBDOMAIN_LENGTH)
    if not re.fullmatch(_CONFIG_KEY, key):
        rule = f"a valid config key must consist of {_ALPHANUMERIC}, '-', '_' or '.'"
        yield _regex(rule, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name")
    if key in (".", ".."):
        yield f"must not be '{key}'"
    elif key.startswith(".."):
        yield "must not start with '..'"


def port_name(name: str) -> Iterator[str]:
    if len(name) > _PORT_NAME_LENGTH:
        yield f"must be no more than {_PORT_NAME_LENGTH} characters"
    if not re.fullmatch(r"[-a-z0-9]+", name):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search(r"[a-z]", name):
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"


def _without_dots(rule: Callable[[str], Iterator[str]]) -> Callable[[str], Iterator[str]]:
    return lambda name: iter(["must not contain dots"]) if "." in name else rule(name)


object_label = _without_dots(label)
"""What is wrong with the name of a namespace or service."""
