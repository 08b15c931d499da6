"""Which terms a log-linear model needs: a test of fit, held-out scores, and forward selection.

**Test of fit** (Skinner and Shlomo 2008, section 3; JASA 103, 989-1001), mu being the fitted mean
of a cell:

    B = sum_c a_c (f_c - mu_c) + b_c ((f_c - mu_c)^2 - f_c)
    nu = sum_c a_c^2 mu_c + 2 b_c^2 mu_c^2

with a, b from the first and second derivative of r1 (B1) or r2 (B2) by the cell's rate.
B / sqrt(nu) is about standard normal if the model holds, and large if the rates vary around it.

B tests the fit of the rates. It estimates neither the size nor the sign of tau's error. The paper
expands the error of tau around the true rate, and then puts the fitted rate in its place. But the
probability of a sample unique, u = pi lambda exp(-pi lambda), varies with the true rate too. To
second order around the fitted rate, with h = r1 or r2 and d the true less the fitted rate,

    E tau_hat - tau = sum_c -u h' d - (u' h' + u h'' / 2) d^2,

where B has + u h'' / 2. For r1 the sign of the last factor changes near lambda = 2 (pi small):
below, rates that vary make tau1 too high, above too low. `benchmarks/bias.py` simulates it.

**Held-out log score.** Half of the records are held out, the model is fitted to the others, and

    s_i = log ((n p(x_i) + p_0(x_i)) / (n + 1))

with n kept records and p_0 their fit under independence: one record more, spread like p_0, so that
a zero margin makes a record improbable, not impossible. The difference of two models has a
standard error, since both score the same records.
"""

from __future__ import annotations

import itertools
import math
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.split import split
from unikat.data.table import CellTable
from unikat.kernels import bias
from unikat.kernels import cells as risk
from unikat.kernels import loglinear as kernels
from unikat.models.loglinear.factored import Fit, arrange
from unikat.models.loglinear.maximum_likelihood import fit, nudged
from unikat.models.loglinear.terms import Generators, maximal, parse_terms
from unikat.models.preparing import report, stage

Criterion: TypeAlias = Literal["B1", "B2", "held-out"]
CRITERIA: tuple[Criterion, ...] = ("B1", "B2", "held-out")
_TRIED = 3
"""Candidates that are fitted, of those that one step of proportional fitting puts first; more if
none of them brings a test nearer to zero."""
_HELD_OUT = 0.5
"""Share of the records that are held out. Larger parts find spurious terms less often."""
_SEED = 0
"""Of the split: the terms depend on the table alone."""


class Evidence(NamedTuple):
    """Tests of fit of a model, and the estimates it gives."""

    b1: float
    """B1 / sqrt(nu)."""
    b2: float
    """B2 / sqrt(nu)."""
    squared_means: float
    """Sum of mu^2 over all cells."""
    tau1: float
    """Sum of r1 over the sample uniques."""
    tau2: float


class Step(NamedTuple):
    """One model on the way of a selection."""

    generators: Generators
    added: tuple[int, ...]
    """The keys of the term that was added last; empty for the first model."""
    evidence: Evidence
    score: float
    """Mean held-out log score, nats per record; NaN where no record can be scored."""
    gain: float
    """Score less that of the step before; NaN for the first model, as the next."""
    gain_error: float
    """Standard error of the gain, by the chance of which records were held out."""


