"""Serves the reports of programs about how far they are: on a machine without a cluster."""
