"""Following a job to its end, as ``tfjob run`` does: on a cluster, or without one."""
