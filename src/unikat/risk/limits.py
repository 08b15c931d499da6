"""The verdict on a limit: one function for assessments, plans, protected files and scenarios.

A limit is judged by numbers of the published file: `tau1` and `tau2` by the upper end of their
interval, `tau1_estimate` and `tau2_estimate` by the posterior mean, `r1` by the largest posterior
mean of a record. Where there are several estimates of one file, as by a plan and by a new fit, the
least favourable one decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

import numpy as np

from unikat._typing import Float64, Int64
from unikat.data.table import CellTable
from unikat.risk.estimate import RiskEstimate, Summary
from unikat.spec.limits import COUNTED, Limit

Verdict: TypeAlias = Literal["met", "not met", "not known"]
Reason: TypeAlias = Literal[
    "not finished",
    "not converged",
    "unreliable interval",
    "shared keys",
    "copies",
    "perturbed",
    "not computed",
]
"""Why a verdict is not known."""
_BOUNDED = ("tau1", "tau1_estimate", "r1", "records")
"""Measures that perturbation does not make worse: a record that is a population unique by its true
keys was a sample unique before. τ2 may rise, and combinations may become smaller, also those of
the population that are published."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A limit and the verdict on it.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> frame = pd.DataFrame({"SEX": [1, 2, 2, 1], "AGE": [30, 41, 43, 30]})
    >>> judged = unikat.assess(frame, keys=["SEX", "AGE"], population_size=4).judge("tau1 <= 1")
    >>> judged.value, judged.verdict
    (2.0, 'not met')
    """

    limit: str
    """As it was set: `tau1 <= 5`."""
    value: float | None
    """The number that is judged; None if it is not known."""
    verdict: Verdict
    reason: Reason | None = None
    """Why the verdict is not known; None if it is."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """Numbers of a published file that limits are judged by."""

    tau1: Summary
    tau2: Summary
    smallest: float
    """Records in the smallest combination of keys."""
    r1: Float64 | None = None
    """(n,): posterior means of records or of patterns; None if they are not known."""
    counts: Int64 | None = None
    """(n,): records of each pattern; None: one of each."""
    population_smallest: float | None = None
    """Lower end of the interval of the smallest combination's count in the population."""
    households: bool = False
    """The units are households."""

    @classmethod
    def of(cls, found: RiskEstimate, population_smallest: float | None = None) -> Self:
        """Take them from an estimate; of incomplete records by what the file shows."""
        # A record that cannot be unique has no r1; if a sample unique has none, it is not known.
        r1 = found.records.r1_published
        known = not np.isnan(r1[found.records.unique]).any()
        return cls(
            tau1=found.tau1_shown or found.tau1,
            tau2=found.tau2_shown or found.tau2,
            smallest=smallest(found.table),
            r1=np.nan_to_num(r1) if known else None,
            counts=found.table.released,
            population_smallest=population_smallest,
            households=found.table.layout is not None,
        )

    def value(self, limit: Limit) -> float | None:
        """The number that a limit is judged by; None if it is not known."""
        if limit.of_households and not self.households:
            return None
        if limit.plain.startswith("tau"):
            found = self.tau1 if limit.plain.startswith("tau1") else self.tau2
            return found.upper if limit.of_interval else found.mean
        if limit.plain == "k":
            return self.smallest
        if limit.plain == "population_k":
            return self.population_smallest
        if self.r1 is None or limit.plain == "diversity":
            return None
        if limit.plain == "r1":
            return float(self.r1.max(initial=0.0))
        above = self.r1 > (limit.above or 0.0)
        return float(above.sum() if self.counts is None else self.counts[above].sum())


def smallest(table: CellTable) -> float:
    """Count the records of the smallest combination of keys; 0 in a file without records."""
    there = table.released > 0
    return float(table.released_matches[there].min(initial=table.n_records))


def judge(
    limit: Limit | str,
    values: Iterable[float | None],
    unknown: Sequence[Reason] | Reason | None = None,
) -> Judged:
    """Judge a limit by all that is known of one file; the least favourable value decides.

    Parameters
    ----------
    limit
        What is judged.
    values
        By each estimate of the file; None where an estimate does not tell the measure.
    unknown
        Why the estimates cannot be relied upon; each reason must allow the verdict. `k` is counted,
        so its verdict is known all the same; and an interval says nothing of an estimate. `shared
        keys`: the risk may be too low; a limit that is not met stays so. `copies` of households: it
        is too high, so a limit that is met stays so; with both nothing is known. `perturbed`: the
        values are those of the file before its values were perturbed, which makes no record more at
        risk (see `_BOUNDED`).

    Examples
    --------
    >>> judge("tau1 <= 5", [4.0, 6.0])
    Judged(limit='tau1 <= 5', value=6.0, verdict='not met', reason=None)
    >>> judge("tau1 <= 5", [4.0], unknown="not converged").verdict
    'not known'
    """
    limit = Limit.of(limit) if isinstance(limit, str) else limit
    known = [one for one in values if one is not None and one == one]
    value = limit.worst(known) if known else None
    met = None if value is None else limit.met(value)
    reasons: Sequence[Reason] = [unknown] if isinstance(unknown, str) else unknown or []
    reason = next((one for one in reasons if _leaves_open(one, limit, met)), None)
    if met is None or reason is not None:
        reason = reason or "not computed"
        return Judged(limit=str(limit), value=value, verdict="not known", reason=reason)
    return Judged(limit=str(limit), value=value, verdict="met" if met else "not met")


def _leaves_open(reason: Reason, limit: Limit, met: bool | None) -> bool:
    """Whether a reason leaves the verdict open, if by the numbers the limit is met, or not."""
    if reason == "perturbed":
        return not (met and limit.plain in _BOUNDED)
    if limit.plain in COUNTED:
        return False
    if reason == "shared keys":
        return met is not False
    if reason == "copies":
        return met is not True
    return reason != "unreliable interval" or limit.of_interval or limit.plain == "population_k"


def together(found: Iterable[Judged]) -> Verdict | None:
    """Give the verdict on several limits, all of which have to be met; None without any."""
    return worst(one.verdict for one in found)


def worst(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    """Give the verdict that counts of several, where all have to be met; None without any."""
    found = set(verdicts)
    order: tuple[Verdict, ...] = ("not met", "not known", "met")
    return next((one for one in order if one in found), None)
