"""One folder for each served API: JSON in, ``TrainingJob`` out, and the status back to JSON.

A malformed object becomes a value that carries its errors, never an exception: one bad object must not blind the
operator to the good ones. ``served`` says what an API is to everybody else; ``registry`` lists them, and what a new one
takes. The folders share ``fields`` and ``metadata``, which read objects, ``record`` and ``compact_records``, which keep
the operator's memory in a status, and ``merge_patch``, which compares statuses.
"""
