"""The operator's process: builds all objects, serves metrics and probes, starts and stops everything.

The top layer: nothing imports it. What it composes is listed in ``run``.
"""
