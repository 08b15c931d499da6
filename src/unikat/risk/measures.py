"""Risk measures from cell probabilities: one definition for every model (models.md §1).

Given the probability p_c that one unobserved individual falls in cell c, the M = N - n unobserved
individuals are multinomial over the cells, or so within each class of a design (`exposure`).
*Expected* measures are means given the model's
parameters (the papers' tau*); *predictive* ones count in a drawn population, and are what an
interval has to cover.

What a key adds to a record's risk is its *fall*: r1 less what r1 is when the key is left out. The
margin holds the cell, so in every draw

    0  <=  r1_m = P(F_m = 1)  <=  r1_c = P(F_c = 1),

where both are 0 if the draw's sample is not unique there. Keys are left out in some of the draws
only, t in T, to save time, and r1 is the mean over all of them. The difference of two means over
different draws may be negative or exceed r1. So the share of the risk that remains is a ratio of
sums over the same draws,

    fall = r1 (1 - sum_T r1_m / sum_T r1_c),        0 <= fall <= r1.

r1_m has the law of r1_c: the same imputed records, the same treatment of missing keys, the same
error of the model (the cells that join have its mean, `Exposure.alone_joined`). Of a model that
integrates rates out, whose cells are independent given its state, the margin has nobody else if
neither the cell nor the cells that join it have:

    r1_m = r1_c P(no unobserved unit in the cells of m other than c, none of which has a record),

the first factor from `integrated_risk`, the second from `empty_rest`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.companions import Companions, Members
from unikat.data.households import HouseholdLayout
from unikat.data.patterns import distinct, match_sums, meeting
from unikat.data.table import CellTable, without
from unikat.errors import SpecError
from unikat.inference.draws import Observer
from unikat.kernels import cells as kernels
from unikat.models.base import AnyLaw, IntegratesRisk, Stream
from unikat.risk.by_class import Look
from unikat.risk.exposure import EqualChances, Exposure, exposure_of
from unikat.risk.law import Moments, State, moments
from unikat.risk.population_counts import add_to_histogram
from unikat.risk.shown import NOT_SHOWN, SHOWN, Completed, Shown, ShownTotals
from unikat.rng import chain_key

TAUS = ("tau1", "tau2")
WITHOUT_ERROR = ("tau1_model", "tau2_model")
DETAILED = 2_000_000
"""Patterns up to which every record has histograms of its risks, a rank, and falls by key. Beyond
that the totals of the chains would not fit into memory: eight sets of hundreds of bytes a
pattern."""
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
    r1_squared: Float64
    """(n_cells,): squares of what each pattern adds to tau1."""
    r2_unique: Float64
    """(n_cells,): what it adds to tau2: r2 in the draws in which it is unique."""
    r2_squared: Float64
    """(n_cells,): squares of that."""
    histogram_others: Int32
    """(n_cells, n_bins): of expected unobserved units (`population_counts`); empty where records
    are imputed."""
    histogram_r1: Int32
    """(n_cells, n_bins): over the square root of r1."""
    histogram_r2: Int32
    """(n_cells, n_bins)"""
    key_whole: Float64
    """(n_uniques,): r1 in the draws in which keys are left out."""
    key_rest: Float64
    """(n_uniques, n_keys): r1 in the same draws with the key left out."""
    key_draws: Int64
    """(_PARTS,): draws in which the part was looked at."""
    rank: Float64
    """(n_uniques,): place of the sample unique, 1 being that of the rarest cell; (0,) without
    histograms."""
    histogram_rank: Int32
    """(n_uniques, n_bins): over the square root of (place - 1) / n_uniques."""
    shown_draws: Int64
    """(1,): draws in which what is shown was looked at (`ShownTotals`, as what follows)."""
    shown_r1: Float64
    """(n_imputed_patterns,)"""
    shown_r2: Float64
    """(n_imputed_patterns,)"""
    histogram_shown_r1: Int32
    """(n_imputed_patterns, n_bins): over the square root of r1."""
    histogram_shown_r2: Int32
    """(n_imputed_patterns, n_bins)"""

    @property
    def shown(self) -> ShownTotals:
        """What is shown of the patterns that are imputed."""
        return ShownTotals(
            self.shown_draws,
            self.shown_r1,
            self.shown_r2,
            self.histogram_shown_r1,
            self.histogram_shown_r2,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class RiskMeasures(Observer):
    """The observer that computes tau1, tau2 and the records' risks from a model's cells.

    Unobserved counts follow the model's `population` law. Built from a table by :meth:`of`. Scalars
    per draw: ``tau1``, ``tau2`` (predictive), ``tau1_expected``, ``tau2_expected``; of a model that
    puts its own error on the probabilities also ``tau1_model``, ``tau2_model``, the predictive
    measures without that error; where records are imputed also `SHOWN` (`risk.shown`).
    """

    cells: Int32
    """(n_cells, n_keys) patterns of the table."""
    counts: Float64
    """(n_cells,) records that a pattern's r2 starts from, f or all compatible ones (wildcard)."""
    unique: Bool
    """(n_cells,) sample uniques."""
    released: Float64
    """(n_cells,) records that are released; see `CellTable.held`."""
    held: Bool
    """(n_imputed,): imputed records that are held back, in the order in which they are imputed."""
    presence_known: bool
    """Held records are no candidates; see `CellTable.presence_known`."""
    incomplete: Int64
    """Patterns that every draw imputes (none unless missing keys are integrated over)."""
    n_incomplete: Int64
    """Records of each of those patterns."""
    n_levels: tuple[int, ...]
    n_variables: int
    """Key variables, each of which is left out in turn; 0 beyond `DETAILED` patterns."""
    layout: HouseholdLayout | None
    """What the columns of `cells` are where a record is a household."""
    exposure: Exposure
    """How the unobserved individuals relate to the records."""
    margins: Int32
    """(n_margins, n_keys): sample uniques with one key left out that stay sample unique, if no
    imputed record joins them."""
    margin_unique: Int64
    """(n_margins,): the sample unique, counted among the uniques."""
    margin_key: Int64
    """(n_margins,): the key left out."""
    members: Members | None
    """Households of the sample; None if none has two members in it."""
    companions: Companions | None
    """Of `cells`, where no records are imputed."""
    margin_companions: Companions | None
    """Of `margins`."""
    shown: Shown
    """What the known keys of the imputed records show."""
    n_unobserved: float
    """M, units of the population that are not in the sample."""
    n_bins: int
    """Of the histograms; 0 for none, and no ranks."""
    with_model: bool = False
    """Convergence is judged on `WITHOUT_ERROR` too, by what it means for `TAUS`: every state has
    its own draw of the error, which would hide that chains disagree."""

    @property
    def monitored(self) -> tuple[str, ...]:
        """Scalars on which convergence is judged."""
        return (*TAUS, *WITHOUT_ERROR) if self.with_model else TAUS

    @property
    def parts(self) -> Mapping[str, str]:
        """τ1 and τ2 without the model's error are what the chains know of them."""
        return dict(zip(WITHOUT_ERROR, TAUS, strict=True)) if self.with_model else {}

    def judged_without_error(self) -> RiskMeasures:
        """Judge convergence on `WITHOUT_ERROR` too."""
        return replace(self, with_model=True)

    @classmethod
    def of(
        cls, table: CellTable, *, each_key: bool = True, exposure: Exposure | None = None
    ) -> RiskMeasures:
        """Prepare the measures of a table; `each_key`: also by how much each key raises r1.

        exposure: that of the table unless another is given.
        """
        wildcard = table.missing == "wildcard"
        detailed = table.n_cells <= DETAILED
        n_variables = len(table.variables) if detailed else 0
        margins = _unique_margins(table, n_variables if each_key else 0)
        exposure = exposure_of(table) if exposure is None else exposure
        imputed, n_imputed = np.empty(0, np.int64), np.empty(0, np.int64)
        if not wildcard and table.incomplete.any():
            # In the order of the fitted table: its last key, the class, orders within a pattern.
            imputed, n_imputed = np.flatnonzero(table.incomplete), table.counts[table.incomplete]
        # Coarser where there are many patterns, so that the totals stay near 100 MB.
        members = Members.of(table)
        n_bins = (64 if table.n_cells <= 100_000 else 16) if detailed else 0
        return cls(
            cells=table.cells,
            counts=table.frequency.astype(np.float64),
            unique=table.unique,
            released=table.released.astype(np.float64),
            held=np.zeros(int(n_imputed.sum()), np.bool_)
            if table.held is None
            else table.held[table.imputed_records],
            presence_known=table.presence_known,
            incomplete=imputed,
            n_incomplete=n_imputed,
            n_levels=table.n_levels,
            n_variables=n_variables,
            layout=table.layout,
            exposure=exposure,
            margins=margins[0],
            margin_unique=margins[1],
            margin_key=margins[2],
            members=members,
            companions=None if members is None else members.companions(table.cells),
            margin_companions=None if members is None else members.companions(margins[0]),
            shown=Shown.of(table, imputed, exposure),
            n_unobserved=float(table.n_units - table.n_records),
            n_bins=n_bins,
        )

    def compile(self) -> None:
        """Compile the kernels (or load them from the cache)."""
        self.exposure.compile()
        r1, r2 = np.empty(1), np.empty(1)
        totals = self.start()
        kernels.add_records(
            r1,
            r2,
            np.zeros(1, np.int64),
            totals.weight,
            totals.r1,
            totals.r2,
            totals.histogram_r1,
            totals.histogram_r2,
        )

    def start(self) -> RiskTotals:
        """Empty totals."""
        n, n_uniques = len(self.cells), int(self.unique.sum())
        n_imputed = len(self.incomplete) if self.shown.is_known else 0
        return RiskTotals(
            n_draws=np.zeros(1, np.int64),
            weight=np.zeros(n),
            r1=np.zeros(n),
            r2=np.zeros(n),
            r1_squared=np.zeros(n),
            r2_unique=np.zeros(n),
            r2_squared=np.zeros(n),
            histogram_others=np.zeros((n, self.n_bins), np.int32),
            histogram_r1=np.zeros((n, self.n_bins), np.int32),
            histogram_r2=np.zeros((n, self.n_bins), np.int32),
            key_whole=np.zeros(n_uniques),
            key_rest=np.zeros((n_uniques, self.n_variables)),
            key_draws=np.zeros(_PARTS, np.int64),
            rank=np.zeros(n_uniques if self.n_bins else 0),
            histogram_rank=np.zeros((n_uniques, self.n_bins), np.int32),
            shown_draws=np.zeros(1, np.int64),
            shown_r1=np.zeros(n_imputed),
            shown_r2=np.zeros(n_imputed),
            histogram_shown_r1=np.zeros((n_imputed, self.n_bins), np.int32),
            histogram_shown_r2=np.zeros((n_imputed, self.n_bins), np.int32),
        )

    def cost(self, model: AnyLaw, data: Any) -> float:
        """Counted work of one observation, in the model's unit."""
        per_cell = model.cost(data)[1]
        n_cells = len(self.cells)
        looked_at = self.exposure.width * (n_cells + len(self.margins) / _PARTS)
        return float(per_cell * looked_at + _RISK_COST * n_cells)

    def observe(
        self, stream: Stream, model: AnyLaw, state: Any, data: Any, totals: RiskTotals
    ) -> Mapping[str, float]:
        """Add one state to the totals and return its tau's."""
        return self.look(Look(stream, model, state, data), totals)

    def look(
        self, look: Look, totals: RiskTotals, laws: dict[str, State] | None = None
    ) -> Mapping[str, float]:
        """Do the same, and put into `laws` what the state says of `TAUS`, by the first's name.

        And of `SHOWN`, where that was looked at.
        """
        model = look.model
        if model.uses_weights and not isinstance(self.exposure, EqualChances):
            raise SpecError(
                f"{model.name} uses the weights itself, and the measures would use them again. "
                "Take fitted, at_risk = views(model, table), and measure at_risk."
            )
        totals.n_draws[0] += 1
        if len(self.incomplete):
            found, tau = self._observe_imputed(look, totals, laws)
        else:
            p = self.exposure.chances(look, self.cells, self.companions)
            q = self._with_error(look, p, self.counts)
            risk = self._risk(look, q, self.cells, self.counts)
            each = np.arange(len(self.cells))
            tau = self._add(look, p, q, risk, self.unique, self.counts, each, totals)
            if laws is not None:
                laws[TAUS[0]] = State.of(self._moments(look, p, self.unique, self.counts))
            if self.n_bins:
                means = self.exposure.means(q)
                add_to_histogram(totals.histogram_others, means, self.n_unobserved)
            found = _Found(p, q, risk[0], np.empty((0, len(self.n_levels)), np.int32))
        if not self.n_bins:
            return tau
        uniques = found.taken(self.exposure, self.unique)
        self._add_ranks(self.exposure.means(uniques.q), totals)
        self._add_margins(look, uniques, totals)
        return tau

    def _moments(self, look: Look, p: Any, unique: Bool, counts: Float64) -> Moments:
        """What the state says of sample uniques of such chances, of so many candidates."""
        at_risk = self.exposure.taken(p, unique)
        return moments(look, self.exposure, at_risk, counts[unique])

    def _with_error(self, look: Look, p: Any, counts: Float64) -> Any:
        """Put the model's own error on chances; the very same object if it has none."""
        before = self.exposure.probabilities(p)
        after = look.erring(before, counts, self.exposure.population(p))
        return p if after is before else self.exposure.scaled(p, after)

    def _risk(self, look: Look, q: Any, cells: Int32, counts: Float64) -> tuple[Float64, Float64]:
        """r1 and r2 of cells, with what the model can integrate out integrated out."""
        if self._integrates(look.model):
            return look.model.integrated_risk(look.stream, look.state, look.data, cells, counts)
        return self.exposure.risk(q, counts, look.poisson)

    def _integrates(self, model: AnyLaw) -> TypeGuard[IntegratesRisk]:
        """Whether the model's own integrals are taken instead of risks given its probabilities."""
        # Where nobody is unobserved all is known, whatever a model makes of it.
        census = isinstance(self.exposure, EqualChances) and self.exposure.unobserved == 0.0
        return isinstance(model, IntegratesRisk) and not census

    def _add(
        self,
        look: Look,
        p: Any,
        q: Any,
        risk: tuple[Float64, Float64],
        unique: Bool,
        counts: Float64,
        pattern: Int64,
        totals: RiskTotals,
    ) -> Mapping[str, float]:
        """Add items, each credited to a pattern: chances and risks; which are unique; candidates.

        p are the model's chances, q the same with its error, if it has one.
        """
        r1, r2 = risk
        certain = unique & (counts == 1.0)
        r1 = np.where(certain, r1, 0.0)
        kernels.add_records(
            r1,
            r2,
            pattern,
            totals.weight,
            totals.r1,
            totals.r2,
            totals.histogram_r1,
            totals.histogram_r2,
        )
        of_tau1, of_tau2 = (
            np.bincount(pattern[unique], risk[unique], len(totals.r1)) for risk in (r1, r2)
        )
        totals.r1_squared[...] += of_tau1**2
        totals.r2_unique[...] += of_tau2
        totals.r2_squared[...] += of_tau2**2
        # Of held records alone do the two differ, and then the laws tell τ1 and τ2, and no draw.
        stream, at_risk = look.stream, self.exposure.taken(q, certain)
        tau1, tau2 = self.exposure.draw(stream, at_risk, look.poisson)
        found = {
            "tau1": tau1,
            "tau2": tau2,
            "tau1_expected": float(r1[unique].sum()),
            "tau2_expected": float(r2[unique].sum()),
        }
        if q is not p:
            drawn = self.exposure.draw(stream, self.exposure.taken(p, certain), look.poisson)
            found |= dict(zip(WITHOUT_ERROR, drawn, strict=True))
        return found

    def _observe_imputed(
        self, look: Look, totals: RiskTotals, laws: dict[str, State] | None
    ) -> tuple[_Found, Mapping[str, float]]:
        """Observe with the incomplete records imputed and all records counted again."""
        imputed = look.model.impute(look.stream, look.state, look.data)[:, : len(self.n_levels)]
        owner = np.repeat(self.incomplete, self.n_incomplete)
        incomplete = np.zeros(len(self.cells), bool)
        incomplete[self.incomplete] = True
        complete = np.flatnonzero(~incomplete)
        everybody = np.concatenate((self.cells[complete], imputed))
        first, where, _ = distinct(everybody, self.n_levels)
        records = np.concatenate((self.counts[complete], np.ones(len(imputed))))
        count = np.bincount(where, records).astype(np.float64)
        out = np.concatenate((self.released[complete], (~self.held).astype(np.float64)))
        released = np.bincount(where, out).astype(np.float64)
        if self.presence_known:
            count = np.maximum(released, 1.0)
        members = self.members
        companions = None if members is None else members.companions(everybody[first], imputed)
        p = self.exposure.chances(look, everybody[first], companions)
        q = self._with_error(look, p, count)
        r1, r2 = self._risk(look, q, everybody[first], count)
        # A pattern that many records share is one item; each imputed record is its own.
        item_pattern = np.concatenate((complete, owner))
        unique = (released[where] == 1.0) & (out > 0.0)
        items = self.exposure.taken(p, where)
        erring = items if q is p else self.exposure.taken(q, where)
        risk = r1[where], r2[where]
        candidates = count[where]
        tau = self._add(look, items, erring, risk, unique, candidates, item_pattern, totals)
        if laws is not None:
            laws[TAUS[0]] = State.of(self._moments(look, items, unique, candidates))
        # Of the complete patterns; those that are incomplete are not asked for.
        place = np.zeros(len(self.cells), np.int64)
        place[complete] = where[: len(complete)]
        by_pattern = self.exposure.taken(p, place)
        with_error = by_pattern if q is p else self.exposure.taken(q, place)
        alone = np.where((count == 1.0) & (released == 1.0), r1, 0.0)[place]
        if not self.shown.is_known:
            return _Found(by_pattern, with_error, alone, imputed), tau
        skipped = self.shown.skipped(look, len(count), self.cost(look.model, look.data))
        if (int(totals.n_draws[0]) - 1) % skipped:
            return _Found(by_pattern, with_error, alone, imputed), {**tau, **NOT_SHOWN}
        first_record = len(complete) + np.cumsum(self.n_incomplete) - self.n_incomplete
        own = r1 if self._integrates(look.model) else None
        whole = Completed(everybody[first], count, released, p, q, where[first_record], own)
        known = unique.copy()
        known[len(complete) :] = False
        at_risk = self.exposure.taken(erring, known & (candidates == 1.0))
        margins: list[Moments] | None = None if laws is None else []
        shown = self.shown.observe(look, whole, at_risk, totals.shown, margins)
        if laws is not None and margins is not None:
            of_known = self._moments(look, items, known, candidates)
            laws[SHOWN[0]] = State.of(of_known, *margins)
        return _Found(by_pattern, with_error, alone, imputed), {**tau, **shown}

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

    def _add_margins(self, look: Look, uniques: _Found, totals: RiskTotals) -> None:
        """Leave out each key in turn for a part of the sample uniques."""
        n_uniques = len(totals.key_whole)
        stream = look.stream
        # Hashed, so that all parts get their turn whatever the thinning, and shifted from chain to
        # chain, so that few draws already cover all parts.
        part = (int(chain_key(stream.sweep, 0)[0]) + stream.chain * (_PARTS // 4)) % _PARTS
        first, last = n_uniques * part // _PARTS, n_uniques * (part + 1) // _PARTS
        if first == last:
            return
        totals.key_draws[part] += 1
        totals.key_whole[first:last] += uniques.r1[first:last]
        within = slice(*np.searchsorted(self.margin_unique, (first, last)))
        margins, of_cell = self.margins[within], self.margin_unique[within]
        cell = uniques.taken(self.exposure, of_cell)
        companions = self.margin_companions
        if companions is not None:
            companions = companions.taken(np.arange(len(self.margins))[within])
        rest = np.minimum(self._rest(look, margins, companions, of_cell, cell), cell.r1)
        rest[self._joined(margins, self.margin_key[within], cell.imputed)] = 0.0
        # Each (unique, key) occurs once, so fancy indexing does not lose anything.
        totals.key_rest[of_cell, self.margin_key[within]] += rest

    def _rest(
        self,
        look: Look,
        margins: Int32,
        companions: Companions | None,
        of_cell: Int64,
        cell: _Found,
    ) -> Float64:
        """r1 of margins that hold a cell each and no other record, (n_margins,).

        At most that of the cell, but for rounding, and for models that estimate probabilities.
        """
        if self._integrates(look.model):
            cells = self.cells[self.unique][of_cell]
            rest: Float64 = cell.r1 * look.model.empty_rest(look.state, look.data, margins, cells)
            return rest
        margin = self.exposure.chances(look, margins, companions)
        if cell.q is cell.p:
            return self.exposure.alone(margin, look.poisson)
        return self.exposure.alone_joined(margin, cell.p, cell.q, look.erring, look.poisson)

    def _joined(self, margins: Int32, key: Int64, imputed: Int32) -> Bool:
        """Whether an imputed record falls in each margin, its key left out, (n_margins,)."""
        joined = np.zeros(len(margins), bool)
        if not len(imputed):
            return joined
        for j in range(self.n_variables):
            asked = np.flatnonzero(key == j)
            met = meeting(margins[asked], without(imputed, j, self.layout), self.n_levels)
            hit = np.zeros(met.n_numbers, bool)
            hit[met.offered] = True
            joined[asked[met.asking]] = hit[met.wanted]
        return joined


class _Found(NamedTuple):
    """What one draw says of cells, (n,) each."""

    p: Any
    """The model's chances."""
    q: Any
    """The same with the model's error; the very same object if it has none."""
    r1: Float64
    """Probability to be population unique; 0 where the draw's sample is not unique."""
    imputed: Int32
    """(n_imputed, n_keys): the incomplete records as the draw completes them."""

    def taken(self, exposure: Exposure, which: Int64 | Bool) -> _Found:
        """What it says of some of the cells."""
        p = exposure.taken(self.p, which)
        q = p if self.q is self.p else exposure.taken(self.q, which)
        return _Found(p, q, self.r1[which], self.imputed)


def _unique_margins(table: CellTable, n_variables: int) -> tuple[Int32, Int64, Int64]:
    """Sample uniques that stay sample unique when one of the first keys is left out.

    Where missing keys match any level, so they do in the margin. Where they are integrated over,
    only patterns that are complete in the remaining keys are counted: the others are in the margin
    or not, draw by draw.
    """
    uniques = np.flatnonzero(table.unique)
    cells, unique, keys = [], [], []
    for j in range(n_variables if table.n_keys > 1 else 0):
        left = table.without(table.cells, j)
        first, where, _ = distinct(left, table.n_levels)
        count = np.bincount(where, table.counts).astype(np.int64)
        if table.missing == "wildcard":
            count = match_sums(left[first], count[:, None], table.n_levels)[:, 0]
        stays = np.flatnonzero(count[where[uniques]] == 1)
        cells.append(left[uniques[stays]])
        unique.append(stays)
        keys.append(np.full(len(stays), j))
    if not cells:
        return np.empty((0, table.n_keys), np.int32), np.empty(0, np.int64), np.empty(0, np.int64)
    which, key = np.concatenate(unique), np.concatenate(keys)
    order = np.lexsort((key, which))
    return np.concatenate(cells)[order], which[order], key[order]
