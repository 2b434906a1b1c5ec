"""Runs TensorBoards: a Deployment and a Service for each one that an object asks for.

``sources`` are the objects: TensorBoards themselves, and jobs of APIs whose jobs run one. Each source has a controller
of its own, with its own queue; all share the informers of Deployments and Services. ``reconciler`` carries out what
``planning.tensorboards`` decides.
"""
