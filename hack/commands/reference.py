"""What docs/cli.md says of each command, and of the options that they share: between two markers each."""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tf_operator.cli import completion, main

PAGE: Final = Path("docs/cli.md")
GRAMMAR: Final = Path("tf_operator/cli/grammar.json")
BEGIN: Final = "<!-- {name}: written by hack/generate {by} -->"
END: Final = "<!-- end of {name} -->"
SHARED: Final = "cluster"
"""The title of the options that all commands have which ask a cluster."""


class PartMissingError(Exception):
    """The page does not say where a command belongs, or has one that is gone."""


def fill(page: str) -> str:
    """The page, with what the parser says of each command."""
    parsers = dict(_parsers(main.make_parser()))
    shared = next(group for parser in parsers.values() for group in parser._action_groups if group.title == SHARED)
    parts = {f"tfjob {name}": "\n".join(_command(parser)) for name, parser in parsers.items()}
    parts["options for a cluster"] = "\n".join(_table(shared._group_actions))
    for name, content in parts.items():
        page = between(page, name, content, by="commands")
    return page


def grammar() -> str:
    return completion.written(completion.read(main.make_parser()))


def _parsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _command(parser: argparse.ArgumentParser) -> Iterator[str]:
    shared = [group._group_actions for group in parser._action_groups if group.title == SHARED]
    own = [action for action in parser._actions if action not in (shared[0] if shared else ())]
    arguments = [action for action in own if not action.option_strings]
    words = [_argument(action) for action in arguments]
    options = "" if len(own) == len(arguments) + 1 and not shared else " [OPTIONS]"
    yield f"`{' '.join(parser.prog.split() + words)}{options}`\n"
    yield f"{' '.join((parser.description or '').split())}\n"
    for action in arguments:
        if isinstance(action, argparse._SubParsersAction):
            yield from _below(action)
    rows = [action for action in own if action.help != argparse.SUPPRESS and "-h" not in action.option_strings]
    if rows := [action for action in rows if not isinstance(action, argparse._SubParsersAction)]:
        yield from _table(rows)
        yield ""
    if shared:
        yield "And the [options for a cluster](#options-for-a-cluster).\n"
    if parser.epilog:
        yield f"{_sentence(' '.join(parser.epilog.split()))}\n"


def _below(action: "argparse._SubParsersAction[argparse.ArgumentParser]") -> Iterator[str]:
    helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
    yield from ("| command | |", "|---|---|")
    for name, parser in action.choices.items():
        options = ", ".join(f"`{option}`" for option in _spelled(parser))
        yield f"| `{name}` {options} | {_cell(helps.get(name, ''))} |"
    yield ""


def _spelled(parser: argparse.ArgumentParser) -> Iterator[str]:
    for command in completion.options_of(parser):
        if "-h" not in command.names:
            yield command.names[-1]


def _argument(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest.upper())
    return {"+": f"{name} ...", "?": f"[{name}]"}.get(str(action.nargs), name)


def _table(actions: Iterable[argparse.Action]) -> Iterator[str]:
    yield from ("| option | meaning |", "|---|---|")
    for action in actions:
        names = ", ".join(action.option_strings) or str(action.metavar)
        value = f" {action.metavar}" if action.option_strings and action.nargs != 0 else ""
        yield f"| `{names}{value}` | {_cell(action.help or '')} |"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", r"\<")


def between(page: str, name: str, content: str, *, by: str = "reference") -> str:
    """The page with a part between its markers; by which generator, they say."""
    begin, end = BEGIN.format(name=name, by=by), END.format(name=name)
    head, opening, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (opening and closed):
        raise PartMissingError(f"the page lacks the line {end if opening else begin!r}")
    return f"{head}{begin}\n\n{content.strip()}\n\n{end}{after}"
