"""ρ of Hu, Reiter and Wang (2018): an intruder who knows the generator and all records but one.

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

The standard error of log rho_t is that of means over batches of the chains (`squared_error`).
A record has no rho if it is large. See docs/design/rho.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from unikat._typing import Bool, Float32, Float64, Int32, Int64
from unikat.data.table import CellTable
from unikat.inference.draws import Observer
from unikat.inference.plan import Plan
from unikat.inference.progress import Watcher
from unikat.models.base import AnyModel, Stream
from unikat.studies.auto import Execution
from unikat.synthesis.attacks.rates import AnyHousehold, Contributions, of_same_records
from unikat.synthesis.attacks.run import AttackResult

MOST_ERROR = 0.2
"""Standard error of log rho from which on a record has no rho."""
MATTERS = 0.01
"""A candidate matters if its rho is at least this share of the largest."""
N_BATCHES = 8
"""Batches of a chain, at most; a power of two, as the lengths of epochs are."""
N_BINS = 20
"""Of the histograms of a prior."""
Unit = Literal["combination", "household", "person"]


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """How the generator's model is fitted, to the original and to it with each synthetic file."""

    label: str
    """The model's name with its options."""
    seed: int
    plan: Plan
    level: float
    """Probability of the intervals."""
    execution: Execution

    def told(self, watcher: Watcher) -> Fitting:
        """Return the same, of which another one is told how the fits go."""
        return replace(self, execution=replace(self.execution, watcher=watcher))


class RatioTotals(NamedTuple):
    """Sums over draws of g_t, by batches of a chain, or of several."""

    n_draws: Float64
    """(N_BATCHES,), or (n_chains, N_BATCHES)."""
    first: Float64
    """(N_BATCHES, n_records, n_each), or (n_chains, ...): sum of g."""