class HeldOut(NamedTuple):
    """A model fitted to the kept records, and how it scores the others."""

    kept: CellTable
    fit: Fit
    cells: Int32
    """(n_patterns, n_keys): of the held-out records."""
    counts: Int64
    """(n_patterns,)"""
    independent: Float64
    """(n_patterns,): their probabilities if keys are independent, all above 0."""
    logs: Float64
    """(n_patterns,): log scores."""

    @classmethod
    def of(cls, table: CellTable, tolerance: float, smoothing: float) -> HeldOut | None:
        """Split a table and fit independence; None where no record can be scored.

        Left out are records with a level that no kept one has: no model can score them.
        """
        single = table.households is not None and int(table.households.max(initial=0)) == 0
        if table.n_records < 2 or single:
            return None
        kept, out = split(table, _HELD_OUT, _SEED)
        if (kept.cells < 0).all():
            return None
        generators = parse_terms("independence", [key.name for key in table.keys])
        fitted = fit(kept, generators, tolerance=tolerance, smoothing=smoothing)
        p = fitted.probabilities(out.cells)
        scored: Bool = (p > 0.0) & (out.cells >= 0).any(axis=1)
        if not scored.any():
            return None
        return cls(
            kept, fitted, out.cells[scored], out.counts[scored], p[scored], np.log(p[scored])
        )

    def by(self, fitted: Fit) -> HeldOut:
        """Score the same records by another fit to the kept ones."""
        n = self.kept.n_records
        p = (n * fitted.probabilities(self.cells) + self.independent) / (n + 1.0)
        return self._replace(fit=fitted, logs=np.log(p))

    @property
    def score(self) -> float:
        """Mean over the held-out records."""
        return float(np.average(self.logs, weights=self.counts))

    def gain(self, before: HeldOut) -> tuple[float, float]:
        """Difference from another model and its standard error, record by record."""
        differences, n = self.logs - before.logs, int(self.counts.sum())
        mean = float(np.average(differences, weights=self.counts))
        squares = float(self.counts @ (differences - mean) ** 2)
        return mean, math.sqrt(squares / (n - 1) / n) if n > 1 else math.nan


def evidence(table: CellTable, fitted: Fit) -> Evidence:
    """Compute the tests of fit and the risks of a fitted model.

    Records with missing keys are left out here, and the sampling fraction is that of the others:
    right if keys are missing completely at random.
    """
    complete = ~table.incomplete
    counts = table.counts[complete].astype(np.float64)
    n = float(counts.sum())
    if n == 0.0:
        return Evidence(math.nan, math.nan, math.nan, math.nan, math.nan)
    share = n / table.n_units
    layout = fitted.layout
    weights = np.empty(len(counts))
    walked = arrange(layout, table.cells[complete])
    kernels.cell_weights(layout.terms, fitted.factors, walked, weights)
    means = n / fitted.total * weights
    sums = np.zeros(5)
    bias.empty_cell_sums(n / fitted.total, share, layout.terms, fitted.factors, sums)
    bias.add_occupied(means, counts, share, sums)
    p = means[counts == 1.0] / n
    r1, r2 = np.empty(len(p)), np.empty(len(p))
    unobserved = np.full(len(p), float(table.n_units - n))
    risk.cell_risk(unobserved, p, np.ones(len(p)), True, r1, r2)
    return Evidence(
        b1=_standardised(sums[1], sums[2]),
        b2=_standardised(sums[3], sums[4]),
        squared_means=float(sums[0]),
        tau1=float(r1.sum()),
        tau2=float(r2.sum()),
    )


def _standardised(total: Float64, variance: Float64) -> float:
    return float(total / math.sqrt(variance)) if variance > 0.0 else 0.0


def select(
    table: CellTable, criterion: Criterion, threshold: float, tolerance: float, smoothing: float
) -> tuple[Step, ...]:
    """Select terms, forward from independence.

    Terms that may be added are pairs; with all pairs of three keys in the model, the three of them.
    One step of proportional fitting shows which of them are worth a fit.

    `B1`, `B2`: the term is added that brings the test nearest to zero, until it is at most
    `threshold`, or nothing brings it nearer. `held-out`: the term is added that has the highest
    held-out score, as long as its gain is more than `threshold` standard errors. The last of the
    steps is the model selected.
    """
    # With the interactions of a sampling class, which are in every model.
    generators = parse_terms("independence", [key.name for key in table.keys])
    current = fit(table, generators, tolerance=tolerance, smoothing=smoothing)
    rough = max(tolerance, 1e-2)
    held_out = HeldOut.of(table, rough, smoothing)
    score = math.nan if held_out is None else held_out.score
    steps = [Step(generators, (), evidence(table, current), score, math.nan, math.nan)]
    while True:
        begin = current
        if criterion == "held-out":
            added = _best_predicting(held_out, steps, threshold, rough, smoothing)
        else:
            added, begin = _best_tested(
                table, current, steps, criterion, threshold, rough, smoothing
            )
        if not added:
            return tuple(steps)
        generators = maximal([*generators, added])
        current = fit(table, generators, tolerance=tolerance, smoothing=smoothing, start=begin)
        gain = math.nan, math.nan
        if held_out is not None:
            before = held_out
            held_out = before.by(
                fit(before.kept, generators, tolerance=rough, smoothing=smoothing, start=before.fit)
            )
            score, gain = held_out.score, held_out.gain(before)
        steps.append(Step(generators, added, evidence(table, current), score, *gain))


