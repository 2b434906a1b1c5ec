"""A node without containers, and Services that heed readiness."""