class RatioObserver(Observer):
    """Observer that sums g_t; its `joined` totals keep the chains apart.

    Convergence is judged on the mean log probability of the records, each given all others.
    """

    monitored: ClassVar[tuple[str, ...]] = ("log_probability",)
    times_sweeping: ClassVar[float] = 1.0
    """States depend on each other for some sweeps, and g_t is most of what a draw tells."""

    @property
    @abstractmethod
    def possible(self) -> Bool:
        """(n_records, n_each): the candidates that are possible, the record itself first."""

    @abstractmethod
    def ratios(
        self, stream: Stream, model: AnyModel, state: Any, data: Any
    ) -> tuple[Float64, Float64]:
        """Return g_t (n_records, n_each) and log p(x | all others) (n_records,) of a state."""

    def start(self) -> RatioTotals:
        """Empty totals."""
        return RatioTotals(np.zeros(N_BATCHES), np.zeros((N_BATCHES, *self.possible.shape)))

    def joined(self, of_chains: Sequence[RatioTotals]) -> RatioTotals:
        """Totals with a first axis of chains."""
        return RatioTotals(*map(np.stack, zip(*of_chains, strict=True)))

    def observe(
        self, stream: Stream, model: AnyModel, state: Any, data: Any, totals: RatioTotals
    ) -> Mapping[str, float]:
        """Add the ratios under one state to the batch that is being filled.

        Where all are full, they become half as many of twice the length.
        """
        ratio, log_own = self.ratios(stream, model, state, data)
        n = int(totals.n_draws.sum())
        length = 1
        while length * N_BATCHES <= n:
            length *= 2
        if length > 1 and n == length * N_BATCHES // 2:
            for one in totals:
                one[: N_BATCHES // 2] = one[::2] + one[1::2]
                one[N_BATCHES // 2 :] = 0.0
        totals.n_draws[n // length] += 1.0
        totals.first[n // length] += np.where(self.possible, ratio, 0.0)
        return {"log_probability": float(log_own.mean())}


class Mean(NamedTuple):
    """Mean of g_t over the draws of a fit, and by batches."""

    log: Float64
    """(n_records, n_each): its logarithm; minus infinity for what is impossible."""
    batches: Float32
    """(n_chains, N_BATCHES, n_records, n_each): mean of each batch over that of all, less 1."""
    share: Float64
    """(n_chains, N_BATCHES): the batch's share of the draws."""

    @classmethod
    def of(cls, totals: RatioTotals) -> Mean:
        """Of the totals of all chains."""
        n = totals.n_draws[..., None, None]
        mean = totals.first.sum(axis=(0, 1)) / n.sum()
        with np.errstate(divide="ignore"):
            log = np.log(mean)
        batches = totals.first / np.maximum(n, 1.0) / np.where(mean > 0.0, mean, 1.0) - 1.0
        return cls(log, batches.astype(np.float32), totals.n_draws / n.sum())

    def of_candidates(self, at: Any, there: Bool) -> Mean:
        """Of some of the candidates, by their places; impossible where they are not `there`."""
        return Mean(np.where(there, self.log[at], -np.inf), self.batches[:, :, *at], self.share)


def squared_error(
    means: Sequence[Mean], coefficients: Sequence[float], rho: Float64, columns: Any = slice(None)
) -> Float64:
    """Squared standard error of log rho, (n_records, n_candidates).

    log rho_t is a sum over fits of coefficient times the log mean of g_t, normalised. To first
    order a batch changes it by coefficient times its relative deviation e_t, less the same of the
    normalising sum, which is the mean of e under rho. The variance of a fit's mean is estimated by
    batches within chains, and by the means of chains, which see what batches of a chain that mixes
    slowly have in common; the larger one counts.
    """
    within, between = np.zeros(rho.shape), np.zeros(rho.shape)
    for one, coefficient in zip(means, coefficients, strict=True):
        deviation = one.batches[..., columns]
        deviation = deviation - np.einsum("cbnt,nt->cbn", deviation, rho)[..., None]
        share = one.share[..., None, None]
        of_chain = (share * deviation).sum(axis=1) / share.sum(axis=1)
        n_chains, n_more = len(share), int(np.count_nonzero(one.share)) - len(share)
        squares = (share * (deviation - of_chain[:, None]) ** 2).sum(axis=(0, 1))
        within += coefficient**2 * squares / max(n_more, 1)
        squares = (share.sum(axis=1) * of_chain**2).sum(axis=0)
        between += coefficient**2 * squares / max(n_chains - 1, 1)
    return np.maximum(within, between)


class Belief(NamedTuple):
    """What the intruder believes of each record."""

    shares: Float64
    """(n_records, n_candidates): probability of each candidate, the truth first."""
    rank: Float64
    """(n_records,): place of the truth, 1 the most probable; ties share the mean place."""
    first: Float64
    """(n_records,): probability that the intruder names the truth who names the most probable
    candidate, ties by lot."""

    @property
    def probability(self) -> Float64:
        """Of the truth, (n_records,)."""
        return self.shares[:, 0]

    @classmethod
    def of(cls, log: Float64) -> Belief:
        """Of probabilities (n_records, n_candidates), the truth first, up to a factor by record."""
        shares = np.exp(log - log.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        truth = shares[:, :1]
        # Shares that differ by rounding alone are ties.
        tied = np.isclose(shares, truth, rtol=1e-9, atol=0.0)
        above = (~tied & (shares > truth)).sum(axis=1)
        n_tied = tied.sum(axis=1)
        return cls(shares, 1.0 + above + (n_tied - 1) / 2.0, (above == 0) / n_tied)


class Prior(NamedTuple):
    """What the intruder believes before."""

    log: Float64
    """(n_records, n_each): up to a constant for each record."""
    predicted: bool = False
    """That much besides the prediction of the model given all other records, E[g_t | D]."""


class Learned(NamedTuple):
    """What the intruder believes after he has seen the synthetic files, and before."""

    before: Belief
    after: Belief
    error: Float64
    """(n_records,): standard error of log rho of the truth."""
    doubt: Float64
    """(n_records,): the largest standard error of log rho of the candidates that matter."""

    @classmethod
    def of(
        cls,
        original: Mean,
        joined: Sequence[Mean],
        prior: Prior,
        columns: Any = slice(None),
    ) -> Learned:
        """Of means of g_t given the original, and given it and each of the synthetic files.

        columns: candidates that the intruder takes into account, the truth among them.
        """
        own = original.log[:, columns]
        allowed = np.isfinite(own)
        coefficient = float(prior.predicted) - len(joined)
        before = prior.log[:, columns] + (own if prior.predicted else 0.0)
        log = np.where(allowed, before, -np.inf)
        for one in joined:
            log[allowed] += one.log[:, columns][allowed] - own[allowed]
        after = Belief.of(log)
        means, coefficients = (original, *joined), (coefficient, *([1.0] * len(joined)))
        error = np.sqrt(squared_error(means, coefficients, after.shares, columns))
        doubt = np.where(_matter(after), error, 0.0).max(axis=1)
        return cls(Belief.of(np.where(allowed, before, -np.inf)), after, error[:, 0], doubt)


def _matter(after: Belief) -> Bool:
    """Whether a candidate matters, (n_records, n_candidates); the truth always does."""
    matters: Bool = after.shares >= MATTERS * after.shares.max(axis=1, keepdims=True)
    matters[:, 0] = True
    return matters


def errors_by_fit(means: Sequence[Mean], prior: Prior) -> Float64:
    """Squared standard error of log rho by fit, (n_fits, n_records), of the worst candidate.

    Of the candidates that matter the worst one is not the same for all fits; the sum over the fits
    is that of the worst of all.
    """
    found = Learned.of(means[0], means[1:], prior)
    matters = _matter(found.after)
    coefficients = [float(prior.predicted) - len(means) + 1.0] + [1.0] * (len(means) - 1)
    errors: Float64 = np.stack(
        [
            np.where(matters, squared_error([one], [of_one], found.after.shares), 0.0).max(axis=1)
            for one, of_one in zip(means, coefficients, strict=True)
        ]
    )
    errors *= found.doubt**2 / np.maximum(errors.sum(axis=0), 1e-300)
    return errors


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
    """What an intruder with one prior believes of the truth, over the records with a number."""

    prior: str
    """`uniform`, `margins`, `model` or `population`."""
    top_three: float
    """Share of the records whose true values are among the three most probable candidates."""
    top_three_before: float
    """The same, before he has seen the synthetic files."""
    twice: float
    """Share whose true values have become at least twice as probable."""
    largest: float
    """Largest probability of true values."""
    largest_before: float
    """The same, before."""
    probabilities: tuple[int, ...]
    """Records by the probability of their true values, in `N_BINS` equal bins from 0 to 1."""
    ranks: tuple[int, ...]
    """Records by the share of the other candidates that are less probable than the truth, as
    probable ones counting half, in `N_BINS` equal bins from 0 to 1."""


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
    """How many have no number with a uniform prior: its standard error is too large."""
    standard_error: float
    """Largest standard error of log rho of the candidates that matter, median over the records."""
    most_error: float
    """Standard error from which on there is no number."""
    converged: bool
    """Whether all fits converged."""
    priors: tuple[PriorFacts, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """What is attacked, and what the candidates differ in."""

    name: str
    """Of the attack."""
    unit: Unit
    variable: Int64
    """(n_each,): variable in which a candidate differs, in `variables`; -1: none."""
    variables: Sequence[str]
    cell: Int64
    """(n_records,): cell of the original's table that each of them is, or lives in."""
    codes: Int32 | None = None
    """(n_records, n_person_keys): values of persons of households, -1 where a key is not theirs."""
    household: AnyHousehold = None
    """(n_records,): records that are not independent."""


class Told(NamedTuple):
    """What intruders with several priors learn."""

    facts: PosteriorFacts
    results: tuple[AttackResult, ...]
    """Success by prior."""
    question: Question
    records: Mapping[str, Any]
    """Columns of a table by record, prior and variable; `place` is that of the record."""


def told(
    means: Sequence[Mean],
    priors: Mapping[str, Prior],
    question: Question,
    how: Fitting,
    *,
    converged: bool,
) -> Told:
    """Say what intruders with these priors learn, of means of g_t: the original's come first."""
    facts, results, doubts, records = [], [], [], []
    original, joined = means[0], means[1:]
    for name, prior in priors.items():
        found = Learned.of(original, joined, prior)
        doubts.append(found.doubt)
        records += list(_by_variable(means, prior, name, question))
        known = found.doubt < MOST_ERROR
        if not known.any():
            continue
        at = None if question.household is None else question.household[known]
        first, second = (Contributions(one.first[known], at) for one in (found.after, found.before))
        rates = of_same_records(first, second, how.level)
        results.append(
            AttackResult(
                name=question.name,
                target=f"{name} prior",
                n=float(known.sum()),
                rate=rates.attack,
                by_file=tuple(
                    float(Learned.of(original, [one], prior).after.first[known].mean())
                    for one in joined
                ),
                compared=rates.attack,
                baseline=rates.baseline,
                kind="prior",
                excess=rates.excess,
            )
        )
        after, before = (one.probability[known] for one in (found.after, found.before))
        others = np.isfinite(original.log[known]).sum(axis=1) - 1.0
        below = 1.0 - (found.after.rank[known] - 1.0) / np.maximum(others, 1.0)
        facts.append(
            PriorFacts(
                prior=name,
                top_three=float((found.after.rank[known] <= 3.0).mean()),
                top_three_before=float((found.before.rank[known] <= 3.0).mean()),
                twice=float((after >= 2.0 * before).mean()),
                largest=float(after.max()),
                largest_before=float(before.max()),
                probabilities=_histogram(after),
                ranks=_histogram(below[others > 0]),
            )
        )
    return Told(
        PosteriorFacts(
            model=how.label,
            unit=question.unit,
            n_persons=len(doubts[0]),
            n_candidates=round(float(np.isfinite(original.log).sum(axis=1).mean())),
            n_unknown=int(np.count_nonzero(doubts[0] >= MOST_ERROR)),
            standard_error=float(np.median(doubts[0])),
            most_error=MOST_ERROR,
            converged=converged,
            priors=tuple(facts),
        ),
        tuple(results),
        question,
        {name: np.concatenate([one[name] for one in records]) for name in records[0]},
    )


def _histogram(shares: Float64) -> tuple[int, ...]:
    return tuple(np.histogram(shares, N_BINS, (0.0, 1.0))[0].tolist())


def _by_variable(
    means: Sequence[Mean], prior: Prior, name: str, question: Question
) -> Sequence[dict[str, Any]]:
    """What is learned among all candidates, and among those that differ in each variable."""
    rows = []
    for variable in (None, *range(len(question.variables))):
        columns = np.append(0, np.flatnonzero(question.variable == variable))
        if variable is None:
            columns = np.arange(len(question.variable))
        found = Learned.of(means[0], means[1:], prior, columns)
        n_candidates = np.isfinite(means[0].log[:, columns]).sum(axis=1)
        asked = np.flatnonzero(n_candidates > 1)
        known = found.doubt[asked] < MOST_ERROR
        what = None if variable is None else question.variables[variable]
        rows.append(
            {
                "unit": np.full(len(asked), question.unit, object),
                "place": asked,
                "variable": np.full(len(asked), what, object),
                "prior": np.full(len(asked), name, object),
                "n_candidates": n_candidates[asked],
                "rho_before": found.before.probability[asked],
                "rank_before": found.before.rank[asked],
                "rho": np.where(known, found.after.probability[asked], np.nan),
                "rho_se": found.error[asked],
                "rank": np.where(known, found.after.rank[asked], np.nan),
            }
        )
    return rows
