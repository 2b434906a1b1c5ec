"""The older versions of ``kubeflow.org`` TFJob, and what becomes of an object on the way between them and v1.

Objects are stored in v1, and v1 is what is reconciled. Start at ``conversion``; ``older_versions`` has the functions of
v1alpha2, v1beta1 and v1beta2; ``remainder`` keeps what a version has no place for.
"""
