"""Official releases: taken when the page is there, checked, and never waited for longer than three seconds."""

import io
import socket
import time
from contextlib import ExitStack

import pytest

from toolbox import catalogue, download
from toolbox.host import this_host
from toolbox.progress import Progress

RELEASE = "#!/bin/sh\necho v1.2.3, downloaded\n"


def test_a_release_is_taken_from_the_page_when_its_checksum_is_right(bench, page):
    page.publish("alpha", RELEASE)

    status, [path], err = bench.run("alpha")

    assert status == 0
    assert bench.cached_alpha.read_text() == RELEASE
    assert path == str(bench.cached_alpha)
    assert f"hack/tool: alpha 1.2.3: downloading {page.url}/v1.2.3/alpha.tar.gz: done in " in err
    assert bench.leftovers() == [bench.cached_alpha]


def test_a_wrong_checksum_stops_everything_and_leaves_nothing(bench, page):
    bench.with_go()
    page.publish("alpha", RELEASE, checksum="f" * 64)

    status, out, err = bench.run("alpha")

    assert (status, out) == (1, [])
    assert f"and its publisher says {'f' * 64}\n" in err
    assert "CI=1 builds from source instead" in err
    assert "Traceback" not in err
    assert bench.leftovers() == []


def test_nothing_is_asked_of_the_page_when_ci_is_set(bench, page):
    page.publish("alpha", RELEASE)
    bench.environ["CI"] = "true"
    bench.with_go()

    status, _, err = bench.run("alpha")

    assert status == 0
    assert page.asked == []
    assert "hack/tool: CI is set: official releases are not downloaded\n" in err


def test_pages_that_never_answer_are_given_up_after_three_seconds_in_all(bench):
    # They take connections and say nothing, as a firewall that drops packets does.
    with ExitStack() as servers:
        tools = []
        for name in ("alpha", "beta"):
            server = servers.enter_context(socket.create_server(("127.0.0.1", 0)))
            environ = {"TF_OPERATOR_MIRROR_PAGE": f"http://127.0.0.1:{server.getsockname()[1]}"}
            tools += catalogue.load(bench.tools / "versions.toml", environ=environ, host=this_host()).select([name])
        lines = io.StringIO()
        started = time.monotonic()
        offers = download.offers(tools, environ={}, progress=Progress(lines))
        elapsed = time.monotonic() - started

    assert offers == {}
    # One after the other they would have taken at least twice as long.
    assert download.DECISION_SECONDS <= elapsed < 2 * download.DECISION_SECONDS
    assert lines.getvalue().count("did not answer within 3 s; not downloading from there\n") == 2


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "cannot be reached (HTTP Error 404: Not Found); not downloading from there"),
        ({"/v1.2.3/SHA256SUMS": b"<html>welcome</html>"}, "no checksum for alpha.tar.gz is listed; not downloading"),
        ({"/v1.2.3/SHA256SUMS": b"f" * 64}, "the download broke off (HTTP Error 404: Not Found); building it instead"),
    ],
    ids=["no checksum file", "no checksum in it", "no release"],
)
def test_it_is_built_when_the_page_does_not_have_it(bench, page, files, why):
    bench.with_go()
    page.files |= files

    status, [path], err = bench.run("alpha")

    assert (status, path) == (0, str(bench.cached_alpha))
    assert why in err


def test_it_is_built_when_the_release_does_not_run_here(bench, page):
    bench.with_go()
    page.publish("alpha", "\x7fELF for another processor")

    status, _, err = bench.run("alpha")

    assert status == 0
    assert "alpha 1.2.3: the download does not run here; building it instead" in err


def test_a_refused_connection_is_not_waited_for(bench):
    bench.environ["CI"] = ""  # and the page of the catalogue is a port where nobody listens
    bench.with_go("exit 1")
    started = time.monotonic()

    _, _, err = bench.run("alpha")

    assert time.monotonic() - started < download.DECISION_SECONDS
    assert "127.0.0.1:9 cannot be reached" in err
