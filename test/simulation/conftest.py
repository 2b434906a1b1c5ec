"""No deadline for an example: machines that are shared stop for longer than any that would say something.

A failure is not explained line by line either: tracing takes so long that the time limit of the test hid the failure.
"""

from hypothesis import Phase, settings

settings.register_profile("shared machine", deadline=None, phases=set(Phase) - {Phase.explain})
settings.load_profile("shared machine")
