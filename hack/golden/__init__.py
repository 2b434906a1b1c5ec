"""The golden cases of planning: an observation spelt out in YAML, and beside it the plan that follows from it.

``case`` reads an observation, ``written`` writes a plan, ``command`` is ``hack/update-golden`` and
``hack/verify-golden``. A plan file is written by a program and read by people: whoever changes one has to say in the
review why the new plan is right.
"""
