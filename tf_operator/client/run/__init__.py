"""Running a job to its end: for ``TFJobs.run``, and what ``tfjob run`` shares with it."""
