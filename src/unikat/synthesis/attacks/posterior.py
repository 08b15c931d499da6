"""An intruder who knows the generator and all records but one: ρ of Hu, Reiter and Wang (2018).

D are the n records of the original, x one of them, D_t the original with t in its place, Z the
synthetic files Z_1 to Z_L, each drawn from the posterior of the generator's model given D. The
intruder wants x. Among candidates t, which differ from x in one variable at most,

    rho_t = prior(t) prod_l p(Z_l | D_t) / sum_u prior(u) prod_l p(Z_l | D_u)          (19, 22)

p(Z_l | D_t) is the mean of p(Z_l | theta) over the posterior given D_t. Hu, Reiter and Wang take
draws given D, with the weights f(t | theta) / f(x | theta), and average p(Z_l | theta) (26, 27).
That is a product over all synthetic records, so that one draw has nearly all the weight. Here the
same number is a ratio of two means that have none of it: with z the classes of all other records
and everything else that is drawn, and g_t(z) = p(t | z) / p(x | z),

    p(Z_l | D_t) / p(Z_l | D) = E[g_t | D, Z_l] / E[g_t | D],

which follows from p(z | D_t) ~ p(z | D) g_t(z), and the same given Z_l as well. The model is fitted
to the original, and to the original with each synthetic file. The profiles are integrated out of
g_t: drawn ones give the levels that are rare in a class probabilities near 0, by which g_t divides.
The weights that are left are g_t: where their effective number is small, there is no rho.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.patterns import pattern_ids
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.chains import Plan, sample
from unikat.inference.draws import Draws, Observer
from unikat.kernels.neighbours import neighbour_ratios
from unikat.kernels.zeros import Diagram
from unikat.models.base import AnyModel, Stream
from unikat.spec.models import either, models_with
from unikat.studies.auto import Execution
from unikat.synthesis.attacks.rates import AnyHousehold, Contributions, of_same_records
from unikat.synthesis.attacks.run import AttackResult
from unikat.zeros.diagram import possible

LEAST_DRAWS = 50.0
"""Effective number of weighted draws below which there is no rho."""
MOST_PERSONS = 3_500
"""Combinations of the original that are attacked; of more, so many are drawn."""
NAME = "one unknown record"
Unit = Literal["combination", "household", "person"]


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


class RatioTotals(NamedTuple):
    """Sums over draws of g_t."""

    n_draws: Float64
    """(1,)"""
    first: Float64
    """(n_persons, n_each): sum of g."""
    second: Float64
    """(n_persons, n_each): sum of its squares."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CandidateRatios(Observer):
    """Observer of latent classes that averages g_t.

    Convergence is judged on the mean log probability of the persons, each given all others.
    """

    candidates: Candidates
    monitored: ClassVar[tuple[str, ...]] = ("log_probability",)

    def start(self) -> RatioTotals:
        """Empty totals."""
        shape = self.candidates.possible.shape
        return RatioTotals(np.zeros(1), np.zeros(shape), np.zeros(shape))

    def cost(self, model: AnyModel, data: Any) -> float:
        """Counted work of one observation, in the model's unit."""
        n_persons, n_each = self.candidates.possible.shape
        return float(model.cost(data)[1] * n_persons * (1.0 + 0.2 * n_each))

    def observe(
        self, stream: Stream, model: AnyModel, state: Any, data: Any, totals: RatioTotals
    ) -> Mapping[str, float]:
        """Add the ratios under one state."""
        records, persons = data.records, self.candidates.cells[:, 0]
        rows = (persons + records.offsets[:-1]).astype(np.int32)
        n_rows, n_classes = state.theta.shape
        z = state.z[:, 0].astype(np.int64)
        counts = np.zeros((n_classes, n_rows), np.int64)
        for column in records.rows[records.record_cell].T:
            found = np.bincount(z * n_rows + column, minlength=counts.size)
            counts += found.reshape(counts.shape)
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
        ratio, own = np.empty(self.candidates.possible.shape), np.empty(len(rows))
        neighbour_ratios(
            rows,
            number[z[first]],
            counts,
            state.profile,
            records.offsets,
            weights,
            ratio,
            own,
        )
        ratio[~self.candidates.possible] = 0.0
        totals.n_draws[0] += 1.0
        totals.first[:] += ratio
        totals.second[:] += ratio**2
        return {"log_probability": float(np.log(own).mean())}


