"""The demo: the operator at work on a real control plane, with nodes that kwok simulates. ``hack/demo`` is the door.

Start at ``command.py``: it is the order of events. ``stage`` has the programs and ends them; ``play`` applies the jobs
in ``jobs/`` and follows them to their ends; ``picture`` turns objects into what is shown, and ``screen`` shows it, live
on a terminal or line by line in a pipe. ``stages.yaml`` says what becomes of the simulated pods.
"""
