"""A training job on this machine, without a cluster.

A stranger to ``app`` and ``cli``: it runs what planning decided as local processes.
"""
