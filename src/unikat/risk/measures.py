"""Risk measures from cell probabilities: one definition for every model (models.md §1).

Given the probability p_c that one unobserved individual falls in cell c, the M = N - n unobserved
individuals are multinomial over the cells. *Expected* measures are means given the model's
parameters (the papers' tau*); *predictive* ones count in a drawn population, and are what an
interval has to cover.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.table import CellTable, pattern_ids
from unikat.kernels import cells as kernels
from unikat.models.base import AnyModel, Stream
from unikat.rng import chain_key

TAUS = ("tau1", "tau2")
WITHOUT_ERROR = ("tau1_model", "tau2_model")
_PARTS = 16
"""Every draw leaves keys out for one of so many parts of the sample uniques."""
_RISK_COST = 250.0
"""Nanoseconds, roughly, from the probability of a cell to its place in the totals."""


class RiskTotals(NamedTuple):
    """Sums over draws; see `RiskEstimate` for what they become. All add across chains."""

    n_draws: Int64
    """(1,)"""
    weight: Float64
    """(n_cells,): draws times records."""
    r1: Float64
    """(n_cells,)"""
    r2: Float64
    """(n_cells,)"""
    histogram_r1: Int32
    """(n_cells, n_bins): over the square root of r1."""
    histogram_r2: Int32
    """(n_cells, n_bins)"""
    key_drop: Float64
    """(n_uniques, n_keys): fall of r1 when a key is left out."""
    key_draws: Int64
    """(_PARTS,): draws in which the part was looked at."""
    rank: Float64
    """(n_uniques,): place of the sample unique, 1 being that of the rarest cell."""
    histogram_rank: Int32
    """(n_uniques, n_bins): over the square root of (place - 1) / n_uniques."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RiskMeasures:
    """The observer that computes tau1, tau2 and the records' risks from a model's cells.

    Unobserved counts follow the model's `population` law. Built from a table by :meth:`of`. Scalars
    per draw: ``tau1``, ``tau2`` (predictive), ``tau1_expected``, ``tau2_expected``; of a model that
    puts its own error on the probabilities also ``tau1_model``, ``tau2_model``, the predictive
    measures without that error.
    """

    cells: Int32
    """(n_cells, n_keys) patterns of the table."""
    counts: Float64
    """(n_cells,) records that a pattern's r2 starts from, f or all compatible ones (wildcard)."""
    unique: Bool
    """(n_cells,) sample uniques."""
    incomplete: Int64
    """Patterns that every draw imputes (none unless missing keys are integrated over)."""
    n_incomplete: Int64
    """Records of each of those patterns."""
    n_levels: tuple[int, ...]
    unobserved: float
    """M = N - n."""
    margins: Int32
    """(n_margins, n_keys): sample uniques with one key left out that stay sample unique."""
    margin_unique: Int64
    """(n_margins,): the sample unique, counted among the uniques."""
    margin_key: Int64
    """(n_margins,): the key left out."""
    n_bins: int
    with_model: bool = False
    """Convergence is judged on `WITHOUT_ERROR` too: the error is drawn anew for every state, and
    would hide that chains disagree."""

    @property
    def monitored(self) -> tuple[str, ...]:
        """Scalars on which convergence is judged."""
        return (*TAUS, *WITHOUT_ERROR) if self.with_model else TAUS

    @classmethod
    def of(cls, table: CellTable) -> RiskMeasures:
        """Prepare the measures of a table."""
        wildcard = table.missing == "wildcard"
        margins = _unique_margins(table)
        imputed = np.flatnonzero(table.incomplete) if not wildcard else np.empty(0, np.int64)
        return cls(
            cells=table.cells,
            counts=(table.matches if wildcard else table.counts).astype(np.float64),
            unique=table.unique,
            incomplete=imputed,
            n_incomplete=table.counts[imputed],
            n_levels=table.n_levels,
            unobserved=float(table.population_size - table.n_records),
            margins=margins[0],
            margin_unique=margins[1],
            margin_key=margins[2],
            # Coarser where there are many patterns, so that the totals stay near 100 MB.
            n_bins=64 if table.n_cells <= 100_000 else 16,
        )

    def compile(self) -> None:
        """Compile the kernels (or load them from the cache)."""
        r1, r2 = np.empty(1), np.empty(1)
        p = np.full(1, 0.5)
        kernels.cell_risk(1.0, p, np.ones(1), False, r1, r2)
        totals = self.start()
        kernels.add_records(
            r1, r2, np.zeros(1, np.int64), totals.weight, totals.r1, totals.r2,
            totals.histogram_r1, totals.histogram_r2,
        )  # fmt: skip
        kernels.draw_population(chain_key(0, 0), 0, 1.0, p, False)

    def start(self) -> RiskTotals:
        """Empty totals."""
        n, n_uniques = len(self.cells), int(self.unique.sum())
        return RiskTotals(
            n_draws=np.zeros(1, np.int64),
            weight=np.zeros(n),
            r1=np.zeros(n),
            r2=np.zeros(n),
            histogram_r1=np.zeros((n, self.n_bins), np.int32),
            histogram_r2=np.zeros((n, self.n_bins), np.int32),
            key_drop=np.zeros((n_uniques, len(self.n_levels))),
            key_draws=np.zeros(_PARTS, np.int64),
            rank=np.zeros(n_uniques),
            histogram_rank=np.zeros((n_uniques, self.n_bins), np.int32),
        )

    def cost(self, model: AnyModel, data: Any) -> float:
        """Counted work of one observation, in the model's unit."""
        per_cell = model.cost(data)[1]
        n_cells = len(self.cells)
        return float(per_cell * (n_cells + len(self.margins) / _PARTS) + _RISK_COST * n_cells)

    def observe(
        self, stream: Stream, model: AnyModel, state: Any, data: Any, totals: RiskTotals
    ) -> Mapping[str, float]:
        """Add one state to the totals and return its tau's."""
        totals.n_draws[0] += 1
        if len(self.incomplete):
            p, q, tau = self._observe_imputed(stream, model, state, data, totals)
        else:
            p = model.cell_probabilities(stream, state, data, self.cells)
            q = _with_error(stream, model, data, p, self.counts)
            each = np.arange(len(p))
            tau = self._add(stream, model, p, q, self.counts, self.unique, each, totals)
        self._add_ranks(q[self.unique], totals)
        self._add_margins(stream, model, state, data, p, q, totals)
        return tau

    def _add(
        self,
        stream: Stream,
        model: AnyModel,
        p: Float64,
        q: Float64,
        counts: Float64,
        unique: Bool,
        pattern: Int64,
        totals: RiskTotals,
    ) -> Mapping[str, float]:
        """Add risks of (probability, count, unique) items, each credited to a pattern.

        p are the model's probabilities, q the same with its error, if it has one.
        """
        r1, r2 = np.empty(len(q)), np.empty(len(q))
        poisson = model.population == "poisson"
        kernels.cell_risk(self.unobserved, q, counts, poisson, r1, r2)
        r1[~unique] = 0.0
        kernels.add_records(
            r1, r2, pattern, totals.weight, totals.r1, totals.r2, totals.histogram_r1,
            totals.histogram_r2,
        )  # fmt: skip
        key = chain_key(stream.seed, stream.chain)
        chances = q[unique]
        # With a model's error probabilities need not add up to one at most, as a multinomial asks.
        free = poisson or float(chances.sum()) > 1.0
        tau1, tau2 = kernels.draw_population(key, stream.sweep, self.unobserved, chances, free)
        found = {
            "tau1": tau1,
            "tau2": tau2,
            "tau1_expected": float(r1[unique].sum()),
            "tau2_expected": float(r2[unique].sum()),
        }
        if q is not p:
            drawn = kernels.draw_population(key, stream.sweep, self.unobserved, p[unique], poisson)
            found |= dict(zip(WITHOUT_ERROR, drawn, strict=True))
        return found

    def _observe_imputed(
        self, stream: Stream, model: AnyModel, state: Any, data: Any, totals: RiskTotals
    ) -> tuple[Float64, Float64, Mapping[str, float]]:
        """Observe with the incomplete records imputed and all records counted afresh."""
        imputed = model.impute(stream, state, data)
        owner = np.repeat(self.incomplete, self.n_incomplete)
        complete = np.delete(np.arange(len(self.cells)), self.incomplete)
        everybody = np.concatenate((self.cells[complete], imputed))
        _, first, where = np.unique(
            pattern_ids(everybody, self.n_levels), return_index=True, return_inverse=True
        )
        records = np.concatenate((self.counts[complete], np.ones(len(imputed))))
        count = np.bincount(where, records).astype(np.float64)
        p = model.cell_probabilities(stream, state, data, everybody[first])
        q = _with_error(stream, model, data, p, count)
        # A pattern that many records share is one item; each imputed record is its own.
        item_pattern = np.concatenate((complete, owner))
        unique = count[where] == 1.0
        items = p[where]
        erring = items if q is p else q[where]
        tau = self._add(stream, model, items, erring, count[where], unique, item_pattern, totals)
        by_pattern, with_error = np.zeros(len(self.cells)), np.zeros(len(self.cells))
        by_pattern[complete] = p[where[: len(complete)]]
        with_error[complete] = q[where[: len(complete)]]
        return by_pattern, by_pattern if q is p else with_error, tau

    def _add_ranks(self, q: Float64, totals: RiskTotals) -> None:
        """Add the places of the sample uniques: the rarer the cell, the higher the risk.

        The histogram is over the square root of the place as a share, which gives the first places
        their resolution.
        """
        n = len(q)
        place = np.empty(n, np.int64)
        # Stable, so that equal cells keep the table's order whatever the machine.
        place[np.argsort(q, kind="stable")] = np.arange(n)
        totals.rank[...] += place + 1.0
        bins = np.minimum(np.sqrt(place / max(n, 1)) * self.n_bins, self.n_bins - 1)
        totals.histogram_rank[np.arange(n), bins.astype(np.int64)] += 1

    def _add_margins(
        self,
        stream: Stream,
        model: AnyModel,
        state: Any,
        data: Any,
        p: Float64,
        q: Float64,
        totals: RiskTotals,
    ) -> None:
        """Leave out each key in turn for one part of the sample uniques."""
        n_uniques = len(totals.key_drop)
        # Hashed, so that all parts get their turn whatever the thinning, and shifted from chain to
        # chain, so that few draws already cover all parts.
        part = (int(chain_key(stream.sweep, 0)[0]) + stream.chain * (_PARTS // 4)) % _PARTS
        first, last = n_uniques * part // _PARTS, n_uniques * (part + 1) // _PARTS
        if first == last:
            return
        totals.key_draws[part] += 1
        r1 = self._alone(model, q[self.unique][first:last])
        totals.key_drop[first:last] += r1[:, None]
        within = slice(*np.searchsorted(self.margin_unique, (first, last)))
        margin_p = model.cell_probabilities(stream, state, data, self.margins[within])
        if q is not p:
            # The cell itself, with its error, and the cells that join it, which no record is in.
            of_cell = self.margin_unique[within]
            joining = np.maximum(margin_p - p[self.unique][of_cell], 0.0)
            none = np.zeros(len(joining))
            joining = _with_error(stream, model, data, joining, none)
            margin_p = q[self.unique][of_cell] + joining
        without = self._alone(model, margin_p)
        # Each (unique, key) occurs once, so fancy indexing does not lose anything.
        totals.key_drop[self.margin_unique[within], self.margin_key[within]] -= without

    def _alone(self, model: AnyModel, p: Float64) -> Float64:
        """Probability that no unobserved individual is in a cell."""
        if model.population == "poisson":
            return np.exp(-self.unobserved * p)
        return np.exp(self.unobserved * np.log1p(-np.minimum(p, 1.0 - 1.2e-16)))


def _with_error(stream: Stream, model: AnyModel, data: Any, p: Float64, counts: Float64) -> Float64:
    """Put the model's own error on probabilities; the very same array if it has none."""
    hook = getattr(model, "risk_probabilities", None)
    found: Float64 = p if hook is None else hook(stream, data, p, counts)
    return found


def _unique_margins(table: CellTable) -> tuple[Int32, Int64, Int64]:
    """Sample uniques that stay sample unique when one key is left out.

    Only patterns that are complete in the remaining keys are counted, so with missing keys a
    margin may pass as unique that an incomplete record matches.
    """
    uniques = np.flatnonzero(table.unique)
    cells, unique, keys = [], [], []
    for j in range(table.n_keys):
        rest = [k for k in range(table.n_keys) if k != j]
        if not rest:
            continue
        levels = [table.n_levels[k] for k in rest]
        ids = pattern_ids(table.cells[:, rest], levels)
        _, where = np.unique(ids, return_inverse=True)
        count = np.bincount(where, table.counts)
        stays = np.flatnonzero(count[where[uniques]] == 1.0)
        margin = table.cells[uniques[stays]].copy()
        margin[:, j] = -1
        cells.append(margin)
        unique.append(stays)
        keys.append(np.full(len(stays), j))
    if not cells:
        return np.empty((0, table.n_keys), np.int32), np.empty(0, np.int64), np.empty(0, np.int64)
    which, key = np.concatenate(unique), np.concatenate(keys)
    order = np.lexsort((key, which))
    return np.concatenate(cells)[order], which[order], key[order]
