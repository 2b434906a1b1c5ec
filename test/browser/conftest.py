"""The browser of all tests here: `make browser`."""

from support.browser import browser, visitor

__all__ = ["browser", "visitor"]
