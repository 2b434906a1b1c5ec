"""What pods tell: the state of each, why it failed, whether it is gone, and what it needs to be placed."""
