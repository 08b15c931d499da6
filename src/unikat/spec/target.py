"""A target or threshold that the owner of the data sets: `tau1 <= 5`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias, get_args

from unikat.errors import shown

TargetMeasure: TypeAlias = Literal[
    "tau1", "tau2", "tau1_upper", "tau2_upper", "r1", "records", "k", "population_k"
]
"""What is limited.

| measure | is |
|---|---|
| `tau1`, `tau2` | the posterior mean |
| `tau1_upper`, `tau2_upper` | the upper end of the interval |
| `r1` | the largest r1 of a record |
| `records` | records with r1 above a limit |
| `k` | records of the file in the smallest combination of keys: k-anonymity |
| `population_k` | the lower end of the interval of the same in the population |
"""

_NUMBER = r"[0-9]{1,15}(?:,[0-9]{3})*(?:\.[0-9]{1,15})?"
_FORM = re.compile(
    rf"\s*(?P<measure>[a-z0-9τ_]+)\s*(?:\(\s*r1\s*>\s*(?P<above>{_NUMBER})\s*\))?\s*"
    rf"(?P<sign><=|≤|>=|≥)\s*(?P<limit>{_NUMBER})\s*"
)
TAUS: tuple[TargetMeasure, ...] = ("tau1", "tau2")
"""Measures of which an assessment has a threshold."""
AT_LEAST: tuple[TargetMeasure, ...] = ("k", "population_k")
"""Measures that a target wants to be large."""


@dataclass(frozen=True)
class Target:
    """What a protected file has to reach; of an assessment the largest acceptable risk.

    Examples
    --------
    >>> Target.of("tau1_upper <= 5")
    Target(measure='tau1_upper', limit=5.0, above=None)
    >>> str(Target.of("records(r1 > 0.2) ≤ 10")), str(Target.of("k >= 3"))
    ('records(r1 > 0.2) <= 10', 'k >= 3')
    """

    measure: TargetMeasure
    limit: float
    above: float | None = None
    """Of `records`: the r1 above which a record counts."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a target.

        Raises
        ------
        ValueError
            If the text has another form.
        """
        found = _FORM.fullmatch(text)
        measure = found["measure"].replace("τ", "tau") if found else ""
        sign = found["sign"].replace("≤", "<=").replace("≥", ">=") if found else ""
        if (
            found is None
            or measure not in get_args(TargetMeasure)
            or (sign == ">=") != (measure in AT_LEAST)
            or (found["above"] is None) != (measure != "records")
        ):
            raise ValueError(
                f"{shown(text)} is no target; write one as in 'tau1 <= 5', 'tau1_upper <= 5', "
                "'tau2 <= 20', 'tau2_upper <= 20', 'r1 <= 0.2', 'records(r1 > 0.2) <= 10', "
                "'k >= 3' or 'population_k >= 5'"
            )
        above = None if found["above"] is None else float(found["above"])
        limit = float(found["limit"].replace(",", ""))
        if (measure == "r1" and limit >= 1.0) or (above is not None and above >= 1.0):
            raise ValueError(f"{shown(text)}: r1 is a probability; give a number below 1")
        return cls(measure, limit, above)  # type: ignore[arg-type]

    @classmethod
    def threshold(cls, text: str) -> Self:
        """Read the threshold of an assessment: a target for τ1 or τ2.

        Raises
        ------
        ValueError
            If the text has another form.
        """
        try:
            found = cls.of(text)
        except ValueError:
            found = None
        if found is None or found.measure not in TAUS:
            raise ValueError(
                f"{shown(text)} is no threshold; write tau1 or tau2, then <=, then the largest "
                "acceptable number, as in 'tau1 <= 5'"
            )
        return found

    @property
    def wants_more(self) -> bool:
        """Whether larger values are better."""
        return self.measure in AT_LEAST

    def met(self, value: float) -> bool:
        """Whether a value of the measure is good enough."""
        return value >= self.limit if self.wants_more else value <= self.limit

    def __str__(self) -> str:
        above = "" if self.above is None else f"(r1 > {self.above:.15g})"
        return f"{self.measure}{above} {'>=' if self.wants_more else '<='} {self.limit:.15g}"
