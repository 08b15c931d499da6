"""A model together with its own error: the one that `auto` selects, or that of households.

No model gives the cells their exact probabilities. Here the probability of cell c is

    exp(d) p_c g_c,    g_c ~ Gamma(1/k_c, 1/k_c),    k_c = k (N exp(d) p_c)^-0.15,

with p_c from the wrapped model. k_c is the overdispersion of cells around the model, k that of
cells with one expected individual of the population, and d the error of the model's general level.
Where units had unequal chances, p_c is the law of the records, and N p_c is replaced by the units
of the population expected in the cell, sum_h N_h p_c|h over the classes h of equal chances.
Every kept state has its own draw of (k, d), from their calibrated distribution
(`studies.calibrate`), and g_c is drawn from its posterior given the cell's records. Everything
else is the wrapped model's, the sampler above all: its error does not feed back into its
parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.companions import Companions
from unikat.data.table import CellTable
from unikat.kernels import overdispersion as kernels
from unikat.models.base import (
    AnyModel,
    ErrorLaw,
    Facts,
    GroupsLevels,
    Info,
    Model,
    OfHouseholds,
    PopulationLaw,
    Specified,
    Start,
    Stream,
    Uncertainty,
)
from unikat.models.groups import Groups
from unikat.rng import chain_key

OVERDISPERSION: Float64 = np.exp(np.linspace(math.log(0.005), math.log(2.0), 24))
"""Values of k among which it is drawn."""
HOUSEHOLD_OVERDISPERSION: Float64 = np.concatenate(
    [OVERDISPERSION, 2.0 * (OVERDISPERSION[1] / OVERDISPERSION[0]) ** np.arange(1, 13)]
)
"""Of households, which differ more from their model: the same, and on in equal steps to 46."""
SHIFTS: Float64 = np.round(
    np.concatenate(
        [
            -1.2 + 0.15 * np.arange(5, dtype=np.float64),
            0.05 * np.arange(-8, 9, dtype=np.float64),
            0.5 + 0.15 * np.arange(5, dtype=np.float64),
        ]
    ),
    2,
).astype(np.float64)
"""Values of d among which it is drawn, closer together around 0."""


def values_of_k(table: CellTable) -> Float64:
    """Return the values of k that are tried, ascending: of the units of a table."""
    return OVERDISPERSION if table.layout is None else HOUSEHOLD_OVERDISPERSION


class CalibratedData(NamedTuple):
    """The wrapped model's data, and the sizes of sample and population."""

    wrapped: Any
    n_records: float
    population_size: float


@dataclass(frozen=True, kw_only=True)
class CandidateFacts:
    """A candidate model, fitted to half of the records and to all; None is not known."""

    model: str
    chosen: bool
    score: float | None
    """Mean held-out log score, in nats per record."""
    impossible: int
    """Held-out records to which it gives probability zero."""
    behind: float | None
    """Its score minus the best one."""
    behind_error: float | None
    uniques: float | None
    """Sample uniques in data simulated from it, relative to the file's, minus 1."""
    choosable: bool
    """Its model error is calibrated, so that it can be selected."""
    uncertainty: Uncertainty
    tau1: float | None
    tau1_median: float
    tau1_lower: float
    tau1_upper: float
    tau2: float | None
    converged: bool


@dataclass(frozen=True, kw_only=True)
class RefusedFacts:
    """A candidate that could not be fitted."""

    model: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ErrorFacts:
    """The calibrated distribution of a part of the model error."""

    what: Literal["overdispersion", "level"]
    lower: float
    median: float
    upper: float
    at_end: bool = False
    """The median is the last of the values that are tried, so that the truth may lie beyond."""


OutsideOf = Literal["keys", "records", "sampling_fraction", "share_of_uniques", "alike"]


@dataclass(frozen=True, kw_only=True)
class OutsideFacts:
    """A number of the file that the samples of the calibration did not have."""

    what: OutsideOf
    """Of a file of households: its key variables and its households. `alike`: how much members of a
    household are alike, summed over the keys; a key that all members share adds 1."""
    value: float
    lowest: float
    highest: float
    """Of the samples that were learned from."""


@dataclass(frozen=True, kw_only=True)
class TauFacts:
    """τ1 of the selected model without model error."""

    mean: float
    median: float
    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True)
