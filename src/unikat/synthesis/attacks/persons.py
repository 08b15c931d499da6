"""ρ of persons: an intruder who knows all records but one, of a file of persons.

The candidates of a combination of keys are those that differ from it in one key. g_t is that of
latent classes, a record's class being summed over, or of mixed membership, where all components of
its keys are: see `kernels.neighbours`. Under structural zeros the simulated impossible records
count as the others do, and impossible candidates are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.margins import margin_cell, with_margins
from unikat.data.patterns import pattern_ids
from unikat.data.table import CellTable, Margin
from unikat.errors import SpecError, listed
from unikat.kernels import neighbours as kernels
from unikat.kernels.zeros import Diagram
from unikat.models.base import AnyModel, Stream
from unikat.models.mixtures.mixed_membership import MixedMembership
from unikat.models.mixtures.new_record import EXACT_KEYS
from unikat.spec.models import either, models_with
from unikat.synthesis.attacks.fits import fitted_means
from unikat.synthesis.attacks.posterior import (
    Fitting,
    Prior,
    Question,
    RatioObserver,
    Told,
    errors_by_fit,
    joined_table,
    told,
)
from unikat.zeros.diagram import possible

MOST_PERSONS = 3_500
"""Combinations of the original that are attacked; of more, so many are drawn."""
NAME = "one unknown record"


class Candidates(NamedTuple):
    """What the intruder takes each person for: himself first, then his neighbours."""

    cells: Int32
    """(n_persons, n_each, n_keys): the person, then of each key in turn all other levels."""
    variable: Int64
    """(n_each,): key in which the candidate differs; -1 for the person himself."""
    possible: Bool
    """(n_persons, n_each): the candidate is no structural zero."""


def neighbours(persons: Int32, n_levels: Sequence[int], zeros: Diagram | None = None) -> Candidates:
    """List the cells that differ from each person, (n_persons, n_keys), in one key at most."""
    n_each = 1 + sum(n_levels) - len(n_levels)
    cells = np.repeat(persons[:, None], n_each, axis=1)
    variable = np.full(n_each, -1)
    at = 1
    for j, n in enumerate(n_levels):
        # All levels but the person's: those from his on are one higher.
        others = np.arange(n - 1)
        cells[:, at : at + n - 1, j] = others + (others >= persons[:, j : j + 1])
        variable[at : at + n - 1] = j
        at += n - 1
    allowed = np.ones(cells.shape[:2], np.bool_)
    if zeros is not None:
        allowed = possible(zeros, cells.reshape(-1, len(n_levels))).reshape(cells.shape[:2])
    return Candidates(cells, variable, allowed)


@dataclass(frozen=True, kw_only=True, eq=False)
class CandidateRatios(RatioObserver):
    """Observer of latent classes and of mixed membership that sums g_t."""

    candidates: Candidates
    chosen: Int64
    """(n_persons,): cells of the original that are attacked."""

    @property
    def possible(self) -> Bool:
        """Which candidates are no structural zeros, (n_persons, n_each)."""
        return self.candidates.possible

    def cost(self, model: AnyModel, data: Any) -> float:
        """Counted work of one observation, in the model's unit."""
        n_persons, n_each = self.possible.shape
        n_keys = self.candidates.cells.shape[2]
        each = model.cost(data)[1] * (1.0 + 0.2 * n_each)
        if isinstance(model, MixedMembership):
            # Of some thirty components.
            each = 30.0 * 2.0**n_keys + 0.3 * 3.0**n_keys
        return float(n_persons * each)

    def ratios(
        self, stream: Stream, model: AnyModel, state: Any, data: Any
    ) -> tuple[Float64, Float64]:
        """Return the ratios under one state, and log p(x | all others)."""
        mixed = isinstance(model, MixedMembership)
        records, persons = data if mixed else data.records, self.candidates.cells[:, 0]
        rows = (persons + records.offsets[:-1]).astype(np.int32)
        n_rows, n_classes = state.theta.shape
        tokens = records.rows[records.record_cell]
        z = np.broadcast_to(state.z.astype(np.int64), tokens.shape)
        counts = np.bincount((z * n_rows + tokens).ravel(), minlength=n_classes * n_rows)
        counts = counts.reshape(n_classes, n_rows)
        if state.impossible.shape[1]:
            counts += state.impossible.T
        # Classes without records have the same profile, so they are one.
        occupied = counts.any(axis=1)
        number = np.cumsum(occupied) - 1
        counts = np.concatenate((counts[occupied], np.zeros((1, n_rows), np.int64)))
        empty = state.weights[~occupied].sum(keepdims=True)
        weights = np.concatenate((state.weights[occupied], empty))
        # The first record of each person's cell is the one that the intruder does not know.
        ids = pattern_ids(np.concatenate((records.rows, rows)), [n_rows] * rows.shape[1])
        place = np.searchsorted(ids[: len(records.rows)], ids[len(records.rows) :])
        first = (np.cumsum(records.counts) - records.counts)[place]
        own_class = number[z[first]]
        ratio, own = np.empty(self.possible.shape), np.empty(len(rows))
        given = counts, state.profile, records.offsets, weights
        if isinstance(model, MixedMembership):
            nodes = model.concentrations(state)
            kernels.membership_ratios(rows, own_class, *given, *nodes, ratio, own)
        else:
            own_class = np.ascontiguousarray(own_class[:, 0])
            kernels.neighbour_ratios(rows, own_class, *given, ratio, own)
        return ratio, np.log(own)


