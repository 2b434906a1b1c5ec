"""tf-operator: runs TensorFlow training jobs (TFJob) on Kubernetes.

Three layers; imports go down only (docs/architecture.md draws them; import-linter checks them):

- a pure core: ``meta``, ``job``, ``dialects``, ``planning``: what a job is and what should happen next;
- ``machinery``: how to watch, cache, queue and write; it knows Kubernetes, but no TFJob;
- a shell: ``controller``, ``cli``, ``app``: joins the two, and decides nothing itself.

Start reading at ``app/run.py`` (what exists), then ``controller/controller.py`` (what turns), then
``planning/plan.py`` (what is decided).
"""
