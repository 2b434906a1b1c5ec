"""What a job has beside its replicas, and continues without. Each kind of such a child is a value.

``kind`` says what there is to know of one, ``kinds`` lists them, ``life`` makes, changes and deletes their objects.
"""