def _best_tested(
    table: CellTable,
    current: Fit,
    steps: list[Step],
    criterion: Literal["B1", "B2"],
    threshold: float,
    rough: float,
    smoothing: float,
) -> tuple[tuple[int, ...], Fit]:
    """Term that brings the test nearest to zero, and its fit; no term where none is needed."""
    which = 0 if criterion == "B1" else 1
    before, generators = steps[-1].evidence[which], steps[-1].generators
    added: tuple[int, ...] = ()
    if not before > threshold:
        return added, current
    guesses: list[tuple[float, tuple[int, ...]]] = []
    candidates = _candidates(generators, table.n_keys)
    with stage(f"selecting terms ({len(steps) - 1} added, {criterion}/√ν {before:.1f})"):
        for number, term in enumerate(candidates, start=1):
            report(f"trying {number} of {len(candidates)} more")
            larger = maximal([*generators, term])
            guess = nudged(table, larger, term, smoothing=smoothing, start=current)
            guesses.append((abs(evidence(table, guess)[which]), term))
        best, begin = abs(before), current
        for number, (_, term) in enumerate(sorted(guesses)):
            if number >= _TRIED and best < abs(before):
                break
            larger = maximal([*generators, term])
            tried = fit(table, larger, tolerance=rough, smoothing=smoothing, start=current)
            statistic = abs(evidence(table, tried)[which])
            if statistic < best:
                best, added, begin = statistic, term, tried
    return added, begin


def _best_predicting(
    held_out: HeldOut | None, steps: list[Step], threshold: float, rough: float, smoothing: float
) -> tuple[int, ...]:
    """Term with the highest held-out score; none where its gain is not clear."""
    if held_out is None:
        return ()
    kept, start, generators = held_out.kept, held_out.fit, steps[-1].generators
    guesses: list[tuple[float, tuple[int, ...]]] = []
    candidates = _candidates(generators, kept.n_keys)
    words = f"selecting terms ({len(steps) - 1} added, held-out log score {held_out.score:.3f})"
    with stage(words):
        for number, term in enumerate(candidates, start=1):
            report(f"trying {number} of {len(candidates)} more")
            larger = maximal([*generators, term])
            guess = nudged(kept, larger, term, smoothing=smoothing, start=start)
            guesses.append((-held_out.by(guess).score, term))
        best, error = 0.0, math.nan
        added: tuple[int, ...] = ()
        for _, term in sorted(guesses)[:_TRIED]:
            larger = maximal([*generators, term])
            tried = fit(kept, larger, tolerance=rough, smoothing=smoothing, start=start)
            gain, its_error = held_out.by(tried).gain(held_out)
            if gain > best:
                best, error, added = gain, its_error, term
    return added if best > threshold * error else ()


def _candidates(generators: Generators, n_keys: int) -> list[tuple[int, ...]]:
    """Terms of two or three keys that are not in the model, all their parts being in it."""

    def inside(term: tuple[int, ...]) -> bool:
        return any(set(term) <= set(one) for one in generators)

    pairs: list[tuple[int, ...]] = [
        one for one in itertools.combinations(range(n_keys), 2) if not inside(one)
    ]
    triples: list[tuple[int, ...]] = [
        one
        for one in itertools.combinations(range(n_keys), 3)
        if not inside(one) and all(inside(pair) for pair in itertools.combinations(one, 2))
    ]
    return pairs + triples
