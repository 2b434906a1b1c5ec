"""Jobs that wait in a queue of Kueue, with a Workload that the operator makes: what it says, and what follows from it.

Kueue knows nothing of jobs: it admits and evicts Workloads, which their owners make, obey and report to.

``state`` has what is observed, ``workload`` the object, ``admission`` what admitted pods get, ``protocol`` what is to
be done next. Nothing in here is used unless the operator runs with ``--kueue=external``.
"""
