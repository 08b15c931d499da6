"""τ1 under other assumptions in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unikat.report.text import selection, track_record
from unikat.report.text.numbers import level, number
from unikat.report.text.selection import Answer, Range
from unikat.report.text.sentences import about
from unikat.report.text.words import say

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
        (say("sensitivity.group.error"), _rows(result, "overdispersion", "level")),
        (say("sensitivity.group.evidence"), _rows(result, "rare_cells")),
        (say("sensitivity.group.candidates"), selection.candidates(result)),
        (say("sensitivity.group.misreported"), _rows(result, "misreported_keys")),
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
    same = number(least.tau1.middle) == number(most.tau1.middle)
    how = "sensitivity.about" if same else "sensitivity.between"
    return say("sensitivity.opening", how, answer=answer.words, least=least, most=most)


def _label(one: SensitivityFacts, result: Result) -> str:
    name: str = one.assumption
    if name == "overdispersion":
        others = [other.value for other in result.sensitivity if other.assumption == name]
        name = "large" if one.value == max(others) else "small"
    return say(
        f"sensitivity.row.{name}",
        value=one.value,
        size=math.sqrt(abs(one.value)),
        rarer=selection.rarer(one.value),
        share=level(one.value),
    )


def _notes(result: Result) -> list[str]:
    """Explain the kinds of assumptions that there are."""
    kinds = {one.assumption for one in result.sensitivity}
    names = ["error"] if kinds & {"overdispersion", "level"} else []
    names += [name for name in ("rare_cells", "misreported_keys") if name in kinds]
    return [about(result)(f"sensitivity.note.{name}") for name in names]
