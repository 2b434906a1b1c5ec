"""The browser of all tests here: `make browser`."""

from support.partners.browser import browser, visitor

__all__ = ["browser", "visitor"]
