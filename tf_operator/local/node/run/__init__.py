"""How a pod and its containers go on once they are started, until nothing is left of them."""
