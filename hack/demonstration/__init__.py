"""What is shown to people. ``hack/demo`` is ``training.py``, and ``command.py`` with ``--real``.

``training`` trains without a cluster, and ``demo_picture`` draws that. ``command`` trains on a real control plane:
``stage`` has the programs and ends them, ``real_training`` is ``tfjob run`` there, with the ``node`` in its process.
``dashboards`` draws the pictures of the dashboards on the same stage, under the jobs of ``traffic``.
"""
