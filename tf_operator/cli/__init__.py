"""``tfjob``, which is also ``kubectl tfjob``: the command line for users of training jobs.

Independent of ``app``: it shares only the core with it.
"""
