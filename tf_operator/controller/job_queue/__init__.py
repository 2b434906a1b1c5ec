"""The job queue on the machinery: what the nodes have left, the jobs that wait, and the decisions.

``planner`` runs while this process leads, and records decisions in the status of jobs; reconciles act on the record.
Nothing here is watched without ``--job-queue``.
"""
