"""What a request is about, as values: its path and query, its selectors, its body."""