def log_priors(
    candidates: Candidates,
    records: Int32,
    n_levels: Sequence[int],
    margins: Sequence[Margin] = (),
) -> dict[str, Prior]:
    """Give several priors of the intruder.

    `uniform`: all candidates alike; impossible ones not. `margins`: by the frequency of the value
    in which a candidate differs, in the records. `model`: the prediction of the model given all
    records but his, proportional to E[g_t | D]. `population`, with margins: by how many units of
    the population are left in the candidate's margin cells besides the records that he knows; the
    one that he does not know is drawn from them with equal chances.
    """
    allowed = np.where(candidates.possible, 0.0, -np.inf)
    frequency = np.zeros(allowed.shape)
    truth = candidates.cells[:, 0]
    for j, n in enumerate(n_levels):
        counts = np.bincount(records[:, j], minlength=n)
        differs = candidates.variable == j
        with np.errstate(divide="ignore"):
            shares = counts[candidates.cells[:, differs, j]] / counts[truth[:, j]][:, None]
            frequency[:, differs] = np.log(shares)
    priors = {
        "uniform": Prior(allowed),
        "margins": Prior(frequency + allowed),
        "model": Prior(allowed, predicted=True),
    }
    if margins:
        left = np.zeros(allowed.shape)
        for margin in margins:
            known = np.bincount(
                margin_cell(records, margin.keys, n_levels), minlength=len(margin.counts)
            )
            cells = candidates.cells.reshape(-1, len(n_levels))
            cell = margin_cell(cells, margin.keys, n_levels).reshape(allowed.shape)
            # The person himself is not known.
            n_left = (margin.counts - known)[cell] + (cell == cell[:, :1])
            with np.errstate(divide="ignore"):
                left += np.log(n_left)
        priors["population"] = Prior(left + allowed)
    return priors


def known_population(table: CellTable, margins: Sequence[Margin]) -> CellTable:
    """Return a table with counts of its population that an intruder knows."""
    keys = [j for margin in margins for j in margin.keys]
    shared = [table.keys[j].name for j in {*keys} if keys.count(j) > 1]
    if shared:
        raise SpecError(
            f"Several margins count {listed(shared)}. What an intruder believes who knows them all "
            "is not known then. Give one table over all keys of these margins, or one of them."
        )
    known = with_margins(replace(table, population_size=None), margins)
    return replace(table, margins=known.margins)


def one_unknown(
    model: AnyModel, table: CellTable, synthetic: Sequence[Int32], how: Fitting
) -> Told:
    """Attack each combination of the original with all other records known.

    Parameters
    ----------
    model
        The generator's model.
    table
        The original, with the margins of its population that the intruder knows, if he does.
    synthetic
        Each (n_records, n_keys), in the levels of the original.
    how
        It is fitted.

    Raises
    ------
    SpecError
        If the model has no likelihood that the attack can use.
    KeyboardInterrupt
        On Ctrl-C.
    """
    check_model(model, table.n_keys)
    # The model was fitted without them.
    margins, table = table.margins, replace(table, margins=())
    observer = attacked_persons(table, how.seed)
    candidates = observer.candidates
    joined = [joined_table(table, made) for made in synthetic]
    fits = [(model, table), *((_as_fitted(model, table, one), one) for one in joined)]
    records = table.cells[table.record_cell]
    priors = log_priors(candidates, records, table.n_levels, margins)
    means, converged = fitted_means(
        fits, observer, how, lambda means: errors_by_fit(means, priors["uniform"])
    )
    return told(
        means,
        priors,
        Question(
            name=NAME,
            unit="combination",
            variable=candidates.variable,
            variables=[key.name for key in table.keys],
            cell=observer.chosen,
        ),
        how,
        converged=converged,
    )


def _as_fitted(model: Any, original: CellTable, joined: CellTable) -> Any:
    """Return the model with the prior of the truncation that it has of the original."""
    share = original.n_records / joined.n_records
    return replace(model, zeros_tempering=model.zeros_tempering * share)


def attacked_persons(table: CellTable, seed: int) -> CandidateRatios:
    """Draw the persons that are attacked, and return what is computed of each kept state."""
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,)))
    n = min(MOST_PERSONS, table.n_cells)
    chosen = np.sort(generator.choice(table.n_cells, n, replace=False))
    candidates = neighbours(table.cells[chosen], table.n_levels, table.zeros)
    return CandidateRatios(candidates=candidates, chosen=chosen)


def check_model(model: Any, n_keys: int) -> None:
    """Refuse a model, or keys, of which the attack is not known (SpecError)."""
    known = models_with(of_households=None, draws_records=True)
    if model.name not in known:
        raise SpecError(
            "The attack with all other records known is made for generators of mixtures and of "
            f"households, and the model is {model.name}; name {either(known)} with --model, or "
            "leave it out."
        )
    if model.profile_base == "empirical":
        raise SpecError(
            "With profile_base=empirical the prior depends on the file, and the attack with all "
            "other records known does not hold; take learned or uniform."
        )
    if isinstance(model, MixedMembership) and n_keys > EXACT_KEYS:
        raise SpecError(
            f"The attack with all other records known takes {model.name} with at most {EXACT_KEYS} "
            f"keys, whose probability is a sum over their partitions, and there are {n_keys}. Take "
            "fewer keys, or leave --model out."
        )
