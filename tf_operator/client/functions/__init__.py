"""A Python function as a job: ``source`` checks that it can be sent, ``function_job`` makes the manifest.

``launcher`` runs it in its pods, and ``returned`` reads what it has returned.
Arguments are called as those of ``create_job(train_func=...)`` in Kubeflow's client, and mean the same.
"""
