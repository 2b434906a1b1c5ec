"""The older versions of ``kubeflow.org`` TFJob, and what becomes of an object on the way between them and v1.

Objects are stored in v1, and v1 is what is reconciled. Start at ``conversion``; ``v1alpha1`` and
``v1alpha2_to_v1beta2`` are the versions; ``remainder`` keeps what a version has no place for.
"""
