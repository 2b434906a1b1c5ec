"""No deadline for an example: machines that are shared stop for longer than any that would say something."""

from hypothesis import settings

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
