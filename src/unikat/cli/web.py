"""The command `web`."""

from __future__ import annotations

from pathlib import Path

import click

from unikat.cli._output import say


@click.command()
@click.argument("folder", metavar="[FOLDER]", type=click.Path(path_type=Path), default=Path())
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="P",
    help="Port.  [default: a free one]",
)
@click.option("--no-browser", is_flag=True, help="Print the address and do not open a browser.")
def web(folder: Path, port: int, no_browser: bool) -> int:
    """Open the workbench: choose a file of FOLDER in the browser, mark the keys, read the report.

    Only this machine can reach it, and only the browser that opens the address first. Files are
    read where they lie and never copied. The last line printed is the address; Ctrl-C ends the
    workbench, and runs that go on then keep what is done.
    """
    from unikat.web.server import serve

    serve(folder, port=port, browser=not no_browser, tell=say)
    return 0
