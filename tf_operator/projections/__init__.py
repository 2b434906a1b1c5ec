"""What the caches keep of jobs, pods, Services and PodGroups: read straight from the JSON of the watch.

One module for each resource. Of a pod there remains what planning reads of it, a few hundred bytes. A job keeps its
spec and status as they came, because pods are made from templates.

Whose child an object is, and of which replica, is taken from its owner reference and its name. Labels select what is
watched, and prove nothing.
"""
