"""Why a job is in its state, what it waits for, and what to do next: for ``TFJobs.explain`` and ``tfjob explain``.

``reading`` reads the situation of a job, ``checks`` explains it, with ``ends`` and ``waits``.
"""
