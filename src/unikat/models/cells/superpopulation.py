"""Superpopulation models of cells: Poisson, gamma and beta (Polettini and Stander).

    pi_k       ~  Gamma(alpha, K alpha)                 all K cells
    F_k | pi   ~  Poisson(N pi_k)
    p_k        ~  Beta(a, b)                                                           Model I
          or      Beta(a q_k, a (1 - q_k))                              Model I, rates = "cell"
                  gamma Beta(a q_k, a (1 - q_k)) + (1 - gamma) delta_0                 Model II
    f_k | F, p ~  Binomial(F_k, p_k)

q_k = f_k / (sum of the weights of the cell's records) is the cell's sampling rate by the design.
Cells are independent given the hyperparameters. The models have no law of the keys, and use no
information in them.

Given the hyperparameters all laws are exact (:class:`PopulationCount`). The paper elicits the
hyperparameters, since the likelihood alone has no maximum. Here they are drawn from their posterior
unless they are given:

    log alpha  ~  N(log min(1, n / K), alpha_spread^2)
    log a      ~  N(log shape, shape_spread^2), less log(n / N) in Model II
    log(a / b) ~  N(logit(n / N), mean_spread^2)                                       Model I
    gamma      ~  Beta(gamma_a, gamma_b)                                               Model II

pi p nearly is a product of two gamma variables, of shapes alpha and a (a n / N in Model II). The
counts alone hardly identify which shape is which. The prior of a states that sampling rates of
cells vary much less than their sizes: by a third at a shape of 10 (0.1 to 0.9 with 95%). The mean
of p is n / N except in the few large cells, since the F_k sum to N.

The likelihood is that of the complete records, with N times their share as their population. This
is correct if keys are missing completely at random. q_k of an empty cell is not known: it is drawn
from the sampling rates of the occupied cells, with each rate's share of the occupied *cells* as its
probability. Shares of records would favour large cells. Strata with high sampling rates have more
occupied cells, so their share is still somewhat too large.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from unikat._typing import Float64, Int32
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.kernels import superpopulation as kernels
from unikat.kernels.cells import cell_risk
from unikat.models.base import Facts, Info, Model, PopulationLaw, Stream, Uncertainty
from unikat.models.cells.hyperparameters import Hyperparameters
from unikat.models.cells.laws import (
    HIGHEST_RATE,
    Law,
    SuperpopulationData,
    drawn_rates,
    drawn_sums,
    empty_cell,
    empty_chances,
    empty_parts,
    integrals,
    lay_out,
    look_up,
    sums,
    united,
)
from unikat.models.cells.population_count import PopulationCount as PopulationCount
from unikat.models.cells.records import complete as complete_records
from unikat.models.cells.records import simulate as simulate_records
from unikat.models.options import PRIOR, Range, check_choice, check_numbers, check_whole
from unikat.models.records import compile_plug_in, generator_of

_SHARPEST = 4e6
"""Largest a b / (a + b) of a cell: its p is known to a two thousandth, which is as good as known,
and narrower integrands would take too many nodes."""
_SPREAD: Range = (1e-3, 5.0)
"""Of logarithms: from a factor that is known to a thousandth to one of e^10 either way."""
_SHAPE: Range = (1e-3, 1e4)
"""Of the laws of sizes and rates: from 0 or 1 in nearly every cell to the same in all. Sharper laws
take minutes to integrate and change no risk."""


@dataclass(frozen=True, kw_only=True)
class SuperpopulationFacts(Facts):
    """Cells, sampling rates, and the prior of the hyperparameters."""

    cells: int
    occupied: int
    empty: int
    sampling_rate_lowest: float
    sampling_rate_highest: float
    sampling_rates_of_empty_cells: tuple[float, ...]
    """Empty where the cells have no rates of their own."""
    hyperparameters: Mapping[str, Mapping[str, Any]]
    """What is given of each, or its prior."""


class SuperpopulationState(NamedTuple):
    """Hyperparameters as their sampler has them, and the log of their posterior density."""

    position: Float64
    """(3,)"""
    value: float


@dataclass(frozen=True, kw_only=True)
class _Superpopulation(Model[SuperpopulationState, SuperpopulationData]):
    """What both models share; each documents its options."""

    name: ClassVar[str]
    population: ClassVar[PopulationLaw] = "poisson"
    uses_weights: ClassVar[bool] = True
    alpha: float | None = None
    a: float | None = None
    n_cells: int | None = None
    alpha_spread: float = 2.0
    shape: float = 10.0
    shape_spread: float = 1.0

    def __post_init__(self) -> None:
        """Check the options."""
        check_numbers(self, {"alpha_spread": _SPREAD, "shape": _SHAPE, "shape_spread": _SPREAD})
        self._check_given({"alpha": _SHAPE})
        if self.n_cells is not None:
            check_whole(self, "n_cells", 1, 2**62, also=", or None")

    def _check_given(self, ranges: Mapping[str, Range]) -> None:
        """Check the hyperparameters that are given."""
        given = {name: ends for name, ends in ranges.items() if getattr(self, name) is not None}
        check_numbers(self, given, also=", or None")

    @abstractmethod
    def _hyperparameters(self, share: float, per_cell: float) -> Hyperparameters:
        """Prior, and what is given; share: n / N, per_cell: n / K."""

    def _of_cell_rates(
        self, share: float, per_cell: float, gamma: float | None, chance: tuple[float, float]
    ) -> Hyperparameters:
        """Prior where the beta laws are around the rates of the cells."""
        return Hyperparameters(
            names=("alpha", "a", "gamma"),
            given=(self.alpha, self.a, gamma),
            centre=(math.log(min(per_cell, 1.0)), math.log(self.shape / share), 0.0),
            spread=(self.alpha_spread, self.shape_spread, 1.0),
            offset=-math.log(share),
            chance=chance,
        )

    @abstractmethod
    def _law(self, position: Float64) -> Law:
        """Hyperparameters at a position of the sampler."""

    @property
    def uncertainty(self) -> Uncertainty:
        """Rates are drawn; the hyperparameters too, unless all are given."""
        sampled = self._hyperparameters(0.5, 1.0).free
        return "posterior" if sampled else "empirical-bayes"

    def compile(self, zeros: bool = False) -> None:
        """Compile the kernels, or load them from the cache, on a toy table."""
        compile_plug_in(self, zeros)

    def prepare(self, table: CellTable) -> SuperpopulationData:
        """Collect counts and rates (refuses as `lay_out`); find where the posterior lies."""
        data = lay_out(table, self.n_cells, self.has_cell_rates)
        parameters = self._parameters(data)
        proposal = parameters.explore(lambda position: self._log_likelihood(position, data))
        return data._replace(proposal=proposal)

    def _parameters(self, data: SuperpopulationData) -> Hyperparameters:
        return self._hyperparameters(data.mean_rate, data.n_records / data.n_cells)

    def _log_likelihood(self, position: Float64, data: SuperpopulationData) -> float:
        """Log likelihood of all K cells, Distributions 2 and 3."""
        law = self._law(position)
        if _sharpest(law, data) > _SHARPEST:
            return -math.inf
        found = integrals(law, data, data.share, data.pair_counts, data.pair_rates)[:, 0]
        empty = empty_chances(law, data, data.share)[1]
        value = float(data.times @ found) + len(data.counts) * math.log(law.gamma)
        return value + (data.n_cells - len(data.counts)) * empty

    def init(self, stream: Stream, data: SuperpopulationData) -> SuperpopulationState:
        """Start from the proposal, three times as wide."""
        position = data.proposal.start(generator_of(stream, 3), stream.chain)
        return SuperpopulationState(position, self._value(position, data))

    def _value(self, position: Float64, data: SuperpopulationData) -> float:
        prior = self._parameters(data).log_prior(position)
        return prior + self._log_likelihood(position, data) if math.isfinite(prior) else -math.inf

    def step(
        self, stream: Stream, state: SuperpopulationState, data: SuperpopulationData, n_threads: int
    ) -> tuple[SuperpopulationState, Info]:
        """Propose hyperparameters: three times independently of the state, and once near it."""
        position, value = data.proposal.move(
            generator_of(stream, 3),
            state.position,
            state.value,
            lambda there: self._value(there, data),
        )
        return SuperpopulationState(position, value), Info(self._by_name(position))

    @abstractmethod
    def _by_name(self, position: Float64) -> dict[str, float]:
        """Name the hyperparameters."""

    # --- probabilities ------------------------------------------------------------------------

    def _sample(
        self, stream: Stream, state: SuperpopulationState, data: SuperpopulationData
    ) -> tuple[Int32, Float64, Float64]:
        """Cells, records and weights of the sample as this sweep completes it."""
        if not len(data.patterns):
            return data.cells, data.counts, data.weights
        imputed = self.impute(stream, state, data)
        return (
            np.concatenate((data.cells, imputed)),
            np.append(data.counts, np.ones(len(imputed))),
            np.append(data.weights, np.repeat(data.pattern_weights, data.pattern_counts)),
        )

    def cell_probabilities(
        self, stream: Stream, state: SuperpopulationState, data: SuperpopulationData, cells: Int32
    ) -> Float64:
        """N pi (1 - p) / (N - n) of each cell, (n,), pi and p from their posterior given f.

        -1 sums over a key: the rates of the cells that have records, and the mean rate of an empty
        cell times the number of those. They add up to 1 only on average.
        """
        law = self._law(state.position)
        rates = np.empty(len(cells))
        known, records, weights = united(*self._sample(stream, state, data), data)
        complete = (cells >= 0).all(axis=1)
        f, share = look_up(known, records, weights, cells[complete], data)
        rates[complete] = drawn_rates(stream, law, data, cells[complete], f, share)
        rates[~complete] = drawn_sums(stream, law, data, known, records, weights, cells[~complete])
        return rates / max(data.population_size - data.n_records, 1.0)

    def predictive_probabilities(
        self, stream: Stream, state: SuperpopulationState, data: SuperpopulationData, cells: Int32
    ) -> Float64:
        """Mean of the rates given f and the hyperparameters, over that of their sum, (n,)."""
        law = self._law(state.position)
        means, each, total = self._means(law, data)
        return sums(data.cells, means, each, cells, data) / total

    def _means(self, law: Law, data: SuperpopulationData) -> tuple[Float64, float, float]:
        """Mean rates of the cells with records, of a combination without, and of all together."""
        found = integrals(law, data, data.share, data.pair_counts, data.pair_rates)
        means = found[data.pair, 2] / data.share
        empty = empty_cell(law, data, data.share).others
        total = float(means.sum()) + empty * (data.n_cells - len(data.counts))
        return means, empty * data.density(len(data.counts)), total

    def integrated_risk(
        self,
        stream: Stream,
        state: SuperpopulationState,
        data: SuperpopulationData,
        cells: Int32,
        counts: Float64,
    ) -> tuple[Float64, Float64]:
        """P(F = f | f) and E(1/F | f) given the hyperparameters, with pi and p integrated out.

        Patterns with -1 are sums of cells, for which there is no such integral: theirs are the
        risks at the drawn rates of `cell_probabilities`.
        """
        law = self._law(state.position)
        r1, r2 = np.empty(len(cells)), np.empty(len(cells))
        complete = (cells >= 0).all(axis=1)
        known, records, weights = united(*self._sample(stream, state, data), data)
        _, rates = look_up(known, records, weights, cells[complete], data)
        near = np.round(np.log(rates), 12) if self.has_cell_rates else np.zeros(len(rates))
        # Pairs as complex numbers, which are sorted several times faster than rows.
        pairs, first, where = np.unique(
            counts[complete] + 1j * near, return_index=True, return_inverse=True
        )
        none, inverse = np.empty(len(pairs)), np.empty(len(pairs))
        kernels.risks(
            law.alpha,
            law.size,
            data.odds(law, 1.0),
            np.ascontiguousarray(pairs.real),
            law.shapes(rates[first]),
            none,
            inverse,
        )
        r1[complete], r2[complete] = none[where.ravel()], inverse[where.ravel()]
        if not complete.all():
            p = self.cell_probabilities(stream, state, data, cells[~complete])
            alone, shared = np.empty(len(p)), np.empty(len(p))
            unobserved = np.full(len(p), float(data.population_size - data.n_records))
            cell_risk(unobserved, p, counts[~complete], True, alone, shared)
            r1[~complete], r2[~complete] = alone, shared
        return r1, r2

    def empty_rest(
        self, state: SuperpopulationState, data: SuperpopulationData, margins: Int32, cells: Int32
    ) -> Float64:
        """Probability that the empty cells of margins beside given cells have no units, (n,).

        Each of them is so by itself, given the hyperparameters: the chance of one to the power of
        their number. A combination without records is a cell with the chance of that.
        """
        law = self._law(state.position)
        weights, scales = empty_parts(law, data, 1.0)
        none = float(weights @ (1.0 + scales) ** -law.alpha)
        none = 1.0 - data.density(len(data.counts)) * (1.0 - none)
        completions = data.combinations.completions
        chances: Float64 = none ** (completions(margins) - completions(cells))
        return chances

    # --- records ------------------------------------------------------------------------------

    def impute(
        self, stream: Stream, state: SuperpopulationState, data: SuperpopulationData
    ) -> Int32:
        """Draw the missing keys, each record for itself, by the mean of N pi p of every cell."""
        law = self._law(state.position)
        found = integrals(law, data, data.share, data.pair_counts, data.pair_rates)
        empty = empty_cell(law, data, data.share)
        each = empty.sampled * data.density(len(data.counts))
        return complete_records(generator_of(stream, 1), data, found[data.pair, 1], each)

    def simulate(
        self, stream: Stream, state: SuperpopulationState, data: SuperpopulationData, n_records: int
    ) -> Int32:
        """Draw unobserved individuals, (n_records, n_keys); those of one cell share its rate."""
        law = self._law(state.position)
        drawn = drawn_rates(stream, law, data, data.cells, data.counts, data.pair_rates[data.pair])
        total = self._means(law, data)[2]
        return simulate_records(generator_of(stream, 2), law, data, drawn, total, n_records)

    # --- words --------------------------------------------------------------------------------

    def cost(self, data: SuperpopulationData) -> tuple[float, float]:
        """Nanoseconds, roughly, of a sweep and of one cell probability.

        Sweeps are nearly independent of each other, so each is worth a look: a sweep counts as no
        less than what makes the schedule look at every one.
        """
        each = 1_000.0 * len(data.times) + 200_000.0
        return max(4.0 * each, 4_500.0 * (len(data.counts) + len(data.patterns))), 1_500.0

    def simulation_cost(self, data: SuperpopulationData, n_records: int, n_keys: int) -> float:
        """Work of `simulate`."""
        return 3_000.0 * len(data.counts) + 1_000.0 * n_records * len(data.combinations.levels)

    def facts(self, data: SuperpopulationData) -> Facts:
        """Cells, sampling rates, and the prior of the hyperparameters."""
        rates = np.minimum(data.counts / data.weights, HIGHEST_RATE)
        warnings = []
        if data.n_certain:
            warnings.append(
                f"The weights of {data.n_certain:,} cells add up to no more than their records: "
                "these are taken to hold nearly all their units of the population."
            )
        return SuperpopulationFacts(
            cells=int(data.n_cells),
            occupied=len(data.counts),
            empty=int(data.n_cells) - len(data.counts),
            sampling_rate_lowest=float(rates.min(initial=1.0)),
            sampling_rate_highest=float(rates.max(initial=0.0)),
            sampling_rates_of_empty_cells=tuple(data.points if self.has_cell_rates else ()),
            hyperparameters=self._parameters(data).as_facts(),
            warnings=tuple(warnings),
        )


@dataclass(frozen=True, kw_only=True)
class Superpopulation1(_Superpopulation):
    """Poisson-gamma-beta model without cells that cannot be sampled (Polettini and Stander, I).

    With common rates all cells with the same count have the same risk, and weights are not used
    (eq. 12). With rates of the cells each has a_k and b_k of its own (eq. 4 and 11): a q_k and
    a (1 - q_k), q_k being its rate by the design. This is Model II with gamma = 1.

    Parameters
    ----------
    alpha
        Shape of the gamma law of the cells' sizes; drawn if None. The paper has 0.92. This, a, b
        and shape are from 0.001 to 10,000, spreads from 0.001 to 5: beyond, integrals take minutes
        and the risk stays the same.
    a, b
        Beta law of the cells' sampling rates; drawn if None. The paper has 0.86 and 80. With rates
        of the cells a is the size a_k + b_k of all of them, and there is no b.
    rates
        ``common``: one beta law for all cells; ``cell``: around each cell's rate by the design.
    n_cells
        K; by default the possible combinations of levels.
    alpha_spread
        Prior standard deviation of log alpha.
    shape, shape_spread
        Prior median of a (of a n / N with rates of the cells), and standard deviation of its
        logarithm.
    mean_spread
        Prior standard deviation of log(a / b), around logit(n / N); for common rates.

    Examples
    --------
    >>> from unikat.data.keys import Key
    >>> keys = [Key.of_size("SEX", 2), Key.of_size("AGE", 3)]
    >>> table = CellTable.from_codes([[0, 2], [1, 1], [0, 2]], keys, population_size=30)
    >>> model = Superpopulation1(alpha=0.92, a=0.86, b=8)
    >>> data = model.prepare(table)
    >>> where = Stream(1, 0, 1)
    >>> state = model.init(where, data)
    >>> r1, r2 = model.integrated_risk(where, state, data, table.cells, table.counts.astype(float))
    >>> r2.round(3).tolist()
    [0.153, 0.276]

    See Also
    --------
    Superpopulation2 : each cell around its own sampling rate.
    PopulationCount : what the model says of one cell.
    """

    name: ClassVar[str] = "superpopulation-1"
    a: float | None = None
    b: float | None = None
    rates: str = "common"
    mean_spread: float = 0.5

    @property
    def has_cell_rates(self) -> bool:
        """With rates of the cells."""
        return self.rates == "cell"

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_choice("rates", self.rates, ("common", "cell"))
        check_numbers(self, {"mean_spread": _SPREAD})
        self._check_given({"a": _SHAPE, "b": _SHAPE})
        if self.has_cell_rates and self.b is not None:
            raise SpecError(
                f"model option b is {self.b:g}, but with rates = 'cell' each cell has b_k = "
                "a (1 - q_k). Leave b out, or set rates = 'common'."
            )

    def _hyperparameters(self, share: float, per_cell: float) -> Hyperparameters:
        if self.has_cell_rates:
            return self._of_cell_rates(share, per_cell, 1.0, (1.0, 1.0))
        logit = math.log(share) - math.log1p(-share)
        return Hyperparameters(
            names=("alpha", "a", "b"),
            given=(self.alpha, self.a, self.b),
            centre=(math.log(min(per_cell, 1.0)), math.log(self.shape), logit),
            spread=(self.alpha_spread, self.shape_spread, self.mean_spread),
            offset=0.0,
            chance=None,
        )

    def _law(self, position: Float64) -> Law:
        if self.has_cell_rates:
            alpha, a = np.exp(position[:2]).tolist()
            return Law(alpha, a, 0.0, 1.0)
        alpha, a, b = np.exp(position).tolist()
        return Law(alpha, a + b, a, 1.0)

    def _by_name(self, position: Float64) -> dict[str, float]:
        if self.has_cell_rates:
            return dict(zip(("alpha", "a"), np.exp(position[:2]).tolist(), strict=True))
        return dict(zip(("alpha", "a", "b"), np.exp(position).tolist(), strict=True))


@dataclass(frozen=True, kw_only=True)
class Superpopulation2(_Superpopulation):
    """Poisson-gamma-beta model, beta laws around the design's rates (Polettini and Stander, II).

    Cells that cannot be sampled (p = 0) hold a share 1 - gamma of the population: K alpha is the
    rate of the gamma law of all cells, as in the paper.

    Parameters
    ----------
    alpha
        Shape of the gamma law of the cells' sizes; drawn if None. The paper has 0.1. This, a and
        shape are from 0.001 to 10,000, spreads from 0.001 to 5: beyond, integrals take minutes and
        the risk stays the same.
    a
        How near the sampling rate of a cell is to that of the design; drawn if None. The paper has
        80.
    gamma
        Chance that a cell can be sampled, from 1e-6 to 1; drawn if None. The paper has 0.7.
    n_cells
        K; by default the possible combinations of levels.
    alpha_spread
        Prior standard deviation of log alpha.
    shape, shape_spread
        Prior median of a n / N, and standard deviation of its logarithm.
    gamma_a, gamma_b
        Beta prior of gamma, each from 1e-6 to 1e6.

    Examples
    --------
    >>> Superpopulation2(alpha=0.1, a=80, gamma=0.7).uncertainty, Superpopulation2().uncertainty
    ('empirical-bayes', 'posterior')

    See Also
    --------
    Superpopulation1 : one law of the sampling rates for all cells.
    """

    name: ClassVar[str] = "superpopulation-2"
    has_cell_rates: ClassVar[bool] = True
    a: float | None = None
    gamma: float | None = None
    gamma_a: float = 1.0
    gamma_b: float = 1.0

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_numbers(self, {"gamma_a": PRIOR, "gamma_b": PRIOR})
        self._check_given({"a": _SHAPE, "gamma": (1e-6, 1.0)})

    def _hyperparameters(self, share: float, per_cell: float) -> Hyperparameters:
        return self._of_cell_rates(share, per_cell, self.gamma, (self.gamma_a, self.gamma_b))

    def _law(self, position: Float64) -> Law:
        alpha, a = np.exp(position[:2]).tolist()
        return Law(alpha, a, 0.0, 1.0 / (1.0 + math.exp(-float(position[2]))))

    def _by_name(self, position: Float64) -> dict[str, float]:
        law = self._law(position)
        return {"alpha": law.alpha, "a": law.size, "gamma": law.gamma}


def _sharpest(law: Law, data: SuperpopulationData) -> float:
    """Largest a b / (a + b) of any cell."""
    shapes = law.shapes(np.concatenate((data.pair_rates, data.points)))
    return float((shapes * (1.0 - shapes / law.size)).max())
