"""Each rule of the house finds its violation, names itself and the place, and lets good code pass."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from house import rules

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path):
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    return tmp_path


def violations(tree, **files):
    paths = []
    for name, text in files.items():
        path = tree / name.replace("__", "/").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        paths.append(path)
    return [str(violation) for violation in rules.check_tree(tree, paths)]


FUNCTION = 'def f():\n    """One.\n\n    Two.\n    """\n'


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        ("tf_operator__api__job_py", "import re\nimport msgspec\n\n\ndef f():\n    return re\n", ""),
        ("tf_operator__api__x_py", "x = 1\n", ""),
        ("tf_operator__app__x_py", "import requests\n", ""),
        *(
            (f"tf_operator__machinery__{n}_py", "x = 1\n", "1: house-names: ")
            for n in ("utils", "pod_helpers", "common")
        ),
        ("tf_operator__utils__text_py", "x = 1\n", "1: house-names: "),
        ("tf_operator__api__job_py", "x = 1\n" * 400, ""),
        ("tf_operator__api__job_py", "x = 1\n" * 401, "401: house-file-size: "),
        ("test__unit__test_x_py", "x = 1\n" * 800, ""),
        ("test__unit__test_x_py", "x = 1\n" * 801, "801: house-file-size: "),
        ("hack__x_py", FUNCTION + "    x = 1\n" * 59, ""),
        ("hack__x_py", FUNCTION + "    x = 1\n" * 60, "1: house-function-size: f has 61 lines"),
        (
            "tf_operator__planning__x_py",
            "x = 1\nimport requests\n",
            "2: house-pure-imports: the pure core may not import ",
        ),
        ("tf_operator__planning__x_py", "x = 1\nfrom yaml import safe_load\n", "2: house-pure-imports: "),
        ("tf_operator__planning__x_py", "import requests.auth as a\n", "1: house-pure-imports: "),
        ("tf_operator__meta_py", "import yaml\n", "1: house-pure-imports: "),
    ],
)
def test_a_file_breaks_the_rule_that_it_breaks(tree, path, text, rule):
    lines = violations(tree, **{path: text})

    assert len(lines) == bool(rule)
    assert all(f":{rule}" in line for line in lines)


def test_functions_are_short_by_habit(tree):
    text = "\n".join(f"def f{i}():\n" + "    x = 1\n" * 40 for i in range(3))

    lines = violations(tree, tf_operator__machinery__x_py=text)

    assert [line.split(": ")[1] for line in lines] == ["house-function-habit"] * 2


def test_a_folder_of_more_than_twenty_modules_wants_rooms(tree):
    modules = {f"tf_operator__x__m{number}_py": "x = 1\n" for number in range(20)}
    assert violations(tree, **modules) == []

    (line,) = violations(tree, **modules, tf_operator__x__one_more_py="x = 1\n")

    assert line.startswith("tf_operator/x:1: house-folder-size: 21 modules")


def test_a_class_has_a_name_of_its_own_unless_it_is_private(tree):
    text = "class Reply:\n    pass\n\n\nclass _Page:\n    pass\n"

    lines = violations(tree, tf_operator__app__x_py=text, tf_operator__cli__x_py=text, test__x_py=text)

    (line,) = lines
    assert line.startswith("tf_operator/cli/x.py:1: house-class-names: there is another Reply at ")


def retired(tree, text):
    """What is said of a page with this on its second line, when ``old term`` is retired."""
    page = tree / "page.md"
    page.write_text(f"as good\n{text}\n")
    limits = replace(rules.Limits.read(tree / "setup.cfg"), retired_words=("old term",))
    return [str(violation) for violation in rules.check_words(tree, [page], limits)]


@pytest.mark.parametrize("text", ["The Old term.", "def test_the_old_term_stays(): ..."], ids=["prose", "name"])
def test_a_retired_word_is_refused_in_prose_and_in_names(tree, text):
    (line,) = retired(tree, text)

    assert line.startswith("page.md:2: house-words: ")


def test_a_part_of_another_word_is_none_of_the_retired_ones(tree):
    assert retired(tree, "the bold terms, old terminals") == []


VAGUE = {
    "assignment": "found = 1",
    "parameter": "def f(*, wanted): ...",
    "lambda": "key = lambda seen: seen",
    "loop": "for _, known in (): ...",
    "with": "with open('x') as given: ...",
    "comprehension": "x = [y for asked in ()]",
    "walrus": "print(made := 1)",
    "field": "class A:\n    kept: int",
    "attribute": "def f(self):\n    self._said = 1",
    "exception": "try: ...\nexcept OSError as why: ...",
    "match": "match 1:\n    case what: ...",
    "function": "def shown(): ...",
    "coroutine": "async def chosen(): ...",
}


@pytest.mark.parametrize("text", VAGUE.values(), ids=VAGUE)
def test_a_name_that_fits_anything_is_refused(tree, text):
    (line,) = violations(tree, hack__x_py=text)

    assert re.match(r"hack/x\.py:\d: house-vague-names: .* fits anything: ", line)


@pytest.mark.parametrize(("share", "refused"), [(5, 0), (6, 6)])
def test_a_package_may_have_a_few_vague_names(tree, share, refused):
    text = "found = 1\n" * share + "size = 1\n" * 200

    lines = violations(
        tree,
        tf_operator__app__http__x_py=text,
        tf_operator__app__options__x_py="size = 1\n" * 400,
        tf_operator__app__options__y_py="size = 1\n" * (400 - share),
        tf_operator__client__x_py="size = 1\n" * 400,
    )

    assert len(lines) == refused
