"""Commands beside a replica that runs on this machine: ``process`` finds it."""
