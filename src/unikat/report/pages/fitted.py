"""Facts of the fitted model, for the report and the terminal.

Known facts get a title and a sentence; others are shown under their own name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unikat.files.toml import packaged_toml
from unikat.report.facts.result import Result
from unikat.report.pages import figures
from unikat.report.pages.canvas import Drawing
from unikat.report.text import selection
from unikat.report.text.numbers import counted, number, percent

PATH = "path"
_PATH_COLUMNS = {
    "added": "Term added",
    "B1": "B1/√ν",
    "B2": "B2/√ν",
    "tau1": "Expected τ1",
    "tau2": "Expected τ2",
    "held_out": "Held-out log score",
    "gain": "Gain",
    "gain_error": "Standard error",
}
_HELD_OUT = "held-out"
"""The criterion of a selection that goes by the score."""
_FACTS: dict[str, list[str]] = packaged_toml("unikat.report.text", "fit_facts.toml")
"""Title of a known fact, and what it means."""
_TERMS = {
    "independence": "all keys are independent",
    "two-way": "all two-way interactions",
    "three-way": "all three-way interactions",
}
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
    return f"Fitted model: {said}." if said else ""


def facts_in_line(fit: Mapping[str, Any]) -> str:
    """Say the single facts of a fit in a line; nothing if there are none."""
    parts = []
    for name, value in fit.items():
        if name == "terms":
            parts.append(str(value))
        elif name == "cells" and isinstance(value, int):
            parts.append(f"{counted(value, 'cell')} with positive probability")
        elif name == "zero_margins" and isinstance(value, int):
            parts.append(counted(value, "zero margin"))
        elif name not in _LEFT_OUT and not isinstance(value, (list, tuple, Mapping)):
            said = _score(value) if name in ("B1", "B2") else written(value)
            parts.append(f"{_FACTS[name][0] if name in _FACTS else name.replace('_', ' ')} {said}")
    return "; ".join(parts)


def title(name: str) -> str:
    """Name a fact as a reader would.

    Examples
    --------
    >>> title("zero_margins"), title("random_effects")
    ('Zero margins', 'Random effects')
    """
    words = name.replace("_", " ")
    return _FACTS[name][0] if name in _FACTS else f"{words[:1].upper()}{words[1:]}"


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
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3g}".replace("-", "−") if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {written(item)}" for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(written, value)) if value else "none"
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
    names = [name for name in _PATH_COLUMNS if any(name in step for step in steps)]
    caption = "Steps of the term selection" + ("" if all_shown else f", the last {len(steps)}")
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
            "held-out log score" if by_score else f"{criterion}/√ν",
            None if by_score else _threshold(result),
        )
    return Table(
        caption=caption,
        columns=tuple(_PATH_COLUMNS[name] for name in names),
        rows=tuple(tuple(_of_step(name, step) for name in names) for step in steps),
        figure=figure,
    )


def _of_step(name: str, step: Mapping[str, Any]) -> str:
    """Write a cell of the path; there is no gain before the first term."""
    value = step.get(name)
    if name in ("held_out", "gain", "gain_error"):
        return f"{value:.4f}".replace("-", "−") if isinstance(value, (int, float)) else ""
    if name in ("B1", "B2"):
        return _score(value)
    return _measure(value) if name in ("tau1", "tau2") else written(value)


def _score(value: Any) -> str:
    return f"{value:.2f}".replace("-", "−") if isinstance(value, (int, float)) else written(value)


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
        joined = "main effects, and interactions of keys joined by a colon"
        return _TERMS.get(str(value), joined)
    if name == "cells" and isinstance(value, int):
        possible = "possible " if result.zeros is not None else ""
        grid = _grid(result)
        return f"{percent(value / grid)} of the {grid:,} {possible}cells"
    if name == "zero_margins" and isinstance(value, int):
        return _zero_margins(value, result)
    if name == "criterion" and value == _HELD_OUT:
        return "each step adds the term with the highest log score of held-out records"
    return _FACTS.get(name, ("", ""))[1]


def _note(result: Result) -> str:
    """Explain the tests of fit (Skinner and Shlomo 2008) and the scores of a selection."""
    if "B1" not in result.fit:
        return ""
    return (
        "B1/√ν and B2/√ν test how well the model fits the rates of the cells, weighted by their "
        "effect on τ1 and τ2. Both are about standard normal if the model is right. Above "
        f"{_threshold(result):g} the rates vary around the terms; far below 0 the model has more "
        "terms than the file supports. They tell neither the size nor the sign of the error of τ1 "
        "and τ2. Several models can lie between, with different estimates; the intervals do not "
        f"cover these differences.{_with_classes(result)}{_on_scores(result)}"
    )


def _with_classes(result: Result) -> str:
    """Explain B1 and B2 for samples with design classes; begins with a blank."""
    if result.design is None or result.design.n_classes == 1:
        return ""
    return " They assume one sampling rate for all classes of the design."


def _on_scores(result: Result) -> str:
    """Explain the scores of a selection; begins with a blank."""
    path = result.fit.get(PATH, ())
    if not _is_table(path) or not any(step.get("held_out") is not None for step in path):
        return ""
    return (
        " The held-out log score is in nats per record: half of the records were held out, and the "
        "model fitted to the others. A term that raises it by several standard errors predicts "
        "better. criterion=held-out selects the terms by it."
    )


def _zero_margins(n: int, result: Result) -> str:
    if not n:
        return "every margin of the terms has a record"
    remedy = "; smoothing=1 leaves no zeros" if result.model_options.get("smoothing") == 0.0 else ""
    return (
        "margins of the terms without any record: the fit gives them probability zero, so on small "
        "samples τ1 tends to be understated"
        f"{remedy}"
    )
