"""One module for each served API: JSON in, ``TrainingJob`` out, and the status back to JSON.

A malformed object becomes a value that carries its errors, never an exception: one bad object must not
blind the operator to the good ones. A new API is a new file here; planning does not change for it.
``crd`` has the definition of what is served, as the package carries it.
"""
