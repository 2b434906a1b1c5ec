"""The files of a user that go into an image or along with a job: a folder without what is ignored, or one file.

``.gitignore`` and ``.tfjobignore`` count in every folder, the latter after the former, and so do those above the folder
up to the top of its Git repository. ``.git``, caches of Python and virtual environments never go along: they are of no
use elsewhere.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from tf_operator.client.job import NotPossible

if TYPE_CHECKING:
    import pathspec

_IGNORE_FILES: Final = (".gitignore", ".tfjobignore")
_NEVER: Final = frozenset({".git", "__pycache__"})
_LEAVE_OUT: Final = "; leave it out with a line in .tfjobignore"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, a folder, or a symbolic link."""

    path: PurePosixPath
    """Where it will be."""
    source: Path
    link: str = ""
    """What a symbolic link names."""


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules of one folder, for all that is below it."""

    folder: Path
    spec: "pathspec.GitIgnoreSpec"
    inner: str = ""
    """The path of ``folder`` below the folder that has the rules."""


def entries(source: Path, target: PurePosixPath) -> Iterator[Entry]:
    """What is at ``source``, sorted; raises ``NotPossible`` for what cannot go along."""
    if not source.exists():
        raise NotPossible(f"there is no {source}")
    if source.is_dir():
        root = source.resolve()
        yield from _walk(source, root, target, list(_rules_above(source, root)))
    else:
        yield Entry(target, source)


def _walk(folder: Path, root: Path, target: PurePosixPath, rules: Sequence[_Rules]) -> Iterator[Entry]:
    rules = [*rules, *_rules_of(folder)]
    try:
        children = sorted(os.scandir(folder), key=lambda child: child.name)
    except OSError as error:
        raise NotPossible(f"cannot read {folder}: {error.strerror}") from None
    for child in children:
        path, place = Path(child.path), target / child.name
        is_folder = child.is_dir(follow_symlinks=False)
        if child.name in _NEVER or _is_ignored(path, rules, is_folder=is_folder):
            continue
        if child.is_symlink():
            yield Entry(place, path, _checked_link(path, root))
        elif is_folder:
            if not (path / "pyvenv.cfg").exists():
                yield Entry(place, path)
                yield from _walk(path, root, place, rules)
        elif child.is_file():
            yield Entry(place, path)
        else:
            kind = "a socket" if stat.S_ISSOCK(child.stat().st_mode) else "a device or a pipe"
            raise NotPossible(f"{path} is {kind}, and cannot go along{_LEAVE_OUT}")


def _checked_link(path: Path, root: Path) -> str:
    link = path.readlink()
    # realpath takes links that lead to themselves, which Path.resolve does not.
    if link.is_absolute() or not Path(os.path.realpath(path.parent / link)).is_relative_to(root):
        raise NotPossible(f"{path} is a link to {link}, which is not in {root}{_LEAVE_OUT}, or put a copy in its place")
    return str(link)


def _rules_above(source: Path, root: Path) -> Iterator[_Rules]:
    """Those of the repository that the folder is in; whoever names a folder that they ignore means it."""
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    for folder in reversed(root.parents):
        if folder.is_relative_to(top):
            for rule in _rules_of(folder):
                if not _is_ignored(root, [rule], is_folder=True):
                    yield _Rules(source, rule.spec, str(root.relative_to(folder)))


def _rules_of(folder: Path) -> Iterator[_Rules]:
    for name in _IGNORE_FILES:
        try:
            if not (folder / name).is_file():  # to read a pipe would take for ever
                continue
            lines = (folder / name).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise NotPossible(f"cannot read {folder / name}: {error}") from None
        try:
            from pathspec import GitIgnoreSpec  # noqa: PLC0415 (only for who has such a file)

            yield _Rules(folder, GitIgnoreSpec.from_lines(lines))
        except ImportError:
            raise NotPossible(f"to read {folder / name} needs pathspec: pip install 'tf-operator[cli]'") from None
        except ValueError as error:
            raise NotPossible(f"{folder / name}: {error}") from None


def _is_ignored(path: Path, rules: Sequence[_Rules], *, is_folder: bool) -> bool:
    """By the last rule that says something, the innermost first."""
    for rule in reversed(rules):
        name = str(PurePosixPath(rule.inner, path.relative_to(rule.folder)))
        verdict = rule.spec.check_file(f"{name}/" if is_folder else name).include
        if verdict is not None:
            return verdict
    return False
