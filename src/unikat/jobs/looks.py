"""What a look at a recoding tells: dataclasses of numbers and texts, written as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from unikat.jobs.levels import KeyGroups
from unikat.report.text.numbers import Estimated
from unikat.risk.limits import Judged

Choice: TypeAlias = "int | str"
"""What becomes of a key: the place of a step, or groups made by hand (`language.levels`)."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A recoding of a key."""

    rule: str
    """As --recode takes it; empty: the key as it is."""
    words: str
    n_groups: int
    """Levels that are left, none if the key is left out."""
    lost: float
    """Share of the key's information that it loses, 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class ExploredKey:
    """A key, and what can be done to it."""

    name: str
    ordered: bool
    """Its levels are numbers, so that recodings are steps of a slider."""
    steps: tuple[Step, ...]
    """From fine to coarse; the first is the key as it is."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """A number with its interval."""

    mean: float
    lower: float
    upper: float

    @classmethod
    def of(cls, found: Estimated) -> Range:
        """Take it from a summary."""
        return cls(mean=found.mean, lower=found.lower, upper=found.upper)

    @classmethod
    def at(cls, value: float) -> Range:
        """Without an interval."""
        return cls(mean=value, lower=value, upper=value)


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What a recoded file itself tells, without a model."""

    n_uniques: int
    """Sample uniques."""
    smallest: int
    """Records in the smallest combination."""
    groups: KeyGroups | None
    """Of the key that was asked for."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """The risk after a recoding."""

    steps: tuple[Choice, ...]
    """Of each key."""
    rules: dict[str, str]
    """What is done, by key, as --recode takes it; keys that stay as they are excepted. Groups that
    no rule makes are `file(KEY-groups.csv)`."""
    files: dict[str, tuple[tuple[str, str], ...]]
    """What these files hold: level and group."""
    tau1: Range
    tau2: Range
    n_uniques: int
    """Sample uniques."""
    smallest: int
    """Records in the smallest combination."""
    lost: float
    """Share of the information of all keys that is lost."""
    persons: Range | None = None
    """Persons in the population uniques where these are households, else None; without an interval
    where the file itself tells them or records are imputed."""
    n_states: int
    """States of the model that were looked at."""
    groups: KeyGroups | None = None
    """Of the key that was asked for."""
    bins: tuple[tuple[float, float, float], ...] = ()
    """Lower end, upper end and probability of each bar of a picture of τ1; none where it is known.
    """
    judged: Judged | None = None
    """The target and the verdict; None without a target, or until all states were looked at."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The plan of a search."""

    steps: tuple[int, ...]
    """Of each key."""
    early: str
    """That the search stopped early, and what a better plan would lose at least; else empty."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A plan of the frontier."""

    kind: str
    """`recode`, `sample` or `suppress`: no other plan of its kind beats it."""
    steps: tuple[int, ...]
    besides: dict[str, str]
    """What is done besides recoding, as options of `protect`."""
    rules: dict[str, str]
    tau1: Range
    """Without its interval until all states were looked at."""
    lost: float
    beaten: bool
    """Whether a plan of another kind has no more τ1 and costs less."""


@dataclass(frozen=True, kw_only=True)
class Points:
    """The frontier: plans that no other of their kind beats in τ1 and in what it costs."""

    points: tuple[Point, ...]
    n_plans: int
    """Recodings among which they were found."""
    n_others: int
    """Samples and plans with suppressed values that were looked at."""
    every: bool
    """Whether no recoding is missing that has 2% less τ1 than the one before it."""
    understated: str
    """The model, if plans with suppressed values are left out because it understates their risk."""
