"""What should happen to a job: a pure function from what was observed to a plan.

No await, no clock, no log, no chance: ``now`` comes in as a value, decisions go out as data, and ``controller`` carries
them out. So every rule can be tested by comparing two values. In reading order:

- ``plan`` is the table of contents, ``snapshot`` what goes in, ``actions`` what comes out;
- ``job_view`` assigns pods to ``replicas``; ``pods`` reads what each pod tells;
- ``invalid_edits`` are taken out of a job that runs;
- ``verdict`` decides whether the job ends: ``spec_problems``, ``rejections``, ``restarts``;
- ``report`` is the next status, ``pending`` what holds the job up, ``events_and_counts`` what users and metrics get;
- ``bodies`` builds objects, TF_CONFIG among them, ``child_kinds`` those of options, ``cleanup`` deletes them;
- ``job_queue`` and ``kueue`` decide when a job may start.
"""
