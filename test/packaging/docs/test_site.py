"""What `make docs` refuses, beside what MkDocs itself finds."""

import pytest

from pages import built

OTHER = '<h2 id="here">Here</h2><img src="a.png" alt="a">'


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="../other.html#here">x</a><a href="https://kubernetes.io">y</a><p>1 - 2</p>', None),
        ("<p>Text <code>\n- no list\n</code> text</p><pre>\n| no table |\n</pre>", None),
        ('<a href="gone.html">x</a>', "a/page.html links to gone.html, which is not there"),
        ('<a href="../other.html#gone">x</a>', "a/page.html links to ../other.html#gone, which has no such anchor"),
        ('<a href="#gone">x</a>', "a/page.html links to #gone, which has no such anchor"),
        ('<script src="//cdn/x.js"></script>', "a/page.html loads //cdn/x.js, which another host serves"),
        ('<link href="https://cdn/x.css">', "a/page.html loads https://cdn/x.css, which another host serves"),
        (
            "<style>@import 'https://x/f.css'</style>",
            "a/page.html loads https://x/f.css, which another host serves",
        ),
        ('<img src="../a.png">', "a/page.html has a picture without an alt text: ../a.png"),
        (
            "<p>Text:\n- one\n- two</p>",
            "a/page.html has a list or table without an empty line before it: 'Text:\\n- one\\n- two'",
        ),
    ],
)
def test_a_page_that_is_not_whole_is_named(tmp_path, html, problem):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/page.html").write_text(html)
    (tmp_path / "other.html").write_text(OTHER)
    (tmp_path / "a.png").touch()

    assert list(built.problems(tmp_path)) == [*filter(None, [problem])]


def test_a_style_that_loads_from_another_host_is_named(tmp_path):
    (tmp_path / "site.css").write_text("@font-face { src: url(https://fonts/x.woff2); background: url('own.png') }")

    assert list(built.problems(tmp_path)) == ["site.css loads https://fonts/x.woff2, which another host serves"]
