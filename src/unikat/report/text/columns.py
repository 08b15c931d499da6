"""Tables of text, for the terminal."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence


def columns(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Write rows as lines, with their columns under each other.

    Parameters
    ----------
    rows
        Texts, as many in every row.
    left
        Columns that begin under each other; the others end so.

    Examples
    --------
    >>> columns([("key", "levels"), ("occupation", "9")])
    ['key         levels', 'occupation       9']
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for i in range(len(rows[0])):
        table.add_column(justify="left" if i in left else "right", no_wrap=True)
    for row in rows:
        # As they are: a name may look like markup.
        table.add_row(*map(Text, row))
    written = io.StringIO()
    Console(file=written, width=100_000, color_system=None).print(table)
    return [line.rstrip() for line in written.getvalue().splitlines()]
