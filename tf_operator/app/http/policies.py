"""How many connections each endpoint has, and for how long: anybody in the cluster may connect."""

from dataclasses import replace
from typing import Final

from tf_operator.machinery.serving.connections import ConnectionPolicy

PAGES: Final = ConnectionPolicy(
    most=32,
    reply_within=20.0,  # Prometheus waits for 10 s unless it is configured otherwise
    idle_for=120.0,  # Go's clients close a connection after 90 s: none sends when it is closed here
    handshakes=20.0,
)
"""Of metrics and probes; after a page each connection is closed."""
REPORTS: Final = replace(PAGES, most=1024, reply_within=10.0, idle_for=60.0, handshakes=5.0, all_handshakes=200.0)
"""Of reports of progress, every five seconds. Kubeflow's SDK keeps its connection; urllib, transformers' callback and
the example of the how-to page make a new one for each: there is time for a thousand of these."""
REVIEWS: Final = replace(PAGES, most=128)
"""Of the webhook: an API server keeps up to 25 connections, and there may be several."""
