"""The grammar of limits that the owner of the data sets: `tau1 <= 5`.

`risk.limits` judges them. Every option, field and argument that takes a limit is read here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias, get_args

from unikat.errors import shown, visible

Measure: TypeAlias = Literal[
    "tau1",
    "tau2",
    "tau1_estimate",
    "tau2_estimate",
    "r1",
    "records",
    "k",
    "population_k",
    "diversity",
    "households.tau1",
    "households.tau2",
    "households.tau1_estimate",
    "households.tau2_estimate",
    "households.r1",
    "households.k",
]
"""What is limited, always of the published file.

| measure | is |
|---|---|
| `tau1`, `tau2` | the upper end of the interval |
| `tau1_estimate`, `tau2_estimate` | the posterior mean |
| `r1` | the largest posterior mean r1 of a record |
| `records(r1 > x)` | records whose posterior mean r1 is above x |
| `k` | records of the file in the smallest combination of keys: k-anonymity |
| `population_k` | the lower end of the interval of the same in the population |
| `diversity(COLUMN)` | fewest values of a sensitive column in a combination: l-diversity |
| `households.tau1`, ... | the same of households, by the model `households` |
"""

_NUMBER = r"[0-9]{1,15}(?:,[0-9]{3})*(?:\.[0-9]{1,15})?"
_FORM = re.compile(
    rf"\s*(?P<measure>[a-z0-9τ_.]+)\s*(?:\((?P<inside>[^\n]*)\))?\s*"
    rf"(?P<sign><=|≤|>=|≥)\s*(?P<bound>{_NUMBER})\s*"
)
_ABOVE = re.compile(rf"\s*r1\s*>\s*(?P<above>{_NUMBER})\s*")
_HOUSEHOLDS = "households."
_UPPER = re.compile(r"((?:households\.)?tau[12])_upper")
AT_LEAST = ("k", "population_k", "diversity")
"""Measures that have to be large, whatever the units are."""
COUNTED = ("k", "diversity")
"""Measures that are counted in the file, so that no model is needed."""
LOWERED = ("r1", "tau1_estimate")
"""Measures that errors in an intruder's keys lower by a known share, see `Limit.without_errors`."""
FORMS = (
    "'tau1 <= 5' or 'tau2 <= 20' (upper end of the interval), 'tau1_estimate <= 5', 'r1 <= 0.2', "
    "'records(r1 > 0.2) <= 10', 'k >= 3' or 'population_k >= 5'"
)
"""How limits are written."""


@dataclass(frozen=True)
class Limit:
    """A limit of a measure of risk.

    Examples
    --------
    >>> Limit.of("tau1 <= 5")
    Limit(measure='tau1', bound=5.0, above=None, column=None)
    >>> str(Limit.of("records(r1 > 0.2) ≤ 10")), str(Limit.of("k >= 3"))
    ('records(r1 > 0.2) <= 10', 'k >= 3')
    """

    measure: Measure
    bound: float
    above: float | None = None
    """Of `records`: the r1 above which a record counts."""
    column: str | None = None
    """Of `diversity`: the sensitive column."""

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a limit.

        Raises
        ------
        ValueError
            If the text has another form.
        """
        found = _FORM.fullmatch(text)
        measure = found["measure"].replace("τ", "tau") if found else ""
        sign = found["sign"].replace("≤", "<=").replace("≥", ">=") if found else ""
        if old := _UPPER.fullmatch(measure):
            raise ValueError(
                f"{shown(text)}: write {old[1]}, which is judged by the upper end of its interval "
                f"({old[1]}_estimate by the estimate)"
            )
        if (
            found is None
            or measure not in get_args(Measure)
            or (sign == ">=") != (measure.removeprefix(_HOUSEHOLDS) in AT_LEAST)
            or (found["inside"] is None) != (measure not in ("records", "diversity"))
        ):
            raise _no_limit(text)
        above = column = None
        if measure == "records":
            if (inside := _ABOVE.fullmatch(found["inside"])) is None:
                raise _no_limit(text)
            above = float(inside["above"])
        elif measure == "diversity":
            column = found["inside"].strip()
            if not column or visible(column) != column:
                raise _no_limit(text)
        bound = float(found["bound"].replace(",", ""))
        if (measure.endswith("r1") and bound >= 1.0) or (above is not None and above >= 1.0):
            raise ValueError(f"{shown(text)}: r1 is a probability; give a number below 1")
        return cls(measure, bound, above, column)  # type: ignore[arg-type]

    @classmethod
    def of_file(cls, text: str) -> Self:
        """Read a limit of a file, which no plan goes with.

        Raises
        ------
        ValueError
            If the text has another form, or the measure is known of plans alone.
        """
        found = cls.of(text)
        if found.measure == "population_k":
            raise ValueError(
                "population_k is known of a plan of protection, not of a file; set a limit of "
                "tau1, tau2, r1, records or k, or run unikat protect --target"
            )
        return found.not_of_policy()

    def not_of_policy(self) -> Self:
        """Refuse what is judged by a policy alone (ValueError)."""
        if self.measure == "diversity":
            raise ValueError(
                "diversity is a limit of a policy; write it as a target of a scenario of "
                "policy.toml, and run unikat check"
            )
        return self

    @property
    def of_households(self) -> bool:
        """Whether it limits the risk of households."""
        return self.measure.startswith(_HOUSEHOLDS)

    @property
    def plain(self) -> str:
        """The measure, whatever the units are."""
        return self.measure.removeprefix(_HOUSEHOLDS)

    @property
    def of_interval(self) -> bool:
        """Whether an end of the interval of τ1 or τ2 is judged."""
        return self.plain in ("tau1", "tau2")

    @property
    def wants_more(self) -> bool:
        """Whether larger values are better."""
        return self.plain in AT_LEAST

    def met(self, value: float) -> bool:
        """Whether a value of the measure is good enough."""
        return value >= self.bound if self.wants_more else value <= self.bound

    def without_errors(self, errors: float) -> Limit:
        """Return what is measured where an intruder's values are wrong with probability `errors`.

        All his values of a person are right with probability 1 - errors at most, however errors
        depend on each other. A record's r1 and the expected τ1 fall by this factor. The upper end
        of an interval does not: with luck all of his values are right. Nor does what is counted.
        """
        if not errors:
            return self
        if self.plain in LOWERED:
            return replace(self, bound=self.bound / (1.0 - errors))
        if self.above is not None:
            return replace(self, above=self.above / (1.0 - errors))
        return self

    def with_errors(self, value: float, errors: float) -> float:
        """Return the measure against such an intruder, from the measure without errors."""
        return value * (1.0 - errors) if errors and self.plain in LOWERED else value

    def worst(self, values: list[float]) -> float:
        """The least favourable of some values."""
        return min(values) if self.wants_more else max(values)

    def __str__(self) -> str:
        inside = "" if self.above is None else f"(r1 > {self.above:.15g})"
        inside += "" if self.column is None else f"({self.column})"
        return f"{self.measure}{inside} {'>=' if self.wants_more else '<='} {self.bound:.15g}"


def _no_limit(text: str) -> ValueError:
    return ValueError(f"{shown(text)} is no limit; write one as in {FORMS}")
