"""Page one of the report, for a committee: no statistics beyond a number and its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unikat.report.facts.breakdown import MISSING, LevelFacts
from unikat.report.text import households, sentences
from unikat.report.text.numbers import listed, number, titled
from unikat.report.text.sentences import about
from unikat.report.text.verdict import VerdictText, verdict_text
from unikat.report.text.words import say

if TYPE_CHECKING:
    from unikat.report.facts.breakdown import Breakdown
    from unikat.report.facts.result import Result

MOST_KEYS = 12
"""Key variables named on page one."""
MOST_GROUPS = 8
"""Levels drawn on page one."""
MOST_OF_COLUMN = 5
"""Levels drawn of a column other than the keys."""


@dataclass(frozen=True, kw_only=True)
class Group(LevelFacts):
    """A level of a variable, with its share of the risk."""

    variable: str

    @property
    def name(self) -> str:
        """Variable and level."""
        label = say("overview.missing") if self.label == MISSING else self.label
        return titled(self.variable, label)


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The sentences of page one."""

    assessed: str
    meaning: str
    verdict: VerdictText | None
    """On the limit; None if none was set."""
    beside: tuple[tuple[str, str], ...]
    """What stands beside the answer: a name and a number each."""
    groups: str
    """What the figure of the groups shows."""
    keys: str
    """What the figure of the keys shows."""
    rests_on: tuple[str, ...]


def overview(result: Result) -> Overview:
    """Write page one."""
    return Overview(
        assessed=assessed(result),
        meaning=meaning(result),
        verdict=verdict_of(result),
        beside=beside(result),
        groups=_groups_shown(result),
        keys=_keys(result),
        rests_on=rests_on(result),
    )


def assessed(result: Result) -> str:
    """Say which file, population and key variables were assessed."""
    names = [key.name for key in result.keys[:MOST_KEYS]]
    if len(result.keys) > MOST_KEYS:
        names.append(say("overview.assessed.more_keys", n=len(result.keys) - MOST_KEYS))
    n_dropped = 0 if result.zeros is None else result.zeros.n_dropped
    homes = result.households
    persons = homes is None
    said = about(result)(
        "overview.assessed.data",
        persons and n_dropped and "overview.assessed.left_out",
        persons and f"overview.assessed.{'key' if len(result.keys) == 1 else 'keys'}",
        file=result.data or say("overview.assessed.frame"),
        n=n_dropped,
        n_keys=len(result.keys),
        names=", ".join(names),
    )
    return said if homes is None else f"{said} {households.assessed(homes)}"


def meaning(result: Result) -> str:
    """Say what sample and population uniques are."""
    none = result.known_exactly and not result.sample.n_uniques
    last = "overview.meaning.none" if none else "overview.meaning.found"
    return about(result)("overview.meaning.unique", last)


def verdict_of(result: Result) -> VerdictText | None:
    """Say whether the limit is met; None if none was set."""
    if result.threshold is None:
        return None
    return verdict_text(
        result.threshold,
        result.tau1.level,
        of=say(result.tau1_shown and "overview.verdict.shown"),
        remedy=say("overview.verdict.remedy"),
        unit=result.unit,
    )


def threshold_sentence(result: Result) -> str:
    """Say what the limit is and whether it is met; nothing if none was set."""
    found = verdict_of(result)
    return "" if found is None else f"{found.title} {found.sentence}"


def beside(result: Result) -> tuple[tuple[str, str], ...]:
    """Name what stands beside the answer: correct matches, sample uniques, the smallest cell."""
    sample, speak = result.sample, about(result)
    found = [
        (speak("overview.tau2"), sentences.in_line(result, result.tau2)),
        (speak("overview.uniques"), number(sample.n_uniques)),
    ]
    if sample.smallest is not None:
        found.append((speak("overview.smallest"), number(sample.smallest)))
    return tuple(found)


def groups(result: Result) -> tuple[Group, ...]:
    """Return the levels that carry most of the risk, for the figure.

    First those of further columns. Levels of the keys are ranked by how much their expected τ1
    exceeds their share of the records.
    """
    columns = [one for one in result.breakdowns if not one.is_key][:2]
    found = [group for one in columns for group in _groups(one)[:MOST_OF_COLUMN]]
    total, n_records = result.tau1_expected.mean, result.sample.n_records
    if total <= 0.0:
        return ()
    return (*found, *riskiest(result.breakdowns, total, n_records, MOST_GROUPS - len(found)))


def riskiest(
    breakdowns: Sequence[Breakdown], total: float, n_records: int, most: int
) -> tuple[Group, ...]:
    """Levels of the keys whose expected τ1 most exceeds their share of the records."""
    levels = [
        group for one in breakdowns if one.is_key and len(one.levels) > 1 for group in _groups(one)
    ]
    rate = total / max(n_records, 1)
    excess = [(group.tau1 - rate * group.n_records, group) for group in levels]
    ranked = sorted((pair for pair in excess if pair[0] > 0.0), key=lambda pair: -pair[0])
    shown = [group for _, group in ranked[: max(most, 4)]]
    return tuple(sorted(shown, key=lambda group: -group.tau1))


def _groups_shown(result: Result) -> str:
    columns = [one.variable for one in result.breakdowns if not one.is_key][:2]
    code = "columns" if columns else "levels"
    return about(result)(f"overview.groups.{code}", columns=listed(columns or [""]))


def _groups(found: Breakdown) -> list[Group]:
    return [Group(variable=found.variable, **vars(one)) for one in found.levels]


def _keys(result: Result) -> str:
    known = [key for key in result.keys if key.drop is not None]
    if not known:
        return ""
    worst = max(known, key=lambda key: key.drop or 0.0)
    # As it is written: less than 0.1.
    code = "hardly" if 0.0 < (worst.tau1_without or 0.0) < 0.05 else "worst"
    return say(f"overview.keys.{code}", worst=worst)


def rests_on(result: Result) -> tuple[str, ...]:
    """Say what the result rests on, in a few lines."""
    whole = result.sample.n_households is not None
    if result.known_exactly:
        first = "exactly"
    elif result.margins:
        first = "margins"
    elif result.design is None:
        first = "whole_households" if whole else "random"
    else:
        first = "unused" if result.design.used == "none" else "design"
    codes = (
        f"overview.rests_on.{first}",
        whole and "households.sampled",
        "overview.rests_on.population",
        "overview.rests_on.intruder",
        result.sample.n_possible and "overview.rests_on.imputed",
    )
    return tuple(about(result)(code) for code in codes if code)
