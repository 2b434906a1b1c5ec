"""Completion in shells: the grammar of the parser as a value, and scripts made from it.

What can be completed is the commands, their options, values with choices, and the names of jobs (``tfjob list -o
name``), for which the script asks the cluster. The grammar is packaged as a file, because to read it from the parsers
takes all commands.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

COMPLETING: Final = "TFJOB_COMPLETING"
"""Set by completion: nobody reads what is said meanwhile, so it is said to the next command."""
GRAMMAR: Final = Path(__file__).with_name("grammar.json")
_JOBS: Final = f"{COMPLETING}=1 tfjob list -o name 2>/dev/null | sed 's|.*/||'"


class Option(NamedTuple):
    """One option, by all its spellings."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...] = ()


class Command(NamedTuple):
    """One command: what may follow it."""

    name: str
    help: str
    options: tuple[Option, ...]
    takes_jobs: bool = False
    words: tuple[str, ...] = ()
    """Commands below it, or values of its argument; else files, unless it takes jobs."""


def packaged() -> tuple[Command, ...]:
    """The commands, as ``hack/generate commands`` has written them down."""
    entries = json.loads(GRAMMAR.read_bytes())
    return tuple(Command(**_frozen(it | {"options": [Option(**_frozen(o)) for o in it["options"]]})) for it in entries)


def _frozen(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def written(commands: Sequence[Command]) -> str:
    """What ``packaged`` reads."""
    entries = [_fields(command) | {"options": [_fields(it) for it in command.options]} for command in commands]
    return f"{json.dumps(entries, indent=1)}\n"


def _fields(entry: Command | Option) -> dict[str, Any]:
    """Those that are not what they are by default."""
    return {name: value for name, value in entry._asdict().items() if value != entry._field_defaults.get(name)}


def read(parser: argparse.ArgumentParser) -> tuple[Command, ...]:
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001
    commands = []
    for action in actions:
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}  # noqa: SLF001
        commands += [_command(name, helps.get(name, ""), below) for name, below in action.choices.items()]
    return tuple(commands)


def _command(name: str, help_text: str, parser: argparse.ArgumentParser) -> Command:
    arguments = [action for action in _visible(parser) if not action.option_strings]
    return Command(
        name=name,
        help=help_text,
        options=options_of(parser),
        takes_jobs=any(action.metavar == "JOB" for action in arguments),
        words=tuple(str(word) for action in arguments for word in action.choices or ()),
    )


def options_of(parser: argparse.ArgumentParser) -> tuple[Option, ...]:
    return tuple(_option(action) for action in _visible(parser) if action.option_strings)


def _visible(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    actions = parser._actions  # noqa: SLF001 (argparse has no other way to read a grammar)
    return [action for action in actions if action.help != argparse.SUPPRESS]


def _option(action: argparse.Action) -> Option:
    choices = tuple(str(choice) for choice in action.choices or ())
    return Option(tuple(action.option_strings), action.help or "", action.nargs != 0, choices)


def bash(commands: Sequence[Command]) -> str:
    return "".join(_bash(commands))


def _bash(commands: Sequence[Command]) -> Iterator[str]:
    yield "_tfjob() {\n"
    yield '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""\n  COMPREPLY=()\n'
    yield "  if ((COMP_CWORD == 1)); then\n"
    yield f'    words="{" ".join(command.name for command in commands)}"\n'
    yield '  else\n    case "${COMP_WORDS[1]} $before" in\n'
    for command in commands:
        for option in command.options:
            if option.takes_value:
                pattern = "|".join(f'"{command.name} {name}"' for name in option.names)
                values = f'words="{" ".join(option.choices)}"' if option.choices else "return"
                yield f"    {pattern}) {values} ;;\n"
    yield '    *) case "${COMP_WORDS[1]}" in\n'
    for command in commands:
        names = " ".join(name for option in command.options for name in option.names)
        jobs = f' [[ "$word" == -* ]] || words="$({_JOBS})"' if command.takes_jobs else ""
        words = " ".join((*command.words, names)).strip()
        yield f'      {command.name}) words="{words}"{";" + jobs if jobs else ""} ;;\n'
    yield "      esac ;;\n    esac\n  fi\n"
    yield '  COMPREPLY=($(compgen -W "$words" -- "$word"))\n}\n'
    yield "complete -o default -F _tfjob tfjob\n"


def zsh(commands: Sequence[Command]) -> str:
    return "".join(_zsh(commands))


def _zsh(commands: Sequence[Command]) -> Iterator[str]:
    yield "#compdef tfjob\n_tfjob_jobs() {\n  local -a jobs\n"
    yield f'  jobs=(${{(f)"$({_JOBS})"}})\n  compadd -a jobs\n}}\n'
    yield "_tfjob() {\n  if (( CURRENT == 2 )); then\n    local -a commands\n    commands=(\n"
    yield from (f"      {_quoted(f'{command.name}:{command.help}')}\n" for command in commands)
    yield "    )\n    _describe command commands\n    return\n  fi\n"
    yield '  local command="${words[2]}"\n  shift words\n  (( CURRENT-- ))\n  case "$command" in\n'
    for command in commands:
        rest = "_tfjob_jobs" if command.takes_jobs else f"({' '.join(command.words)})" if command.words else "_files"
        yield f"    {command.name}) _arguments -s \\\n"
        for option in command.options:
            for name in option.names:
                value = f":value:{'(' + ' '.join(option.choices) + ')' if option.choices else ''}"
                about = option.help.replace("[", "(").replace("]", ")").replace(":", "\\:")
                yield f"      {_quoted(f'{name}[{about}]' + (value if option.takes_value else ''))} \\\n"
        yield f"      {_quoted(f'*:argument:{rest}')} ;;\n"
    yield "  esac\n}\ncompdef _tfjob tfjob\n"


def fish(commands: Sequence[Command]) -> str:
    return "".join(_fish(commands))


def _fish(commands: Sequence[Command]) -> Iterator[str]:
    yield "complete -c tfjob -n __fish_use_subcommand -f\n"
    for command in commands:
        yield f"complete -c tfjob -n __fish_use_subcommand -a {command.name} -d {_quoted(command.help)}\n"
        here = f"complete -c tfjob -n '__fish_seen_subcommand_from {command.name}'"
        if command.takes_jobs:
            yield f'{here} -f -a "({_JOBS})"\n'
        if command.words:
            yield f"{here} -f -a {_quoted(' '.join(command.words))}\n"
        for option in command.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = f" -x -a {_quoted(' '.join(option.choices))}" if option.choices else " -r"
            yield f"{here} {names} -d {_quoted(option.help)}{value if option.takes_value else ''}\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


SHELLS: Final[Mapping[str, Callable[[Sequence[Command]], str]]] = {"bash": bash, "zsh": zsh, "fish": fish}
