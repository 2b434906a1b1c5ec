"""How far trainings are, as their programs report it: what takes reports, and what keeps them until they are stored."""
