"""The picture of the live table: what a terminal shows of it."""

import io
import re
from html import unescape

from rich.console import Console
from rich.live import Live
from rich.table import Table

from demonstration import demo_picture


def table(state):
    table = Table(box=None)
    table.add_column("REPLICA")
    table.add_row(f"[cyan]worker-0[/] {state}")
    return table


def test_the_picture_has_what_the_terminal_shows_and_nothing_that_was_drawn_over():
    stream, terminal = io.StringIO(), demo_picture.Terminal()
    console = Console(file=stream, force_terminal=True, width=demo_picture.COLUMNS, _environ=demo_picture.TERMINAL)
    with Live(table("waits"), console=console, auto_refresh=False) as live:
        console.print("a line above " + "x" * 200, soft_wrap=True)
        live.update(table("runs"), refresh=True)
    terminal.write(stream.getvalue())

    picture = demo_picture.picture([line for line in terminal.lines if line.strip()])

    texts = [
        unescape(text).replace("\xa0", " ").rstrip() for text in re.findall(r"<text [^>]*>([^<]*)</text>", picture)
    ]
    assert [text for text in texts if text.strip()][-4:-3] == [f"a line above {'x' * 91}"]
    assert "waits" not in picture
    assert "worker-0" in picture
    assert "font-face" not in picture
