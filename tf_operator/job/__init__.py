"""The job model: what a training job is, whichever served API it came from.

Frozen values, their defaults and their validation. Pure: imports ``meta`` and nothing else of the project.
Every dialect decodes into these types; planning reads only these types. The JSON of each API is in ``dialects``.

``training_job`` is what a user wants, ``profile`` what an API fixes for its jobs, ``record`` what is remembered, and
``report`` what planning says of a job, for the dialect to write into the status.
"""
