"""Versions: read out of what a program says about itself, and compared."""

import re
from dataclasses import dataclass
from typing import Self

from toolbox.errors import BadCatalogue

SPOKEN = re.compile(r"(?<![\d.])(\d+)\.(\d+)\.(\d+)(?!\.?\d)(-[0-9A-Za-z.-]+)?")


@dataclass(frozen=True, order=True)
class Version:
    """A release, or with a ``tail`` behind the numbers ("-rc.1") something that is not quite that release."""

    major: int
    minor: int
    patch: int
    tail: str = ""

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}{self.tail}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a version as the catalogue writes it; raises BadCatalogue."""
        found = cls.first_in(text)
        if found is None or str(found) != text:
            raise BadCatalogue(f"{text!r} is not a version", advice="write it as 1.2.3 in hack/tools/versions.toml")
        return found

    @classmethod
    def first_in(cls, text: str) -> Self | None:
        """Return the first thing in ``text`` that looks like a version; what follows a "+" is not looked at."""
        if (match := SPOKEN.search(text)) is None:
            return None
        major, minor, patch, tail = match.groups()
        return cls(int(major), int(minor), int(patch), tail or "")

    def fits(self, wanted: Self, rule: str) -> bool:
        """Whether this version, found somewhere, will do instead of the wanted one; rules as in versions.toml."""
        if self.tail != wanted.tail or self.major != wanted.major:
            return False
        if rule == "exact":
            return self == wanted
        if rule == "minor":
            return self.minor == wanted.minor
        return (self.minor, self.patch) >= (wanted.minor, wanted.patch)
