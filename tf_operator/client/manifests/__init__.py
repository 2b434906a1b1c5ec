"""Manifests: their files, YAML as kubectl reads it, and everything that is wrong with a job in them."""
