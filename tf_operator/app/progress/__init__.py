"""Serves the reports of programs about how far they are: pods of a cluster, or processes without one."""
