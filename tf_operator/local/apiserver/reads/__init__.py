"""Get, list and watch, and how an answer shows objects."""
