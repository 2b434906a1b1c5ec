"""What pip installs for a base's Python: by wheels that a folder has, in as few runs of pip as say something."""

import sys
import zipfile
from pathlib import Path, PurePosixPath
from types import ModuleType

import pytest

from support.partners.wheels import WITHOUT_INDEX, write_wheel
from tf_operator.client.images import foreign_pip, layer, packages
from tf_operator.client.images.base_python import BasePython
from tf_operator.client.job import NotPossible

HOME = PurePosixPath("/opt/packages")
FOREIGN = "cp39-cp39-manylinux_2_17_aarch64"
METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n{}"


@pytest.fixture(autouse=True)
def wheels(tmp_path, monkeypatch):
    """The only place where pip looks."""
    for name, value in {**WITHOUT_INDEX, "PIP_FIND_LINKS": str(tmp_path / "wheels")}.items():
        monkeypatch.setenv(name, value)
    return tmp_path / "wheels"


def base(**installed: str) -> BasePython:
    """Python 3.9 with packages of these versions; one called training goes together with ``arrays`` before 2 only."""
    requires = {"training": "Requires-Dist: arrays<2\n"}
    metadata = {
        f"{name}-{version}.dist-info": METADATA.format(name, version, requires.get(name, ""))
        for name, version in installed.items()
    }
    return BasePython((3, 9), metadata)


def digest(root: Path) -> str:
    with layer.packed(packages.entries(root), checks_scripts=False) as packed:
        return packed.digest


def test_packages_are_those_for_the_base_s_python_and_platform_without_what_it_has(tmp_path, wheels):
    has_itself = f"arrays>=2; python_version < '3.{sys.version_info[1]}' and platform_machine == 'aarch64'"
    write_wheel(wheels, "tables", "1.0", requires=[has_itself, "absent; sys_platform != 'linux'", "kept<3"])
    write_wheel(wheels, "arrays", "2.0", tag=FOREIGN, programs=["count"])
    for version in ("2.5", "2.9"):
        write_wheel(wheels, "kept", version)
    root = tmp_path / "root"

    conflicts = packages.install(root, HOME, base(kept="2.5", arrays="1.0", training="1.0"), "arm64", ["tables"])

    folder = packages.packages_folder(root, HOME, (3, 9))
    assert folder == root / "opt/packages/lib/python3.9/site-packages"
    assert {it.metadata["Name"]: it.version for it in packages.distributions(folder)} == {
        "arrays": "2.0",
        "tables": "1.0",
    }
    assert FOREIGN in (folder / "arrays.py").read_text()
    assert conflicts == ["training 1.0 requires arrays<2, but you have arrays 2.0 which is incompatible."]


def test_equal_wheels_give_equal_layers_wherever_they_are(tmp_path, wheels):
    wheel = write_wheel(wheels, "tables", "1.0", programs=["show"], files={"tables-1.0.data/data/share/notes": "1"})
    other = write_wheel(
        tmp_path / "other", "tables", "1.0", programs=["show"], files={"tables-1.0.data/data/share/notes": "1"}
    )
    first, second = tmp_path / "first", tmp_path / "second"

    packages.install(first, HOME, base(), "amd64", [f"tables @ {wheel.as_uri()}"])
    packages.install(second, HOME, base(), "amd64", [f"tables @ {other.as_uri()}"])

    assert digest(first) == digest(second)
    names = {str(path.relative_to(first / "opt/packages")) for path in first.rglob("*") if path.is_file()}
    assert [path.name for path in (first / "opt/packages/lib").iterdir()] == ["python3.9"], "not that of this Python"
    assert not [name for name in names if name.endswith(".pyc") or name.startswith("bin/")]
    assert str(tmp_path) not in "".join(path.read_text() for path in first.rglob("*") if path.is_file())


