"""``tfjob``, which is also ``kubectl tfjob``: what a user of training jobs types.

A stranger to ``app`` and ``local``: it shares the core with them, never code of their own.
"""
