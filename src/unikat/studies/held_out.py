"""Held-out log score: how well a model fitted to some records predicts the others.

A part of the records is left out, the model is fitted to the rest, and every record left out is
scored by the log of its predictive probability,

    s_i = log (1/T) sum_t p(x_i | state t),

in nats, with what can be integrated out of a state integrated out (`predictive_probabilities`:
drawn profiles make the mean heavy-tailed, and biased low for few draws); the margin of the known
keys for a record with missing ones. The logarithmic score is strictly proper (Gneiting and Raftery,
2007, JASA 102, 359-378): no model scores better on average than the distribution that the records
come from. All models score the same records, so that they are compared pair by pair.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.table import CellTable
from unikat.inference.draws import Observer
from unikat.models.base import AnyModel, Stream
from unikat.risk.exposure import class_left_open, without_class

FLOOR = float(np.finfo(np.float64).tiny)
"""Stands for a probability of zero where convergence is judged."""


class ScoreTotals(NamedTuple):
    """Sums over draws."""

    n_draws: Int64
    """(1,)"""
    probability: Float64
    """(n_cells,): of the cells of the records left out."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PredictiveProbabilities(Observer):
    """Observer that averages the probabilities of the records left out.

    Convergence is judged on ``log_score``: the mean over the records left out of the log of their
    probability under one state. It is the score of that state alone, so chains that predict
    differently differ in it. A probability of zero counts as 2e-308 there, and there only: a cell
    that is impossible in every state then adds a constant, one that is impossible in some makes
    the chains disagree, as it should.
    """

    cells: Int32
    """(n_cells, n_keys): patterns of the records left out, each once, the sampling class left open
    where the model has one: it is no key."""
    counts: Int64
    """(n_cells,): records left out in each."""

    monitored: ClassVar[tuple[str, ...]] = ("log_score",)

    @classmethod
    def of(cls, left_out: CellTable) -> PredictiveProbabilities:
        """Prepare for the table of the records left out."""
        at_risk = without_class(left_out)
        return cls(cells=class_left_open(at_risk.cells, left_out), counts=at_risk.counts)

    def start(self) -> ScoreTotals:
        """Empty totals."""
        return ScoreTotals(
            n_draws=np.zeros(1, np.int64),
            probability=np.zeros(len(self.cells)),
        )

    def cost(self, model: AnyModel, data: Any) -> float:
        """Counted work of one observation, in the model's unit."""
        return float(model.cost(data)[1] * len(self.cells))

    def observe(
        self, stream: Stream, model: AnyModel, state: Any, data: Any, totals: ScoreTotals
    ) -> Mapping[str, float]:
        """Add one state to the totals and return its score."""
        p = model.predictive_probabilities(stream, state, data, self.cells)
        totals.n_draws[0] += 1
        totals.probability[...] += p
        logs = np.log(np.maximum(p, FLOOR))
        return {"log_score": float(np.average(logs, weights=self.counts))}


@dataclass(frozen=True, kw_only=True, eq=False)
class LogScore:
    """Mean log score of one model on the records left out."""

    n_records: int
    """Records left out."""
    n_zero: int
    """Those to which the model gives probability zero; their score is minus infinity."""
    mean: float
    """Mean score of the others, nats per record; higher is better, NaN if there are none."""
    standard_error: float
    """Of the mean, by the chance of which records were left out; NaN below two records."""


@dataclass(frozen=True, kw_only=True)
class HeldOutScore(LogScore):
    """Log score of one model on the records left out, with that of each pattern."""

    scores: Float64
    """(n_cells,): score of each pattern of records left out."""
    counts: Int64
    """(n_cells,): records left out in each."""


@dataclass(frozen=True, kw_only=True)
class ScoreDifference:
    """How much worse than the best a model predicts, record by record."""

    mean: float
    """Score minus that of the best model, nats per record; 0 for the best itself."""
    standard_error: float
    """Of the mean difference; 0 for the best itself."""
    n_records: int
    """Records compared: those to which both give a positive probability."""


def held_out_score(totals: ScoreTotals, counts: Int64) -> HeldOutScore:
    """Turn the totals of the draws into scores.

    Parameters
    ----------
    totals
        Of the retained draws.
    counts
        (n_cells,): records left out in each pattern.
    """
    with np.errstate(divide="ignore"):
        scores = np.log(totals.probability / max(int(totals.n_draws[0]), 1))
    possible = np.isfinite(scores)
    mean, error = _mean_and_error(scores[possible], counts[possible])
    return HeldOutScore(
        n_records=int(counts.sum()),
        n_zero=int(counts[~possible].sum()),
        mean=mean,
        standard_error=error,
        scores=scores,
        counts=counts,
    )


def best_score(scores: Sequence[HeldOutScore]) -> int:
    """Return the position of the best model.

    A record to which a model gives probability zero refutes it, so models with the fewest of these
    come first. Among equals it is the higher mean over the records to which all of them give a
    positive probability.

    """
    first = _fewest_zeros(scores)
    common = _common([scores[position] for position in first])

    def score_there(position: int) -> float:
        score = scores[position]
        mean = _mean_and_error(score.scores[common], score.counts[common])[0]
        return -math.inf if math.isnan(mean) else mean

    return max(first, key=score_there)


def _fewest_zeros(scores: Sequence[HeldOutScore]) -> list[int]:
    """Positions of the models that give the fewest records probability zero."""
    fewest = min(score.n_zero for score in scores)
    return [position for position, score in enumerate(scores) if score.n_zero == fewest]


def _common(scores: Sequence[HeldOutScore]) -> Bool:
    """Patterns to which all of these models give a positive probability, (n_cells,)."""
    both: Bool = np.logical_and.reduce([np.isfinite(score.scores) for score in scores])
    return both


def differences(scores: Sequence[HeldOutScore]) -> tuple[ScoreDifference, ...]:
    """Compare each model with the best one (:func:`best_score`), record by record.

    Returns
    -------
    tuple of ScoreDifference
        One for each model. Of models that give as few records probability zero as the best one,
        over the records to which all of these give a positive probability, so that none is above
        0; of the others, which are ranked after them, over those to which both do.
    """
    best = scores[best_score(scores)]
    common = _common([scores[position] for position in _fewest_zeros(scores)])
    found = []
    for score in scores:
        both = common if score.n_zero == best.n_zero else _common([score, best])
        counts = score.counts[both]
        mean, error = _mean_and_error(score.scores[both] - best.scores[both], counts)
        if score is best:
            mean = error = 0.0
        found.append(ScoreDifference(mean=mean, standard_error=error, n_records=int(counts.sum())))
    return tuple(found)


def _mean_and_error(values: Float64, counts: Int64) -> tuple[float, float]:
    """Mean over records, and its standard error; NaN where there are too few records."""
    n = int(counts.sum())
    if n == 0:
        return math.nan, math.nan
    mean = float(np.average(values, weights=counts))
    if n == 1:
        return mean, math.nan
    variance = float(np.sum(counts * (values - mean) ** 2)) / (n - 1)
    return mean, math.sqrt(variance / n)
