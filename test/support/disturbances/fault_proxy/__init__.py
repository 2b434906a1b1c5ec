"""A proxy of an apiserver that knows watches and breaks what it is asked to. See README.md; start at ``proxy``."""
