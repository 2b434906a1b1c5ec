"""Rules of the house that no off-the-shelf tool checks: names, sizes, and what the pure core may import.

``hack/check-house`` runs them; the numbers and lists are in ``setup.cfg``, section ``[house]``.
"""
