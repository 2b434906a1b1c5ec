"""Wrong usage: what it is, and what was probably meant."""

from collections.abc import Iterable


class UsageError(Exception):
    """A command cannot begin; the message says why. The process exits with 2."""


def suggestion(word: str, words: Iterable[str]) -> str:
    """``; did you mean 'wait'?``, to end a sentence with; empty when nothing resembles the word."""
    import difflib  # noqa: PLC0415 (what goes well does not wait for it)

    matches = difflib.get_close_matches(word.lower(), tuple(words), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""