def test_programs_that_a_package_has_as_files_are_for_the_image_s_python(tmp_path, wheels):
    scripts = {"count": "#!python\nprint(1)\n", "again": f"#!{sys.executable} -v\n", "draw": "\x7fELF\n"}
    files = {f"tables-1.0.data/scripts/{name}": text for name, text in scripts.items()}
    write_wheel(wheels, "tables", "1.0", programs=["show"], files=files)
    write_wheel(wheels, "pip", "99", programs=["pip"])

    packages.install(tmp_path, HOME, base(), "amd64", ["tables", "pip"])

    programs = {path.name: path.read_text() for path in (tmp_path / "opt/packages/bin").iterdir()}
    assert programs == scripts | {"count": "#!/usr/bin/env python3\nprint(1)\n"}
    record = packages.packages_folder(tmp_path, HOME, (3, 9)) / "tables-1.0.dist-info" / "RECORD"
    rows = [row for row in record.read_text().splitlines() if "/bin/" in row]
    assert rows == [f"../../../bin/{name},," for name in sorted(scripts)]


@pytest.mark.parametrize(
    ("tag", "url", "sentence"),
    [
        ("cp39-cp39-linux_x86_64", "{}", "tables has no wheel, and its source cannot be built here for linux/amd64"),
        ("py3-none-any", '{"dir_info": {"editable": true}}', "tables is editable, .* name its folder without -e"),
    ],
    ids=["built here", "editable"],
)
def test_what_works_on_this_machine_only_is_refused(tmp_path, tag, url, sentence):
    with zipfile.ZipFile(write_wheel(tmp_path / "wheels", "tables", "1.0", tag=tag)) as wheel:
        wheel.extractall(tmp_path)
    (tmp_path / "tables-1.0.dist-info" / "direct_url.json").write_text(url)

    with pytest.raises(NotPossible, match=sentence):
        packages._check(tmp_path, "amd64")


@pytest.mark.parametrize(
    ("requirement", "sentence"),
    [
        ("tables", "there is no wheel of tables for Python 3.9 on linux/amd64, and packages are not built from source"),
        ("locked.txt", "Hashes are required"),
    ],
    ids=["source", "hash"],
)
def test_what_pip_refuses_is_a_sentence(tmp_path, wheels, requirement, sentence):
    wheels.mkdir()
    (wheels / "tables-1.0.tar.gz").write_bytes(b"source")
    write_wheel(wheels, "tables", "2.0", tag=FOREIGN)
    write_wheel(wheels, "arrays", "1.0")
    (tmp_path / "locked.txt").write_text("--require-hashes\narrays==1.0\n")
    options = ["-r", str(tmp_path / requirement)] if requirement.endswith(".txt") else [requirement]

    with pytest.raises(NotPossible) as raised:
        packages.install(tmp_path / "root", HOME, base(), "amd64", options)

    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_index_that_does_not_answer_is_named():
    output = (
        "WARNING: Retrying (Retry(total=4)) after connection broken by 'refused': /simple/tables/\n"
        "ERROR: No matching distribution found for tables\n"
    )

    problem = packages._problem(output, (3, 9), "amd64")

    assert problem.startswith("there is no wheel of tables for Python 3.9 on linux/amd64, ")
    assert problem.endswith("; but an index did not answer: connection broken by 'refused': /simple/tables/")


def test_a_pip_that_goes_by_its_own_environment_is_refused():
    with pytest.raises(SystemExit, match="this version of pip is not supported: markers has no default_environment"):
        foreign_pip._replace(ModuleType("markers"), "default_environment", dict)


def test_packages_that_pip_has_put_elsewhere_need_their_room_once(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "arrays.py").touch()
    file = (tmp_path / "here" / "arrays.py").stat().st_ino

    packages._move(tmp_path / "here", tmp_path / "there" / "packages")

    assert (tmp_path / "there" / "packages" / "arrays.py").stat().st_ino == file
    assert not (tmp_path / "here").exists()
