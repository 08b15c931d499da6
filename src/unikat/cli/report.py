"""`unikat report DIR`."""

from __future__ import annotations

from pathlib import Path

import click

from unikat.cli._output import say


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def report(folder: Path) -> int:
    """Render the report of the run in FOLDER again.

    The files of the run are checked first: if one was changed since it was written, nothing is
    rendered.
    """
    from unikat.report.folders.assessment import load, write_report

    say(str(write_report(load(folder))))
    return 0
