"""Page one of the report, for a committee: no statistics beyond a number and its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unikat.report.facts.breakdown import LevelFacts
from unikat.report.text import households, sentences
from unikat.report.text.limits import whole_households
from unikat.report.text.numbers import counted, number, percent
from unikat.report.text.verdict import VerdictText, verdict_text

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
        return f"{self.variable}: {self.label}"


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
    sample = result.sample
    names = [key.name for key in result.keys[:MOST_KEYS]]
    if len(result.keys) > MOST_KEYS:
        names.append(f"and {len(result.keys) - MOST_KEYS} more")
    file = result.data or "The data frame"
    said = (
        f"{file} holds {result.unit.counted(sample.n_records)} from a population of "
        f"{sample.population_size:,} ({percent(sample.n_records / sample.population_size)})."
    )
    if result.households is not None:
        return f"{said} {households.assessed(result.households)}"
    if result.zeros is not None and result.zeros.n_dropped:
        said += f" {counted(result.zeros.n_dropped, 'further record')} broke a rule and " + (
            "was left out." if result.zeros.n_dropped == 1 else "were left out."
        )
    known = "this variable" if len(result.keys) == 1 else f"these {len(result.keys)} variables"
    return f"{said} An intruder is assumed to know {known}, the keys: {', '.join(names)}."


def meaning(result: Result) -> str:
    """Say what sample and population uniques are."""
    unit = result.unit
    said = (
        f"A sample unique is a {unit.one} that shares its combination of key values with no other."
    )
    if result.known_exactly and not result.sample.n_uniques:
        return f"{said} This file has none."
    return (
        f"{said} If it is also unique in the population, anyone who knows these values of "
        f"a {unit.whom} {unit.found}."
    )


def verdict_of(result: Result) -> VerdictText | None:
    """Say whether the limit is met; None if none was set."""
    if result.threshold is None:
        return None
    of = " by the values that the file shows" if result.tau1_shown else ""
    return verdict_text(
        result.threshold,
        result.tau1.level,
        of=of,
        remedy="Recode a variable and assess again.",
        unit=result.unit,
    )


def threshold_sentence(result: Result) -> str:
    """Say what the limit is and whether it is met; nothing if none was set."""
    found = verdict_of(result)
    return "" if found is None else f"{found.title} {found.sentence}"


def beside(result: Result) -> tuple[tuple[str, str], ...]:
    """Name what stands beside the answer: correct matches, sample uniques, the smallest cell."""
    sample = result.sample
    found = [("Expected correct matches (τ2)", sentences.in_line(result, result.tau2))]
    found.append(("Sample uniques", number(sample.n_uniques)))
    if sample.smallest is not None:
        found.append((f"Smallest combination, {result.unit.many}", number(sample.smallest)))
    return tuple(found)


def groups(result: Result) -> tuple[Group, ...]:
    """Return the levels that carry most of the risk, for the figure.

    First those of further columns. Levels of the keys are ranked by how much their expected τ1
    exceeds their share of the records.
    """
    total = result.tau1_expected.mean
    if total <= 0.0:
        return ()
    columns = [one for one in result.breakdowns if not one.is_key][:2]
    found = [group for one in columns for group in _groups(one)[:MOST_OF_COLUMN]]
    levels = [
        group
        for one in result.breakdowns
        if one.is_key and len(one.levels) > 1
        for group in _groups(one)
    ]
    rate = total / max(result.sample.n_records, 1)
    excess = [(group.tau1 - rate * group.n_records, group) for group in levels]
    ranked = sorted((pair for pair in excess if pair[0] > 0.0), key=lambda pair: -pair[0])
    shown = [group for _, group in ranked[: max(MOST_GROUPS - len(found), 4)]]
    return (*found, *sorted(shown, key=lambda group: -group.tau1))


def _groups_shown(result: Result) -> str:
    columns = [one.variable for one in result.breakdowns if not one.is_key][:2]
    share = (
        "evels whose share of the expected population uniques is larger than their share of the "
        f"{result.unit.many}"
    )
    if not columns:
        return f"L{share}."
    return f"First the levels of {' and '.join(columns)}, then l{share}."


def _groups(found: Breakdown) -> list[Group]:
    return [Group(variable=found.variable, **vars(one)) for one in found.levels]


def _keys(result: Result) -> str:
    known = [key for key in result.keys if key.drop is not None]
    if not known:
        return ""
    worst = max(known, key=lambda key: key.drop or 0.0)
    return (
        f"Without {worst.name}, about {number(worst.tau1_without or 0.0)} population uniques "
        "would remain. Merging levels of a variable has part of this effect."
    )


def rests_on(result: Result) -> tuple[str, ...]:
    """Say what the result rests on, in a few lines."""
    sample, design, unit = result.sample, result.design, result.unit
    found = []
    if result.known_exactly:
        found.append("The numbers follow from the file itself; nothing was estimated.")
    elif result.margins:
        found.append(
            "Among people with the same keys of the margins, the records are a simple random "
            "sample."
        )
    elif design is None and sample.n_households is None:
        found.append(f"The {unit.many} are a simple random sample of the population.")
    elif design is None:
        found.append("The households are a simple random sample of those in the population.")
    elif design.used == "none":
        found.append("The sampling design was not used.")
    else:
        found.append(f"The weights or strata describe how the {unit.many} were sampled.")
    if sample.n_households is not None:
        found.append(whole_households(result))
    found.append(
        f"The population size ({sample.population_size:,}) and the choice of the keys are right. "
        f"With more keys, more {unit.many} are unique."
    )
    found.append("The intruder knows all keys without error. Errors make correct matches rarer.")
    if sample.n_possible:
        found.append(
            f"Missing values in {unit.counted(sample.n_incomplete)} were filled in by the "
            "model, many times."
        )
    return tuple(found)
