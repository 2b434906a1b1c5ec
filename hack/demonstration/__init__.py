"""What is shown to people. ``hack/demo`` is ``training.py``, and ``command.py`` with ``--real``.

``training`` trains without a cluster, and ``live_picture`` draws that. ``command`` shows the operator on a real control
plane, in order: ``stage`` has the programs and ends them, among them ``node``; ``play`` applies the jobs in ``jobs/``
and follows them to their ends; ``picture`` turns objects into what is shown, and ``screen`` shows it. ``dashboards``
draws the pictures of the dashboards on the same stage, under the jobs of ``traffic``.
"""
