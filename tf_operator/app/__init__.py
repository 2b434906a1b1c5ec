"""The operator's process: builds all objects, serves metrics and probes, starts and stops everything.

The top of the house: nothing imports it. What it composes is listed in ``run``.
"""
