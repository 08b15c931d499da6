"""Risk by level, as the report shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unikat.report.facts.breakdown import Breakdown, LevelFacts
from unikat.report.text.numbers import counted, number, percent

MOST_LEVELS = 8
"""Levels of a variable in the report; `result.json` has more."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the table."""

    variable: str
    """Empty from the second row of a variable on."""
    n_rows: int
    """Rows of the variable, in its first row; else 0."""
    label: str
    n_records: str
    n_uniques: str
    tau1: str
    share: str
    """Of the expected population uniques."""


def rows(found: Sequence[Breakdown], tau1: float) -> list[Row]:
    """Lay out the table.

    Parameters
    ----------
    found
        Risk by the levels of each variable.
    tau1
        Expected τ1 of the file.
    """
    made = []
    for one in sorted(found, key=lambda one: one.is_key):
        lines = _lines(one)
        for i, facts in enumerate(lines):
            made.append(
                Row(
                    variable="" if i else one.variable,
                    n_rows=0 if i else len(lines),
                    label=facts.label,
                    n_records=number(facts.n_records),
                    n_uniques=number(facts.n_uniques),
                    tau1=number(facts.tau1),
                    share=percent(facts.tau1 / tau1) if tau1 > 0.0 else "–",
                )
            )
    return made


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


def sentence(found: Sequence[Breakdown]) -> str:
    """Say what the numbers mean; nothing if there are none."""
    if not found:
        return ""
    return (
        "Records, sample uniques and expected population uniques by level of each variable. The "
        "expected population uniques of a level are the sum of r1 over its records; over the "
        "levels of a variable they add up to the expected τ1. Levels with fewer than 10 records "
        "are summed up, unless small cells are shown."
    )
