"""A job on this machine, without a cluster: an embedded API server, and a node that runs pods as processes."""
