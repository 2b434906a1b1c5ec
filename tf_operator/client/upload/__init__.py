"""A folder that goes along with a job: ``archive`` packs it, ``uploaded_job`` puts it where the programs run.

Decided in docs/adr/0039-files-with-a-job.md.
"""
