"""What ``tfjob debug`` writes: ``ticket`` has the text, ``redaction`` keeps values of variables out of it."""
