"""The result of an assessment: summaries of τ1 and τ2, and the risk of every record."""

from __future__ import annotations

from dataclasses import dataclass

from unikat._typing import Bool, Float64
from unikat.data.table import CellTable
from unikat.inference.draws import Draws


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Posterior of one number: mean, median, equal-tailed interval, and its convergence."""

    mean: float
    median: float
    lower: float
    upper: float
    level: float
    rhat: float | None
    ess_bulk: float | None
    ess_tail: float | None


@dataclass(frozen=True, kw_only=True)
class RecordRisk:
    """Risk per pattern of the table (all arrays (n_cells,) unless said); a record has its pattern's."""

    unique: Bool
    """Sample unique (for incomplete patterns under 'integrate': count 1 and maybe unique)."""
    r1: Float64
    """P(population unique and sample unique | data); NaN where the pattern cannot be unique."""
    r1_lower: Float64
    r1_upper: Float64
    r2: Float64
    """E[1/F | data]: probability that a match to a record of this pattern is correct."""
    r2_lower: Float64
    r2_upper: Float64
    key_drop: Float64
    """(n_cells, n_keys): fall in r1 when the key is left out; NaN where not a sample unique."""


@dataclass(frozen=True, kw_only=True)
class RiskEstimate:
    """Everything an assessment has found."""

    table: CellTable
    draws: Draws | None
    """None when the risk is known exactly (N = n, or no sample uniques)."""
    tau1: Summary
    """Predictive: the number of sample uniques that are population unique."""
    tau2: Summary
    """Predictive: sum over sample uniques of 1/F."""
    tau1_expected: Summary
    """Expected given the parameters (the papers' τ*)."""
    tau2_expected: Summary
    records: RecordRisk
    converged: bool
    warnings: tuple[str, ...]