class Mean(NamedTuple):
    """Mean of g_t over the draws of a fit."""

    log: Float64
    """(n_persons, n_each): its logarithm; minus infinity for what is impossible."""
    effective: Float64
    """(n_persons, n_each): effective number of the draws with these weights."""

    @classmethod
    def of(cls, draws: Draws) -> Mean:
        """Of draws whose observer is `CandidateRatios`."""
        found = draws.diagnostics["log_probability"]
        totals: RatioTotals = draws.totals
        n = float(totals.n_draws[0])
        independent = min(found.ess_bulk, n) / n if np.isfinite(found.ess_bulk) else 1.0
        return cls.of_sums(totals, independent)

    @classmethod
    def of_sums(cls, totals: RatioTotals, independent: float = 1.0) -> Mean:
        """Of sums; `independent`: independent draws for each draw."""
        with np.errstate(divide="ignore", invalid="ignore"):
            log = np.log(totals.first / totals.n_draws[0])
            effective = totals.first**2 / totals.second * independent
        # What is impossible in every draw is no candidate, and takes no draws.
        return cls(log, np.where(totals.first > 0.0, effective, np.inf))


class Belief(NamedTuple):
    """What the intruder believes of each person."""

    probability: Float64
    """(n_persons,): of the truth, among its candidates."""
    rank: Float64
    """(n_persons,): place of the truth, 1 the most probable; ties share the mean place."""
    first: Float64
    """(n_persons,): probability that the intruder names the truth who names the most probable
    candidate, ties by lot."""

    @classmethod
    def of(cls, log: Float64) -> Belief:
        """Of probabilities (n_persons, n_candidates), the truth first, up to a factor by person."""
        shares = np.exp(log - log.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        truth = shares[:, :1]
        # Shares that differ by rounding alone are ties.
        tied = np.isclose(shares, truth, rtol=1e-9, atol=0.0)
        above = (~tied & (shares > truth)).sum(axis=1)
        n_tied = tied.sum(axis=1)
        return cls(truth[:, 0], 1.0 + above + (n_tied - 1) / 2.0, (above == 0) / n_tied)


def after(
    original: Mean, joined: Sequence[Mean], log_prior: Float64
) -> tuple[Belief, Belief, Float64]:
    """Compute what the intruder believes after he has seen the synthetic files, and before.

    Parameters
    ----------
    original
        Means of g_t given the original.
    joined
        Means of g_t given the original and each of the synthetic files.
    log_prior
        (n_persons, n_each): of the intruder, up to a constant for each person.

    Returns
    -------
    Belief, Belief, Float64
        After, before, and the smallest effective number of draws of each person, (n_persons,).
    """
    log = log_prior.copy()
    allowed = np.isfinite(original.log)
    for one in joined:
        log[allowed] += one.log[allowed] - original.log[allowed]
    log[~allowed] = -np.inf
    effective = np.min([one.effective for one in (original, *joined)], axis=(0, 2))
    return Belief.of(log), Belief.of(log_prior), effective


def log_priors(
    candidates: Candidates, original: Mean, records: Int32, n_levels: Sequence[int]
) -> dict[str, Float64]:
    """Give several priors of the intruder, (n_persons, n_each), up to a constant for each person.

    `uniform`: all candidates alike; impossible ones not. `margins`: by the frequency of the value
    in which a candidate differs, in the records. `model`: the prediction of the model given all
    records but his, proportional to E[g_t | D].
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
    return {"uniform": allowed, "margins": frequency + allowed, "model": original.log}


def joined_table(original: CellTable, synthetic: Int32) -> CellTable:
    """Make the table of the original together with a synthetic file, without a design."""
    records = np.concatenate((original.cells[original.record_cell], synthetic))
    return CellTable.from_codes(
        records,
        original.keys,
        len(records) + 1,
        "level" if original.missing == "level" else "integrate",
        zeros=original.zeros,
        layout=original.layout,
    )


@dataclass(frozen=True, kw_only=True)
class PriorFacts:
    """What an intruder with one prior believes of the truth, over the persons with a number."""

    prior: str
    """`uniform`, `margins` or `model`."""
    top_three: float
    """Share of the persons whose true values are among the three most probable candidates."""
    top_three_before: float
    """The same, before he has seen the synthetic files."""
    twice: float
    """Share whose true values have become at least twice as probable."""
    largest: float
    """Largest probability of true values."""
    largest_before: float
    """The same, before."""


@dataclass(frozen=True, kw_only=True)
class PosteriorFacts:
    """The attack of an intruder who knows the model and all records but one."""

    model: str
    unit: Unit
    """What was attacked: distinct combinations of persons, households, or persons in them."""
    n_persons: int
    """How many were attacked."""
    n_candidates: int
    """Candidates of each; of households and of persons in them the mean number."""
    n_unknown: int
    """How many have no number: too few draws count."""
    effective_draws: float
    """Effective number of weighted draws, median over the persons of their smallest."""
    least_draws: float
    """Effective number below which there is no number."""
    converged: bool
    """Whether all fits converged."""
    priors: tuple[PriorFacts, ...]


def one_unknown(
    model: AnyModel,
    table: CellTable,
    synthetic: Sequence[Int32],
    *,
    label: str,
    seed: int,
    plan: Plan,
    level: float,
    execution: Execution,
) -> tuple[PosteriorFacts, tuple[AttackResult, ...]]:
    """Attack each person of the original with all others known.

    Parameters
    ----------
    model, label
        The generator's model, and its name with its options.
    table
        The original.
    synthetic
        Each (n_records, n_keys), in the levels of the original.
    seed, plan, execution
        Of the fits: to the original, and to the original with each synthetic file.
    level
        Probability of the intervals.

    Raises
    ------
    SpecError
        If the model has no likelihood that the attack can use.
    KeyboardInterrupt
        On Ctrl-C.
    """
    check_model(model)
    observer = attacked_persons(table, seed)
    candidates = observer.candidates
    means, converged = fitted_means(
        model,
        [table, *(joined_table(table, made) for made in synthetic)],
        observer,
        label=label,
        seed=seed,
        plan=plan,
        execution=execution,
    )
    records = table.cells[table.record_cell]
    return told(
        means,
        log_priors(candidates, means[0], records, table.n_levels),
        name=NAME,
        unit="combination",
        label=label,
        n_candidates=len(candidates.variable),
        level=level,
        converged=converged,
    )


def attacked_persons(table: CellTable, seed: int) -> CandidateRatios:
    """Draw the persons that are attacked, and return what is computed of each kept state."""
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,)))
    chosen = np.sort(
        generator.choice(table.n_cells, min(MOST_PERSONS, table.n_cells), replace=False)
    )
    return CandidateRatios(candidates=neighbours(table.cells[chosen], table.n_levels, table.zeros))


def fitted_means(
    model: AnyModel,
    tables: Sequence[CellTable],
    observer: Observer,
    *,
    label: str,
    seed: int,
    plan: Plan,
    execution: Execution,
) -> tuple[list[Mean], bool]:
    """Fit the model to the original, and to it with each synthetic file; and if all converged."""
    means, converged = [], True
    for number, one in enumerate(tables):
        kept = execution.of(f"known-{number}")
        what = f"with synthetic file {number}" if number else "alone"
        execution.watcher.stage(f"Fitting {label} to the original {what}")
        draws = sample(
            model,
            one,
            observer,
            seed=seed,
            plan=plan,
            workers=execution.workers,
            checkpoint=kept.checkpoint,
            progress=execution.watcher.progress,
        )
        if draws.stop_reason == "interrupted":
            raise KeyboardInterrupt
        means.append(Mean.of(draws))
        converged = converged and draws.converged
    return means, converged


def told(
    means: Sequence[Mean],
    priors: Mapping[str, Float64],
    *,
    name: str,
    unit: Unit,
    label: str,
    n_candidates: int,
    level: float,
    converged: bool,
    household: AnyHousehold = None,
) -> tuple[PosteriorFacts, tuple[AttackResult, ...]]:
    """Say what intruders with these priors learn, of means of g_t: the original's come first."""
    facts, results = [], []
    for prior, log_prior in priors.items():
        found, before, effective = after(means[0], means[1:], log_prior)
        known = effective >= LEAST_DRAWS
        if not known.any():
            continue
        at = None if household is None else household[known]
        first, second = (Contributions(one.first[known], at) for one in (found, before))
        rates = of_same_records(first, second, level)
        by_file = [after(means[0], [one], log_prior)[0].first[known].mean() for one in means[1:]]
        results.append(
            AttackResult(
                name=name,
                target=f"{prior} prior",
                n=float(known.sum()),
                rate=rates.attack,
                by_file=tuple(map(float, by_file)),
                compared=rates.attack,
                baseline=rates.baseline,
                kind="prior",
                excess=rates.excess,
            )
        )
        facts.append(
            PriorFacts(
                prior=prior,
                top_three=float((found.rank[known] <= 3.0).mean()),
                top_three_before=float((before.rank[known] <= 3.0).mean()),
                twice=float((found.probability >= 2.0 * before.probability)[known].mean()),
                largest=float(found.probability[known].max()),
                largest_before=float(before.probability[known].max()),
            )
        )
    return PosteriorFacts(
        model=label,
        unit=unit,
        n_persons=len(known),
        n_candidates=n_candidates,
        n_unknown=int(np.count_nonzero(~known)),
        effective_draws=float(np.median(effective)),
        least_draws=LEAST_DRAWS,
        converged=converged,
        priors=tuple(facts),
    ), tuple(results)


def check_model(model: Any) -> None:
    """Refuse a model of which the attack is not known (SpecError)."""
    known = models_with(of_households=None, all_but_one=True)
    if model.name not in known:
        raise SpecError(
            "The attack with all other records known is made for generators of latent classes and "
            f"of households, and the model is {model.name}; name {either(known)} with --model, or "
            "leave it out."
        )
    if model.profile_base == "empirical":
        raise SpecError(
            "With profile_base=empirical the prior depends on the file, and the attack with all "
            "other records known does not hold; take learned or uniform."
        )
