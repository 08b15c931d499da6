"""The model error of a fitted model: its distribution, and the facts that a report has of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from unikat._typing import Float64
from unikat.data.table import CellTable
from unikat.models.base import AnyModel
from unikat.models.calibrated import (
    SHIFTS,
    ErrorFacts,
    OutsideFacts,
    OutsideOf,
    SelectionFacts,
    TauFacts,
    values_of_k,
)
from unikat.risk.estimate import Summary
from unikat.studies.calibrate import experience_of, outside, posterior, prior, quantiles
from unikat.studies.compare import RiskFit


def weights_of_error(table: CellTable, model: AnyModel, risk: RiskFit) -> Float64:
    """Distribution of the error: what is known beforehand, and what the rare cells tell."""
    evidence = np.reshape(risk.evidence, (-1, len(SHIFTS)))
    known = known_beforehand(table, model, risk.tau1)
    return posterior(known, evidence, experience_of(table, model))


def known_beforehand(table: CellTable, model: AnyModel, tau1: Summary) -> Float64:
    """Distribution of the error before the rare cells are looked at, τ1 being the model's own."""
    return prior(table, experience_of(table, model), tau1.mean)


def with_known_error(
    told: SelectionFacts, table: CellTable, model: AnyModel, tau1: Summary, weights: Float64
) -> SelectionFacts:
    """Add the error, and the answer without it, τ1."""
    beyond = outside(table, experience_of(table, model))
    error = (
        _error("overdispersion", weights.sum(axis=1), values_of_k(table), tau1.level),
        _error("level", weights.sum(axis=0), np.exp(SHIFTS), tau1.level),
    )
    return replace(
        told,
        model_error=error,
        before=TauFacts(mean=tau1.mean, median=tau1.median, lower=tau1.lower, upper=tau1.upper),
        outside=beyond or None,
        warnings=(*_unlike(beyond, table), *(_at_end(one) for one in error if one.at_end)),
    )


def _error(
    what: Literal["overdispersion", "level"], weights: Float64, values: Float64, level: float
) -> ErrorFacts:
    lower, middle, upper = quantiles(weights, values, level)
    # An overdispersion below the smallest is none that matters.
    ends = values[-1:] if what == "overdispersion" else values[[0, -1]]
    return ErrorFacts(
        what=what, lower=lower, median=middle, upper=upper, at_end=bool(middle in ends)
    )


_WORDS: dict[OutsideOf, tuple[str, str, float]] = {
    "keys": ("{:,.0f} to {:,.0f} keys", "{:,.0f} key{s}", 1.0),
    "records": ("{:,.0f} to {:,.0f} {unit}s", "{:,.0f} {unit}{s}", 1.0),
    "sampling_fraction": (
        "sampling fractions of {:.2g}% to {:.2g}%", "a sampling fraction of {:.2g}%", 100.0,
    ),
    "share_of_uniques": ("{:.2g}% to {:.3g}% sample uniques", "{:.2g}% sample uniques", 100.0),
    "alike": ("at most {1:.0f} shared keys", "as much sharing as {:.1f} shared keys make", 1.0),
}  # fmt: skip
"""What the samples of the calibration have, what the file has, and in which units."""


def _unlike(found: Sequence[OutsideFacts], table: CellTable) -> list[str]:
    """Warn of a file unlike those of the calibration."""
    if not found:
        return []
    unit = "record" if table.layout is None else "household"
    seen, here = [], []
    for one in found:
        those, this, times = _WORDS[one.what]
        seen.append(those.format(times * one.lowest, times * one.highest, unit=unit))
        plural = "" if one.value == 1 else "s"
        here.append(this.format(times * one.value, unit=unit, s=plural))
    elsewhere = ", or evaluate the model on a population like yours (unikat evaluate)"
    return [
        f"Model uncertainty was calibrated on samples with {' and '.join(seen)}. This file has "
        f"{' and '.join(here)}: the uncertainty is larger for this, but the interval of τ1 is not "
        "tested there. Decide on it only if it is far from your limit"
        f"{elsewhere if table.layout is None else ''}."
    ]


def _at_end(error: ErrorFacts) -> str:
    """Warn of an error that may be larger than any that is tried."""
    cells = error.what == "overdispersion"
    what = "overdispersion of the cells" if cells else "general level"
    return (
        f"The model error lies at the end of the range that is tried ({what} {error.median:.3g}), "
        "and may be larger. The interval of τ1 may be too narrow. Decide on it only if it is far "
        "from your limit."
    )
