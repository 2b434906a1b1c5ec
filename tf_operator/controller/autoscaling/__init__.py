"""The operator's own queue on the machinery: what the nodes have left, the jobs that wait, and the decisions.

``scaler`` runs while this process leads, and records decisions in the status of jobs; reconciles act on the record.
Nothing here is watched without ``--autoscale``.
"""
