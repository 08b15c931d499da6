"""Risk by level, as the report shows it."""

from __future__ import annotations

from collections.abc import Sequence

from unikat.data.units import Unit
from unikat.report.facts.breakdown import Breakdown, LevelFacts
from unikat.report.text.words import counted, say

MOST_LEVELS = 8
"""Levels of a variable in the report; `result.json` has more."""


def tables(found: Sequence[Breakdown]) -> list[tuple[str, list[LevelFacts]]]:
    """Lay out the table: variables, keys last, and the rows of each."""
    return [(one.variable, _lines(one)) for one in sorted(found, key=lambda one: one.is_key)]


def _lines(found: Breakdown) -> list[LevelFacts]:
    """Levels with the highest risk, and the rest of them in one line."""
    shown = found.levels[:MOST_LEVELS]
    rest = [*found.levels[MOST_LEVELS:], *([] if found.other is None else [found.other])]
    if not rest:
        return list(shown)
    n_rest = len(found.levels) - len(shown) + found.n_other
    other = LevelFacts(
        label=counted(n_rest, "other level"),
        n_records=sum(one.n_records for one in rest),
        n_uniques=sum(one.n_uniques for one in rest),
        tau1=sum(one.tau1 for one in rest),
    )
    return [*shown, other]


def sentence(found: Sequence[Breakdown], unit: Unit) -> str:
    """Say what the numbers mean; nothing if there are none."""
    return say(bool(found) and "breakdown.meaning", unit=unit)
