"""The commands of ``tfjob``, one in each module: its grammar, and the function that carries it out."""
