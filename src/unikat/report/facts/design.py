"""The sampling design, and known margins of the population, in `result.json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from unikat.data.margins import margin_cell
from unikat.data.table import CellTable, Margin
from unikat.risk.exposure import BySampling, exposure_of
from unikat.spec.tables import DesignSpec

if TYPE_CHECKING:
    from unikat.models.base import Specified


@dataclass(frozen=True, kw_only=True)
class DesignResult:
    """The design of a sample whose units had unequal chances."""

    weights: str | None
    """Column of the weights, or of the inclusion probabilities."""
    strata: str | None
    """Column of the strata."""
    classes: Literal["strata", "weights"]
    """What the classes of equal chances are made of."""
    n_classes: int
    told_by: str | None
    """Key that determines the class of every record; None if there is none."""
    lowest_fraction: float
    """Smallest sampling fraction of a class."""
    highest_fraction: float
    design_effect: float
    """1 + the squared coefficient of variation of the weights (Kish 1965)."""
    used: Literal["classes", "cells", "none"]
    """How the model uses it: units of a class are alike; cells have weights; not at all."""


def design_result(
    table: CellTable, spec: DesignSpec, model: Specified | None
) -> DesignResult | None:
    """Return the facts of a table's design; None for equal chances."""
    sampling = table.sampling
    if sampling is None:
        return None
    exposure = exposure_of(table)
    key = None
    if isinstance(exposure, BySampling) and not exposure.appended:
        key = table.keys[exposure.column].name
    fractions = sampling.n_sampled / np.maximum(sampling.sizes, 1e-300)
    weights = sampling.weights
    used: Literal["classes", "cells", "none"] = "classes"
    if model is None or sampling.n_strata == 1:
        used = "none"
    if model is not None and model.uses_weights:
        # Model I of Polettini and Stander has one law for all cells, unless asked otherwise.
        used = "cells" if model.has_cell_rates else "none"
    return DesignResult(
        weights=spec.weights if spec.weights is not None else spec.inclusion,
        strata=spec.strata,
        classes="weights" if sampling.from_weights else "strata",
        n_classes=sampling.n_strata,
        told_by=key,
        lowest_fraction=float(min(fractions.min(), 1.0)),
        highest_fraction=float(min(fractions.max(), 1.0)),
        design_effect=float(len(weights) * (weights**2).sum() / weights.sum() ** 2),
        used=used,
    )


@dataclass(frozen=True, kw_only=True)
class MarginResult:
    """Exact counts of the population over some keys, and what they add to the sample."""

    file: str
    """Name of the file, or what a frame is called."""
    keys: tuple[str, ...]
    n_cells: int
    """Combinations of levels that have units in the population."""
    n_outside: int
    """Units at levels that the keys do not have."""
    standard_error: float | None
    """Relative standard error of the count as the sample alone estimates it, for the margin cell of
    a typical sample unique (median); None without complete sample uniques."""
    off: float | None
    """How far the sample's estimate is off, relative to the count, in the same way."""


def margin_results(table: CellTable) -> tuple[MarginResult, ...]:
    """Return the facts of a table's margins."""
    return tuple(_result(margin, table) for margin in table.margins)


def _result(margin: Margin, table: CellTable) -> MarginResult:
    cell = margin_cell(table.cells, margin.keys, table.n_levels)
    known = cell >= 0
    records = np.bincount(cell[known], table.counts[known], len(margin.counts))
    of_uniques = cell[table.unique & known]
    error = off = None
    if len(of_uniques):
        n, size = table.n_records, float(table.n_units)
        units = margin.counts[of_uniques]
        share = units / size
        # Of a simple random sample, without replacement.
        errors = np.sqrt(np.maximum((1.0 - n / size) * (1.0 - share), 0.0) / (n * share))
        error = float(np.median(errors))
        off = float(np.median(np.abs(records[of_uniques] * size / n / units - 1.0)))
    return MarginResult(
        file=margin.name,
        keys=tuple(table.keys[j].name for j in margin.keys),
        n_cells=int(np.count_nonzero(margin.counts)),
        n_outside=margin.outside,
        standard_error=error,
        off=off,
    )
