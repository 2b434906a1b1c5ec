"""Serving HTTP to anybody who can connect: connections, and answers that are streams."""
