"""Which terms a log-linear model needs: Skinner and Shlomo's criteria and forward selection.

A model that leaves out terms spreads the records over too many cells and takes too many for
unique. The bias of tau's estimate is itself estimated, with mu the fitted mean of a cell (Skinner
and Shlomo 2008, section 3; JASA 103, 989-1001):

    B = sum_c a_c (f_c - mu_c) + b_c ((f_c - mu_c)^2 - f_c)
    nu = sum_c a_c^2 mu_c + 2 b_c^2 mu_c^2

with a, b from the first and second derivative of r1 (B1) or r2 (B2) by the cell's rate.
B / sqrt(nu) is about standard normal if the model holds, and large if it underfits.
"""

from __future__ import annotations

import itertools
import math
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from unikat._typing import Float64
from unikat.data.table import CellTable
from unikat.kernels import bias
from unikat.kernels import cells as risk
from unikat.kernels import loglinear as kernels
from unikat.models.loglinear.factored import Fit, arrange
from unikat.models.loglinear.maximum_likelihood import fit, nudged
from unikat.models.loglinear.terms import Generators, maximal, parse_terms
from unikat.models.preparing import report, stage

Criterion: TypeAlias = Literal["B1", "B2"]
_TRIED = 3
"""Candidates that are fitted, of those that one step of proportional fitting puts first; more if
none of them is an improvement."""


class Evidence(NamedTuple):
    """How far a fitted model is from the data, for the estimates it gives."""

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


def evidence(table: CellTable, fitted: Fit) -> Evidence:
    """Compute the criteria of a fitted model.

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

    Of the terms that may be added (pairs; with all pairs of three keys in the model, the three of
    them) the one is added that brings the criterion nearest to zero, until it is at most
    `threshold`, or nothing brings it nearer. One step of proportional fitting shows which terms are
    worth a fit. The last of the steps is the model selected.
    """
    which = 0 if criterion == "B1" else 1
    # With the interactions of a sampling class, which are in every model.
    generators = parse_terms("independence", [key.name for key in table.keys])
    current = fit(table, generators, tolerance=tolerance, smoothing=smoothing)
    steps = [Step(generators, (), evidence(table, current))]
    rough = max(tolerance, 1e-2)
    while (before := steps[-1].evidence[which]) > threshold:
        guesses: list[tuple[float, tuple[int, ...]]] = []
        candidates = _candidates(generators, table.n_keys)
        with stage(f"selecting terms ({len(steps) - 1} added, {criterion}/√ν {before:.1f})"):
            for number, term in enumerate(candidates, start=1):
                report(f"trying {number} of {len(candidates)} more")
                larger = maximal([*generators, term])
                guess = nudged(table, larger, term, smoothing=smoothing, start=current)
                guesses.append((abs(evidence(table, guess)[which]), term))
            best, begin = abs(before), current
            added: tuple[int, ...] = ()
            for number, (_, term) in enumerate(sorted(guesses)):
                if number >= _TRIED and best < abs(before):
                    break
                larger = maximal([*generators, term])
                tried = fit(table, larger, tolerance=rough, smoothing=smoothing, start=current)
                statistic = abs(evidence(table, tried)[which])
                if statistic < best:
                    best, added, begin = statistic, term, tried
        if not added:
            break
        generators = maximal([*generators, added])
        current = fit(table, generators, tolerance=tolerance, smoothing=smoothing, start=begin)
        steps.append(Step(generators, added, evidence(table, current)))
    return tuple(steps)


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
