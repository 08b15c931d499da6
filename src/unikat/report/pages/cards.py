"""What a notebook shows of an answer: its sentences, and its main numbers as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from unikat.errors import visible
from unikat.report.pages.plots import theme
from unikat.report.text.numbers import number

_MOST_ROWS = 20
_RULES = """
.unikat-card { background: var(--paper); color: var(--ink); border: 1px solid var(--rule);
  border-radius: 6px; padding: 0.6em 1em; max-width: 60em; overflow-x: auto;
  font: 14px/1.45 system-ui, "Segoe UI", Arial, "Liberation Sans", sans-serif; }
.unikat-card p { margin: 0.35em 0; color: var(--ink); overflow-wrap: anywhere; }
.unikat-card p:first-of-type { font-weight: 600; }
.unikat-card p.foot { color: var(--soft); font-size: 12px; }
.unikat-card table { border-collapse: collapse; margin: 0.6em 0; background: var(--paper);
  font-size: 13px; font-variant-numeric: tabular-nums; }
.unikat-card th, .unikat-card td { text-align: right; padding: 0.2em 0.7em; border: 0;
  white-space: nowrap;
  border-bottom: 1px solid var(--rule); color: var(--ink); background: var(--paper); }
.unikat-card .text, .unikat-card tbody th { text-align: left; font-weight: 400; }
.unikat-card thead th { color: var(--soft); font-weight: 600; }
"""


def card(said: Sequence[str], table: Sequence[Sequence[Any]] = (), figure: str = "") -> str:
    """Return an answer as HTML: the first sentence leads, a table and a figure follow.

    The first row of the table has the titles. No value of a record is in it: sentences and numbers
    are those of the page of a run.
    """
    words = "".join(f"<p>{escape(visible(text))}</p>" for text in said if text)
    style = f"<style>{theme('.unikat-card')}{_RULES}</style>"
    return f'{style}<div class="unikat-card">{words}{_table(table) if table else ""}{figure}</div>'


def _table(table: Sequence[Sequence[Any]]) -> str:
    titles, *rows = table
    head = "".join(
        f'<th scope="col"{_kind(below)}>{escape(visible(title.replace("_", " ")))}</th>'
        for title, below in zip(titles, rows[-1] if rows else titles, strict=True)
    )
    body = []
    for first, *others in rows[:_MOST_ROWS]:
        cells = "".join(f"<td{_kind(one)}>{_written(one)}</td>" for one in others)
        body.append(f'<tr><th scope="row">{_written(first)}</th>{cells}</tr>')
    more = len(rows) - _MOST_ROWS
    foot = f'<p class="foot">and {more} more rows: .summary()</p>' if more > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>{foot}"


def _kind(value: Any) -> str:
    return ' class="text"' if isinstance(value, str) else ""


def _written(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value != round(value) and abs(value) < 100:
        # An R-hat of 1.002 is not 1.
        near = abs(value) < 10 and float(f"{value:.3g}") == round(value)
        return f"{value:{'.3f' if near else '.3g'}}".replace("-", "−")
    return escape(visible(number(value) if isinstance(value, (int, float)) else str(value)))
