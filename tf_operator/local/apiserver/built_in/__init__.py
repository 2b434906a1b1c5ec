"""The kinds that are there without any definition: ``catalog`` has a row for each."""
