"""What docs/cli.md says of each command, and of the options that they share: between two markers each."""

import argparse
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

from pages.parts import between, plain
from tf_operator.cli import completion, main

PAGE: Final = Path("docs/cli.md")
GRAMMAR: Final = Path("tf_operator/cli/grammar.json")
SHARED: Final = "cluster"
"""The title of the options that all commands have which ask a cluster."""


def fill(page: str) -> str:
    """The page, with what the parser says of each command."""
    parsers = dict(_parsers(main.make_parser()))
    common = _common(parsers.values())
    parts = {f"tfjob {name}": "\n".join(_command(parser, common)) for name, parser in parsers.items()}
    parts["common options"] = "\n".join(map(_item, common.values()))
    for name, content in parts.items():
        page = between(page, name, content)
    return page


def grammar() -> str:
    return completion.written(completion.read(main.make_parser()))


def _parsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _common(parsers: Iterable[argparse.ArgumentParser]) -> dict[str, argparse.Action]:
    """What several commands have with the same meaning, by its item; options for a cluster last."""
    actions = [(action, action in _shared(parser)) for parser in parsers for action in _explained(parser)]
    uses = Counter(_item(action) for action, _ in actions if not _is_plain(action))
    actions.sort(key=lambda it: (it[1], bool(it[0].option_strings)))
    return {row: action for action, _ in actions if uses[row := _item(action)] > 1}


def _shared(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for group in parser._action_groups if group.title == SHARED for action in group._group_actions]


def _explained(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        is_hidden = action.help == argparse.SUPPRESS or "-h" in action.option_strings
        if not (is_hidden or isinstance(action, argparse._SubParsersAction)):
            yield action


def _is_plain(action: argparse.Action) -> bool:
    """Whether its place in the usage line says all of it."""
    return not action.option_strings and str(action.help).startswith("name of ") and "default" not in str(action.help)


def _command(parser: argparse.ArgumentParser, common: Collection[str]) -> Iterator[str]:
    shared = _shared(parser)
    own = [action for action in _explained(parser) if action not in shared]
    usage = [_usage(action, is_common=_item(action) in common) for action in parser._actions if action in own]
    arguments = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    words = [*parser.prog.split(), *(_argument(action) for action in arguments), *filter(None, usage)]
    rows = [action for action in own if _item(action) not in common and not _is_plain(action)]
    words += ["[OPTIONS]"] * any(action.option_strings for action in rows) + ["[CLUSTER]"] * bool(shared)
    yield f"`{' '.join(words)}`\n"
    yield f"{' '.join((parser.description or '').split())}\n"
    for action in arguments:
        yield from _below(action)
    if rows:
        yield from map(_item, rows)
        yield ""
    if parser.epilog:
        yield f"{_sentence(' '.join(parser.epilog.split()))}\n"


def _usage(action: argparse.Action, *, is_common: bool) -> str:
    """An argument, or an option that is explained with those of all commands."""
    if not action.option_strings:
        return _argument(action)
    return f"[{_named(action.option_strings[0], action)}]" if is_common else ""


def _below(action: "argparse._SubParsersAction[argparse.ArgumentParser]") -> Iterator[str]:
    helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
    for name, parser in action.choices.items():
        yield f"- `{' '.join((name, *(f'[{option}]' for option in _spelled(parser))))}`: {plain(helps.get(name, ''))}"
    yield ""


def _spelled(parser: argparse.ArgumentParser) -> Iterator[str]:
    for command in completion.options_of(parser):
        if "-h" not in command.names:
            yield command.names[-1]


def _argument(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest.upper())
    return {"+": f"{name} ...", "?": f"[{name}]", "*": f"[{name} ...]"}.get(str(action.nargs), name)


def _item(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings) or str(action.metavar)
    return f"- `{_named(names, action)}`: {plain(action.help or '')}"


def _named(names: str, action: argparse.Action) -> str:
    return f"{names} {_argument(action)}" if action.option_strings and action.nargs != 0 else names


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
