"""What the operator would create for a manifest, and how the job ends: for ``TFJobs.plan`` and ``tfjob plan``."""
