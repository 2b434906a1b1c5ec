"""Where a tool comes from, in which order, and what is passed over on the way."""

import subprocess

import pytest

from toolbox.host import this_host


def spoken(path):
    return subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def test_each_source_is_taken_only_when_those_before_it_have_nothing(bench, page):
    bench.with_go()
    page.publish("alpha", "#!/bin/sh\necho v1.2.3, downloaded\n")
    on_path = bench.program(bench.bin / "alpha", "1.2.7")
    in_assets = bench.program(bench.root / "assets" / "alpha", "1.2.9")
    bench.environ["KUBEBUILDER_ASSETS"] = str(in_assets.parent)

    assert bench.run("alpha")[:2] == (0, [str(in_assets)])
    in_assets.unlink()
    assert bench.run("alpha")[:2] == (0, [str(on_path)])
    on_path.unlink()
    assert page.asked == []
    status, [downloaded], _ = bench.run("alpha")
    assert (status, spoken(downloaded)) == (0, "v1.2.3, downloaded")
    page.files.clear()
    assert bench.run("alpha") == (0, [downloaded], "")
    bench.cached_alpha.unlink()
    status, [built], _ = bench.run("alpha")
    assert (status, spoken(built)) == (0, "this is version v1.2.3")
    assert built == downloaded == str(bench.cached_alpha)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("echo v1.3.0", "is 1.3.0"),
        ("echo v1.2.3-rc.1", "is 1.2.3-rc.1"),
        ("echo nothing", "does not say its version"),
        ("echo v1.2.3; exit 1", "does not say its version"),
    ],
)
def test_a_program_on_path_is_passed_over_when_its_version_does_not_fit(bench, text, why):
    finished = bench.cache / "tools" / f"alpha-1.2.3-{platform()}" / "alpha"
    bench.program(finished, "1.2.3")
    unfit = bench.script(bench.bin / "alpha", text)

    status, out, err = bench.run("alpha")

    assert (status, out) == (0, [str(finished)])
    assert err == f"hack/tool: alpha 1.2.3: {unfit} {why}; passed over\n"


def test_a_program_that_path_leads_to_twice_is_passed_over_once(bench):
    bench.program(bench.cache / "tools" / f"alpha-1.2.3-{platform()}" / "alpha", "1.2.3")
    unfit = bench.program(bench.bin / "alpha", "1.3.0")
    (bench.root / "link").symlink_to(bench.bin)
    bench.environ["PATH"] += f":{bench.bin}:{bench.root / 'link'}"

    assert bench.run("alpha")[2] == f"hack/tool: alpha 1.2.3: {unfit} is 1.3.0; passed over\n"


def platform():
    return str(this_host()).replace("/", "-")


def test_paths_come_in_the_order_of_the_names(bench):
    alpha, beta = bench.program(bench.bin / "alpha", "1.2.3"), bench.program(bench.bin / "beta", "1.2.3")

    assert bench.run("beta", "alpha", "beta")[:2] == (0, [str(beta), str(alpha), str(beta)])


def test_tools_of_one_set_are_built_in_one_go(bench):
    bench.with_go(f"echo build >> {bench.root}/builds")

    status, out, _ = bench.run("beta", "alpha")

    assert status == 0
    assert [spoken(path) for path in out] == ["this is version v1.2.3"] * 2
    assert (bench.root / "builds").read_text() == "build\n"


def test_nothing_is_printed_when_one_of_several_cannot_be_had(bench):
    bench.program(bench.bin / "alpha", "1.2.3")

    status, out, err = bench.run("alpha", "gamma")

    assert (status, out) == (1, [])
    assert err == (
        "hack/tool: error: there is no tool named gamma\nhack/tool: there are: alpha, beta (hack/tools/versions.toml)\n"
    )
