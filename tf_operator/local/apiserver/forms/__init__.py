"""The forms in which objects travel: JSON, YAML and protobuf, as Go reads and writes them."""
