"""The logs of containers: written as container runtimes write them, rotated, read again."""
