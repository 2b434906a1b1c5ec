"""The job queue: which job may start, and how many workers elastic jobs have, by what the nodes have left.

``plan.make_plan`` is pure: from a ``Cluster`` (nodes, jobs and the time) to decisions, which the shell records in the
jobs. What a reconcile makes of the record is in ``planning.job_queue.admission``.
"""
