"""``mlkube.io``: the first API for TensorFlow jobs, of which the API of Kubeflow was made."""
