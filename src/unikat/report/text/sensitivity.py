"""τ1 under other assumptions in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unikat.report.text import selection, track_record
from unikat.report.text.numbers import number
from unikat.report.text.selection import Answer, Range

if TYPE_CHECKING:
    from unikat.report.facts.result import Result
    from unikat.report.facts.sensitivity import Assumption, SensitivityFacts


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rows of the figure that have a title."""

    title: str
    """May be empty."""
    rows: tuple[Answer, ...]


@dataclass(frozen=True, kw_only=True)
class SensitivityPage:
    """The section of the report."""

    opening: str
    faint: bool
    """Some of the figure's intervals leave out some of the uncertainty."""
    notes: tuple[str, ...]
    """What each kind of assumption means."""


def groups(result: Result) -> tuple[Group, ...]:
    """Return the answer, and τ1 under other assumptions; empty if there is nothing to compare."""
    if track_record.of_result(result).unreliable:
        return ()
    others = (
        ("Model error", _rows(result, "overdispersion", "level")),
        ("Evidence on the model error", _rows(result, "rare_cells")),
        ("Candidate models, each without model error", selection.candidates(result)),
        ("Misreported key values, correct matches", _rows(result, "misreported_keys")),
    )
    filled = tuple(Group(title=title, rows=rows) for title, rows in others if rows)
    return (Group(title="", rows=(selection.answer(result),)), *filled) if filled else ()


def _rows(result: Result, *assumptions: Assumption) -> tuple[Answer, ...]:
    """Rows under some of the assumptions."""
    return tuple(
        Answer(
            label=_label(one, result),
            tau1=Range(middle=one.tau1_median, lower=one.tau1_lower, upper=one.tau1_upper),
        )
        for one in result.sensitivity
        if one.assumption in assumptions
    )


def on_page(result: Result) -> SensitivityPage | None:
    """Lay out the section; None if there is nothing to compare."""
    found = groups(result)
    if not found:
        return None
    return SensitivityPage(
        opening=_opening(found),
        faint=any(row.narrow for group in found for row in group.rows),
        notes=tuple(_notes(result)),
    )


def sentences(result: Result) -> dict[str, str]:
    """Return what the rows mean, by their path in `result.json`."""
    page = on_page(result)
    return {} if page is None else {"sensitivity": " ".join((page.opening, *page.notes))}


def _opening(found: Sequence[Group]) -> str:
    """Say the answer and between what numbers it is under other assumptions."""
    answer = found[0].rows[0].tau1
    others = [row for group in found[1:] for row in group.rows]
    least = min(others, key=lambda row: row.tau1.middle)
    most = max(others, key=lambda row: row.tau1.middle)
    said = f"The answer for τ1 is {answer.words}."
    if number(least.tau1.middle) == number(most.tau1.middle):
        return f"{said} Under the other assumptions it is about {number(least.tau1.middle)}."
    return (
        f"{said} Under other assumptions it is between {number(least.tau1.middle)} "
        f"(“{least.label}”) and {number(most.tau1.middle)} (“{most.label}”)."
    )


def _label(one: SensitivityFacts, result: Result) -> str:
    if one.assumption == "overdispersion":
        others = [other.value for other in result.sensitivity if other.assumption == one.assumption]
        size = "Large" if one.value == max(others) else "Small"
        return f"{size} deviations ({math.sqrt(one.value):.0%})"
    if one.assumption == "level":
        return f"Cells {selection.rarer(one.value)}"
    if one.assumption == "rare_cells":
        return f"Rare cells, weight {one.value:g}"
    return f"{100 * one.value:g}% misreported"


def _notes(result: Result) -> list[str]:
    """Explain the kinds of assumptions that there are."""
    kinds = {one.assumption for one in result.sensitivity}
    said = []
    if kinds & {"overdispersion", "level"}:
        said.append(
            "Model error: τ1 by the fifth of the draws in which cells deviate least or most from "
            "the model (coefficient of variation), or are rarest or most frequent. The number is "
            "the median of that fifth: the 10% or 90% quantile of all draws."
        )
    if "rare_cells" in kinds:
        said.append(
            "Rare cells: the draws are reweighted as if the rare cells of the file told less of "
            "the model error."
        )
    if "misreported_keys" in kinds:
        said.append(
            "Misreported key values: in the file this share of the values of each key is replaced "
            f"by random ones. τ1 then counts the {result.unit.many} that are sample unique as "
            f"published, unique in the true population, and matched to the right "
            f"{result.unit.whom}."
        )
    return said