class SelectionFacts(Facts):
    """How `auto` selected a model; None is left out of `result.json`."""

    chosen: str | None = None
    """None, as the next, where the user named the model."""
    candidates: tuple[CandidateFacts, ...] | None = None
    not_fitted: tuple[RefusedFacts, ...] | None = None
    model_error: tuple[ErrorFacts, ...] | None = None
    """None, as the next, if no model error was asked for."""
    before: TauFacts | None = None
    outside: tuple[OutsideFacts, ...] | None = None
    """None if the calibration covers the size of the file."""


@dataclass(frozen=True, kw_only=True)
class CalibratedFacts(Facts):
    """Facts of the selection and of the selected model, side by side."""

    selection: SelectionFacts
    fit: Facts

    def named(self) -> dict[str, Any]:
        """Both by name."""
        return {**self.selection.named(), **self.fit.named()}


@dataclass(frozen=True, kw_only=True)
class Calibrated(Model[Any, CalibratedData]):
    """A model whose cells' probabilities carry its error.

    Parameters
    ----------
    wrapped
        The model that is fitted. It sees keys: it is none that `uses_weights` or integrates risks.
    weights
        Probabilities of all pairs of k and d, in the order of `values_of_k` and, for each of
        these, of `SHIFTS`; in any unit. Empty if no error is put on the wrapped model.
    asked
        The model that the user named; its options are recorded with the run.
    told
        Facts of the selection, added to the facts of the wrapped model's fit.
    start
        Where the wrapped model's chains stood after its fit to all records for the evidence; a fit
        to the same records goes on from there.
    """

    name: ClassVar[str] = "auto"
    wrapped: AnyModel
    weights: tuple[float, ...]
    asked: Specified
    told: SelectionFacts | None = None
    start: Start | None = field(default=None, repr=False, compare=False)

    @property
    def uncertainty(self) -> Uncertainty:
        """That of the wrapped model, if there is no error."""
        return "calibrated" if self.weights else self.wrapped.uncertainty

    @property
    def population(self) -> PopulationLaw:
        """That of the wrapped model."""
        return self.wrapped.population

    @property
    def as_specified(self) -> Specified:
        """The model that the user named: a run of it selects the same model."""
        return self.asked

    def check_keys(self, names: Sequence[str]) -> None:
        """Refuse keys as the wrapped model does."""
        self.wrapped.check_keys(names)

    def compile(self, zeros: bool = False) -> None:
        """Compile the kernels (or load them from the cache)."""
        self.wrapped.compile(zeros)
        ones = np.ones(1)
        kernels.draw_pair(chain_key(0, 0), 0, ones)
        kernels.draw_rates(chain_key(0, 0), 0, ones, ones, ones, ones, 1.0, 1.0, np.empty(1))

    def prepare(self, table: CellTable) -> CalibratedData:
        """Lay the table out for the wrapped model."""
        return CalibratedData(
            self.wrapped.prepare(table), float(table.n_records), float(table.n_units)
        )

    def init(self, stream: Stream, data: CalibratedData) -> Any:
        """Start as the wrapped model does."""
        return self.wrapped.init(stream, data.wrapped)

    def state_fits(self, state: Any, data: CalibratedData, start: Any) -> bool:
        """Whether the wrapped model can go on from a state of a file."""
        return self.wrapped.state_fits(state, data.wrapped, start)

    def state_bytes(self, data: CalibratedData) -> float:
        """Memory that a sweep of the wrapped model needs."""
        return self.wrapped.state_bytes(data.wrapped)

    def step(
        self, stream: Stream, state: Any, data: CalibratedData, n_threads: int
    ) -> tuple[Any, Info]:
        """Make a sweep of the wrapped model."""
        return self.wrapped.step(stream, state, data.wrapped, n_threads)

    def cell_probabilities(
        self, stream: Stream, state: Any, data: CalibratedData, cells: Int32
    ) -> Float64:
        """Probability of each cell under the wrapped model, (n,): without its error."""
        return self.wrapped.cell_probabilities(stream, state, data.wrapped, cells)

    def grouped_probabilities(
        self, stream: Stream, state: Any, data: CalibratedData, groups: Groups, cells: Int32
    ) -> Float64:
        """Probability of each cell of groups under the wrapped model, (n,)."""
        assert isinstance(self.wrapped, GroupsLevels)
        return self.wrapped.grouped_probabilities(stream, state, data.wrapped, groups, cells)

    def without_companions(
        self,
        stream: Stream,
        state: Any,
        data: CalibratedData,
        cells: Int32,
        p: Float64,
        companions: Companions,
        groups: Groups | None = None,
    ) -> Float64:
        """Probabilities of cells without their companions under the wrapped model, (n,)."""
        return self.wrapped.without_companions(
            stream, state, data.wrapped, cells, p, companions, groups
        )

    def risk_probabilities(
        self,
        stream: Stream,
        data: CalibratedData,
        p: Float64,
        counts: Float64,
        looked_at: Float64 | None = None,
        population: Float64 | None = None,
    ) -> Float64:
        """Probabilities with the model's error, (n,), for the risk measures.

        Where a cell has no records the mean over g_c is taken.
        """
        if not self.weights:
            return p
        key = chain_key(stream.seed, stream.chain)
        index, shift = divmod(self._pair(stream), len(SHIFTS))
        out = np.empty(len(p))
        kernels.draw_rates(
            key,
            stream.sweep,
            p,
            counts,
            np.full(len(p), data.n_records) if looked_at is None else looked_at,
            np.full(len(p), data.population_size) if population is None else population,
            HOUSEHOLD_OVERDISPERSION[index],
            math.exp(SHIFTS[shift]),
            out,
        )
        return out

    def error_law(
        self,
        stream: Stream,
        data: CalibratedData,
        p: Float64,
        counts: Float64,
        population: Float64 | None,
    ) -> ErrorLaw | None:
        """Return the law of g_c given the cell's records: Gamma(1/k_c + f_c, rate 1/k_c + n q_c).

        It depends on each cell alone, and what it says of the risk falls as p grows, as sets of
        cells that are compared have to.
        """
        if not self.weights:
            return None
        index, shift = divmod(self._pair(stream), len(SHIFTS))
        factor = math.exp(SHIFTS[shift])
        size = data.population_size if population is None else population
        expected = np.maximum(size * factor * p, 1e-30)
        k = float(HOUSEHOLD_OVERDISPERSION[index])
        shape = 1.0 / np.minimum(k * expected**-kernels.FALL, kernels.largest(k))
        return ErrorLaw(shape + counts, factor / (shape + data.n_records * factor * p))

    def _pair(self, stream: Stream) -> int:
        """Number of the pair (k, d) in `weights` that a sweep has."""
        key = chain_key(stream.seed, stream.chain)
        return int(kernels.draw_pair(key, stream.sweep, np.cumsum(self.weights)))

    def pairs(self, seed: int, n_chains: int, sweeps: Sequence[int]) -> Int64:
        """Number of the pair (k, d) in `weights` that each draw had, (n_chains, n_sweeps)."""
        cumulative = np.cumsum(self.weights)
        found = np.empty((n_chains, len(sweeps)), np.int64)
        for chain in range(n_chains):
            key = chain_key(seed, chain)
            for place, sweep in enumerate(sweeps):
                found[chain, place] = kernels.draw_pair(key, sweep, cumulative)
        return found

    def predictive_probabilities(
        self, stream: Stream, state: Any, data: CalibratedData, cells: Int32
    ) -> Float64:
        """Those of the wrapped model."""
        return self.wrapped.predictive_probabilities(stream, state, data.wrapped, cells)

    def impute(self, stream: Stream, state: Any, data: CalibratedData) -> Int32:
        """Impute as the wrapped model does."""
        return self.wrapped.impute(stream, state, data.wrapped)

    def simulate(self, stream: Stream, state: Any, data: CalibratedData, n_records: int) -> Int32:
        """Draw new individuals from the wrapped model."""
        return self.wrapped.simulate(stream, state, data.wrapped, n_records)

    def independent_probabilities(self, state: Any, data: CalibratedData, cells: Int32) -> Float64:
        """Those of the wrapped model, without its error."""
        assert isinstance(self.wrapped, OfHouseholds)
        return self.wrapped.independent_probabilities(state, data.wrapped, cells)

    def cost(self, data: CalibratedData) -> tuple[float, float]:
        """Nanoseconds, roughly, of a sweep and of one cell probability with its error."""
        sweep, cell = self.wrapped.cost(data.wrapped)
        return sweep, cell + 150.0

    def simulation_cost(self, data: CalibratedData, n_records: int, n_keys: int) -> float:
        """Work of `simulate`, that of the wrapped model."""
        return self.wrapped.simulation_cost(data.wrapped, n_records, n_keys)

    def facts(self, data: CalibratedData) -> Facts:
        """Facts of the selection and of the wrapped model's fit."""
        found = self.wrapped.facts(data.wrapped)
        if self.told is None:
            return found
        warnings = (*self.told.warnings, *found.warnings)
        return CalibratedFacts(selection=self.told, fit=found, warnings=warnings)
