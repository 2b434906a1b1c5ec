"""How to watch, cache, queue and write: client-go's ideas on asyncio.

Knows Kubernetes, never TFJob: another operator can be built on this package alone. One event loop, so
there are no locks: what must be atomic is a plain ``def``, and what waits takes a ``Clock``.
Nothing here measures by itself: it calls the protocols of ``metrics_hooks``, which do nothing by default.
"""
