"""Training jobs from Python: submit, wait, logs, get, delete; and what the verbs of ``tfjob`` are made of."""
