"""Kinds that only the local server serves, computed from what it keeps of jobs beside the jobs themselves."""
