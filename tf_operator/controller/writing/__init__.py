"""How a plan is carried out: its steps in order, its writes in fair shares, each recorded for the caches to show."""
