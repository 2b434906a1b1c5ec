"""YAML as Go's library reads it: tabs are blanks where nothing depends on the indentation."""

from collections.abc import Iterator

import yaml


class _Loader(yaml.SafeLoader):
    def scan_to_next_token(self) -> None:
        """Skip what is blank: the rule for tabs is that of ``go-yaml``'s scanner."""
        super().scan_to_next_token()
        while self.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
            self.forward()
            super().scan_to_next_token()


def load(text: bytes) -> object:
    return yaml.load(text, _Loader)  # noqa: S506 (a safe loader)


def repeated(text: bytes) -> Iterator[tuple[str, int]]:
    """Keys that are in their mapping already, and their lines; raises ``yaml.YAMLError``."""
    nodes, ids = [yaml.compose(text, _Loader)], set[int]()
    while nodes:
        node = nodes.pop(0)
        if id(node) in ids:  # an alias
            continue
        ids.add(id(node))
        if isinstance(node, yaml.MappingNode):
            names = set[object]()
            for key, value in node.value:
                if key.value in names:
                    yield key.value, key.start_mark.line + 1
                names |= {key.value} if isinstance(key.value, str) else set()
                nodes.append(value)
        elif isinstance(node, yaml.SequenceNode):
            nodes.extend(node.value)
