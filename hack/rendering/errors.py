"""What can go wrong while pictures are made; each message is for whoever called the script."""


class RenderError(Exception):
    """There is no picture; the message says why."""


class UnreachableError(RenderError):
    """Prometheus does not answer."""


class RefusedError(RenderError):
    """Prometheus answers that a query is wrong, or too much."""


class UnknownError(RenderError):
    """A dashboard has something that the renderer does not know."""
