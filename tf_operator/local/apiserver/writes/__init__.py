"""Create, update, patch and delete, and what controllers of a cluster do afterwards."""
