"""What should happen to a job: a pure function from what was observed to a plan.

No await, no clock, no log, no chance: ``now`` comes in as a value, decisions go out as data, and another
hand (``controller``) carries them out. So every rule can be tested by comparing two values.
"""
