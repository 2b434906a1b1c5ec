"""Writing what docs/cli.md says of each command of ``tfjob``: ``hack/generate commands``.

The parser is the source: usage, description, options and exit codes. Everything else on the page is written by hand.
"""
