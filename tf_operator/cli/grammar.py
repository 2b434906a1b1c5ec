"""The type of what a command puts itself into; imported for types only."""

import argparse

Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (argparse names no public type)
