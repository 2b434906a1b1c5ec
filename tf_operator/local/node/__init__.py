"""A node whose pods are processes of the user: what a kubelet does, for programs that need no image."""
