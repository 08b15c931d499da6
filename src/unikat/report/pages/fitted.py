"""Facts of the fitted model, for the report and the terminal.

Known facts get a title and a sentence; others are shown under their own name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unikat.report.facts.result import Result
from unikat.report.pages import figures
from unikat.report.pages.canvas import Drawing
from unikat.report.text import selection
from unikat.report.text.language import known
from unikat.report.text.numbers import digits, number, significant
from unikat.report.text.words import capital, counted, say

PATH = "path"
_COLUMNS = ("added", "B1", "B2", "tau1", "tau2", "held_out", "gain", "gain_error")
"""Of the steps of a term selection; `fit.step` has their titles."""
_HELD_OUT = "held-out"
"""The criterion of a selection that goes by the score."""
_UNDERFITTING = 1.645
_LEFT_OUT = ("margin_error", "criterion", "terms_added")
"""Facts that the terminal leaves out."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One fact."""

    title: str
    value: str
    words: str = ""
    """What it means; may be empty."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A fact that is a list of entries with the same names."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    figure: Drawing | None = None


@dataclass(frozen=True, kw_only=True)
class FittedPage:
    """The section of the report."""

    rows: tuple[Row, ...]
    note: str
    """About several rows; may be empty."""
    tables: tuple[Table, ...]


def on_page(result: Result) -> FittedPage | None:
    """Lay out the facts of the fit; None if there are none."""
    tables, rows = [], []
    for name, value in result.fit.items():
        if name in selection.NAMES:
            continue
        if name == PATH and _is_table(value):
            tables.append(_path(value, result))
        elif _is_table(value):
            tables.append(_table(name, value))
        else:
            said = _score(value) if name in ("B1", "B2") else written(value)
            rows.append(Row(title=title(name), value=said, words=_words(name, result)))
    if not rows and not tables:
        return None
    return FittedPage(rows=tuple(rows), note=_note(result), tables=tuple(tables))


def brief(result: Result) -> str:
    """Say the single facts in a line for the terminal; nothing if there are none."""
    fit = {name: value for name, value in result.fit.items() if name not in selection.NAMES}
    said = facts_in_line(fit)
    return say(said and "fit.terminal", facts=said)


def facts_in_line(fit: Mapping[str, Any]) -> str:
    """Say the single facts of a fit in a line; nothing if there are none."""
    parts = []
    for name, value in fit.items():
        if name == "terms":
            parts.append(str(value))
        elif name == "cells" and isinstance(value, int):
            parts.append(say("fit.cells_in_line", n=value))
        elif name == "zero_margins" and isinstance(value, int):
            parts.append(counted(value, "zero margin"))
        elif name not in _LEFT_OUT and not isinstance(value, (list, tuple, Mapping)):
            said = _score(value) if name in ("B1", "B2") else written(value)
            code = f"fit.title.{name}"
            called = say(code) if known(code) else name.replace("_", " ")
            parts.append(f"{called} {said}")
    return "; ".join(parts)


def title(name: str) -> str:
    """Name a fact as a reader would.

    Examples
    --------
    >>> title("zero_margins"), title("random_effects")
    ('Zero margins', 'Random effects')
    """
    code = f"fit.title.{name}"
    return say(code) if known(code) else capital(name.replace("_", " "))


def written(value: Any) -> str:
    """Write a fact of any kind.

    Examples
    --------
    >>> written(12345), written(0.123456), written(True), written(None)
    ('12,345', '0.123', 'yes', 'not known')
    >>> written({"alpha": 1.5, "keys": ["AGE", "SEX"]})
    'alpha 1.5, keys AGE, SEX'
    """
    if value is None:
        return say("numbers.unknown")
    if isinstance(value, bool):
        return say("fit.yes" if value else "fit.no")
    if isinstance(value, int):
        return number(value)
    if isinstance(value, float):
        return significant(value, 3) if abs(value) < 1000 else digits(value, 0)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {written(item)}" for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(written, value)) if value else say("fit.none")
    return str(value)


def _is_table(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(isinstance(entry, Mapping) for entry in value)
    )


def _table(name: str, entries: Sequence[Mapping[str, Any]]) -> Table:
    columns = tuple(dict.fromkeys(column for entry in entries for column in entry))
    return Table(
        caption=title(name),
        columns=tuple(map(title, columns)),
        rows=tuple(
            tuple(written(entry[column]) if column in entry else "" for column in columns)
            for entry in entries
        ),
    )


def _path(steps: Sequence[Mapping[str, Any]], result: Result) -> Table:
    """Lay out the steps of a term selection, with a figure where all are known."""
    added = result.fit.get("terms_added")
    all_shown = not isinstance(added, int) or added + 1 <= len(steps)
    # Older results have no scores.
    names = [name for name in _COLUMNS if any(name in step for step in steps)]
    caption = say("fit.path.all" if all_shown else "fit.path.last", n=len(steps))
    criterion = str(result.fit.get("criterion", "B2"))
    by_score = criterion == _HELD_OUT
    statistic = "held_out" if by_score else criterion
    values = [step.get(name) for step in steps for name in (statistic, "tau1")]
    figure = None
    if len(steps) > 1 and all(isinstance(value, (int, float)) for value in values):
        figure = figures.term_selection(
            [str(step.get("added", "")) for step in steps],
            [float(step[statistic]) for step in steps],
            [float(step["tau1"]) for step in steps],
            say("fit.score") if by_score else f"{criterion}/√ν",
            None if by_score else _threshold(result),
        )
    return Table(
        caption=caption,
        columns=tuple(say(f"fit.step.{name}") for name in names),
        rows=tuple(tuple(_of_step(name, step) for name in names) for step in steps),
        figure=figure,
    )


def _of_step(name: str, step: Mapping[str, Any]) -> str:
    """Write a cell of the path; there is no gain before the first term."""
    value = step.get(name)
    if name in ("held_out", "gain", "gain_error"):
        return digits(value, 4) if isinstance(value, (int, float)) else ""
    if name in ("B1", "B2"):
        return _score(value)
    return _measure(value) if name in ("tau1", "tau2") else written(value)


def _score(value: Any) -> str:
    return digits(value, 2) if isinstance(value, (int, float)) else written(value)


def _measure(value: Any) -> str:
    return number(value) if isinstance(value, (int, float)) else written(value)


def _threshold(result: Result) -> float:
    value = result.model_options.get("underfitting", _UNDERFITTING)
    return float(value) if isinstance(value, (int, float)) else _UNDERFITTING


def _grid(result: Result) -> int:
    """Possible combinations of the keys' levels."""
    if result.zeros is not None:
        return result.zeros.n_cells - result.zeros.n_impossible
    return math.prod(key.n_levels for key in result.keys)


def _words(name: str, result: Result) -> str:
    """Say what a fact means."""
    value = result.fit[name]
    if name == "terms":
        code = f"fit.terms.{value}"
        return say(code if known(code) else "fit.terms.others")
    if name == "cells" and isinstance(value, int):
        which = "all" if result.zeros is None else "possible"
        return say(f"fit.cells.{which}", n=value, grid=_grid(result))
    if name == "zero_margins" and isinstance(value, int):
        some = "smoothing" if result.model_options.get("smoothing") == 0.0 else "some"
        return say(f"fit.zero_margins.{some if value else 'none'}")
    if name == "criterion" and value == _HELD_OUT:
        return say("fit.criterion.score")
    code = f"fit.meaning.{name}"
    return say(known(code) and code)


def _note(result: Result) -> str:
    """Explain the tests of fit (Skinner and Shlomo 2008) and the scores of a selection."""
    path, design = result.fit.get(PATH, ()), result.design
    scored = _is_table(path) and any(step.get("held_out") is not None for step in path)
    if "B1" not in result.fit:
        return ""
    return say(
        "fit.note",
        design is not None and design.n_classes > 1 and "fit.note_classes",
        scored and "fit.note_scores",
        threshold=_threshold(result),
    )
