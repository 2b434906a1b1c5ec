"""Joins planning and machinery: watch events in, API writes out.

The only package that sees both. It carries out plans in the order record, act, confirm, and decides
nothing by itself.
"""
