"""Dirichlet-multinomial model of all cells of the table.

    p                ~  Dirichlet(A q)              the probabilities of the possible cells
    F | p            ~  Multinomial(N, p)
    f | F            =  a simple random sample of n units
    F - f | f        ~  Dirichlet-multinomial(N - n, A q + f)
    w = n / (n + A)  ~  Uniform(0, 1)               unless A is given

Polettini and Stander (section 10) name it, with "full use of the structure of the contingency
table", and report nothing of it. Here the structure is q, the fit of a log-linear model: the mean
of p_c given f is w f_c / n + (1 - w) q_c. A small A leaves the cells to their own records, a large
one to the log-linear model. q counts as known.

One sweep: missing keys given p; A given the counts, with p integrated out; p given both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import special

from unikat._typing import Float64, Int32, Int64
from unikat.data.table import CellTable
from unikat.errors import SpecError, shown
from unikat.kernels.random import PURPOSE_IMPUTE
from unikat.models.base import Facts, Info, Model, PopulationLaw, Stream, Uncertainty
from unikat.models.loglinear.grid import Grid, list_cells
from unikat.models.loglinear.maximum_likelihood import fitted_shares
from unikat.models.loglinear.terms import parse_terms
from unikat.models.options import check_numbers
from unikat.models.records import compile_on_toy_table, generator_of
from unikat.models.slice_sampling import slice_draw
from unikat.models.state_checks import positive
from unikat.rng import chain_key

_CONCENTRATION = (1e-3, 1e9)
"""Of a given A: beyond, the cells' own records or the log-linear model alone are left."""
_BOUND = 40.0
"""Of log A - log n where A is drawn: its prior leaves e^-40 beyond."""
_LEAST = 1e-300
"""Least gamma variate: of a tiny shape it would be 0."""


@dataclass(frozen=True, kw_only=True)
class DirichletFacts(Facts):
    """Terms of the base measure, and cells."""

    terms: str
    cells: int


class DirichletData(NamedTuple):
    """The listed cells, what was seen in them, and the base measure."""

    grid: Grid
    base: Float64
    """(n_cells,): q."""
    known: Int64
    """(n_cells,): complete records of each cell."""
    patterns: Int32
    """(n_patterns, n_keys): patterns with a missing key."""
    times: Int64
    """(n_patterns,): records of each."""
    n_records: int


class DirichletState(NamedTuple):
    """State of the sampler."""

    counts: Int64
    """(n_cells,): records of each cell, those with missing keys included."""
    concentration: float
    """A."""
    probabilities: Float64
    """(n_cells,): p."""


@dataclass(frozen=True, kw_only=True)
class DirichletMultinomial(Model[DirichletState, DirichletData]):
    """Dirichlet distribution of the cells' probabilities around a log-linear fit.

    Parameters
    ----------
    terms
        Of the log-linear model that gives the prior mean of the probabilities: as in
        :class:`unikat.models.loglinear.conditional.LogLinear`, but not ``select``; or ``none``,
        all possible cells alike. Cells to which the fit gives no probability have none.
    concentration
        A, from 0.001 to 1e9: so many records the prior counts for; drawn if None.

    Examples
    --------
    >>> from unikat.data.keys import Key
    >>> keys = [Key.of_size("SEX", 2), Key.of_size("AGE", 3)]
    >>> table = CellTable.from_codes([[0, 2], [1, 1], [0, 2]], keys, population_size=30)
    >>> model = DirichletMultinomial(terms="none", concentration=6)
    >>> data = model.prepare(table)
    >>> where = Stream(1, 0, 1)
    >>> state = model.init(where, data)
    >>> model.predictive_probabilities(where, state, data, table.cells).round(3).tolist()
    [0.333, 0.222]

    See Also
    --------
    Superpopulation1 : all cells alike, with sampling rates of their own.
    MixedEffects : effects of the cells around log-linear terms that are drawn too.
    """

    name: ClassVar[str] = "dirichlet-multinomial"
    population: ClassVar[PopulationLaw] = "multinomial"
    uncertainty: ClassVar[Uncertainty] = "posterior"
    terms: str = "independence"
    concentration: float | None = None

    def __post_init__(self) -> None:
        """Check the options; the terms are checked where the keys are known."""
        if not isinstance(self.terms, str) or not self.terms.strip() or self.terms == "select":
            raise SpecError(
                f"model option terms is {shown(self.terms)}; write none, independence, two-way, "
                "three-way, or terms such as 'A + B:C'."
            )
        if self.concentration is not None:
            check_numbers(self, {"concentration": _CONCENTRATION})

    def check_keys(self, names: Sequence[str]) -> None:
        """Refuse terms of keys that there are not."""
        if self.terms != "none":
            parse_terms(self.terms, names)

    def prepare(self, table: CellTable) -> DirichletData:
        """List the possible cells, with the base measure and the records of each."""
        grid = list_cells(table, self.name)
        base = fitted_shares(table, grid.cells, self.terms)
        grid, base = grid.without(base <= 0.0), base[base > 0.0]
        return DirichletData(
            grid=grid,
            base=base / base.sum(),
            known=grid.records(table),
            patterns=np.ascontiguousarray(table.cells[table.incomplete]),
            times=table.counts[table.incomplete],
            n_records=table.n_records,
        )

    def compile(self, zeros: bool = False) -> None:
        """Compile the kernels, or load them from the cache; the terms do not matter."""
        compile_on_toy_table(DirichletMultinomial(), zeros)

    def init(self, stream: Stream, data: DirichletData) -> DirichletState:
        """Start from the base measure, with A from a hundredth to a hundred times n."""
        generator = generator_of(stream, 1)
        concentration = data.n_records * 10.0 ** generator.uniform(-2.0, 2.0)
        counts = self._completed(stream, data, data.base)
        return self._drawn(generator, concentration, counts, data)

    def step(
        self, stream: Stream, state: DirichletState, data: DirichletData, n_threads: int
    ) -> tuple[DirichletState, Info]:
        """Make one sweep, on one thread."""
        counts = self._completed(stream, data, state.probabilities)
        state = self._drawn(generator_of(stream, 1), state.concentration, counts, data)
        return state, Info({"concentration": state.concentration})

    def _completed(self, stream: Stream, data: DirichletData, mass: Float64) -> Int64:
        """Records of each cell with the missing keys drawn, (n_cells,)."""
        key = chain_key(stream.seed, stream.chain)
        grid, known, patterns, times = data.grid, data.known, data.patterns, data.times
        return grid.complete(key, stream.sweep, known, patterns, times, mass)

    def _drawn(
        self,
        generator: np.random.Generator,
        concentration: float,
        counts: Int64,
        data: DirichletData,
    ) -> DirichletState:
        """Draw A given the counts, then p given both."""
        if self.concentration is not None:
            concentration = float(self.concentration)
        else:
            seen = counts > 0
            f, q, n = counts[seen].astype(np.float64), data.base[seen], float(data.n_records)

            def log_density(position: float) -> float:
                return log_posterior(position, f, q, n)

            position = math.log(concentration / n)
            concentration = n * math.exp(slice_draw(generator, position, log_density))
        gammas = generator.standard_gamma(concentration * data.base + counts)
        gammas = np.maximum(gammas, _LEAST)
        return DirichletState(counts, concentration, gammas / gammas.sum())

    def state_fits(self, state: DirichletState, data: DirichletData, start: DirichletState) -> bool:
        """Whether a state of a file has shapes and values that can be read."""
        return (
            state.counts.shape == state.probabilities.shape == data.base.shape
            and bool((state.counts >= data.known).all())
            and int(state.counts.sum()) == data.n_records
            and positive(np.asarray(state.concentration))
            and positive(state.probabilities)
        )

    def cell_probabilities(
        self, stream: Stream, state: DirichletState, data: DirichletData, cells: Int32
    ) -> Float64:
        """Probability of each cell, (n,); -1 sums over a key's levels."""
        return data.grid.sums(state.probabilities, cells)

    def predictive_probabilities(
        self, stream: Stream, state: DirichletState, data: DirichletData, cells: Int32
    ) -> Float64:
        """Mean of p given the counts and A, (n,)."""
        mass = state.concentration * data.base + state.counts
        return data.grid.sums(mass / (state.concentration + data.n_records), cells)

    def impute(self, stream: Stream, state: DirichletState, data: DirichletData) -> Int32:
        """Draw the missing keys of the incomplete records given p."""
        key, p = chain_key(stream.seed, stream.chain), state.probabilities
        rows = data.grid.draw(key, stream.sweep, PURPOSE_IMPUTE, data.patterns, data.times, p)
        return data.grid.cells[rows]

    def simulate(
        self, stream: Stream, state: DirichletState, data: DirichletData, n_records: int
    ) -> Int32:
        """Draw the keys of new individuals given p, (n_records, n_keys)."""
        key = chain_key(stream.seed, stream.chain)
        return data.grid.draw_new(key, stream.sweep, state.probabilities, n_records)

    def cost(self, data: DirichletData) -> tuple[float, float]:
        """Nanoseconds, roughly, of a sweep and of one cell probability."""
        occupied = min(len(data.base), data.n_records)
        return 100.0 * len(data.base) + 2_000.0 * occupied + 100.0 * float(data.times.sum()), 100.0

    def facts(self, data: DirichletData) -> Facts:
        """Terms of the base measure, and cells."""
        warnings = []
        if self.terms not in ("none", "independence"):
            warnings.append(
                "The prior mean of the cells is fitted to the same records, and with interactions "
                "it follows them closely: in trials τ1 was too low. Use terms='independence'."
            )
        return DirichletFacts(terms=self.terms, cells=len(data.base), warnings=tuple(warnings))


def log_posterior(position: float, counts: Float64, base: Float64, n: float) -> float:
    """Log density of log(A / n) given the counts (n_seen,) of cells with base (n_seen,).

    P(f | A) = Gamma(A) / Gamma(A + n) prod Gamma(A q + f) / Gamma(A q), here by beta functions,
    which keep their digits where A is large.
    """
    if abs(position) > _BOUND:
        return -math.inf
    a = n * math.exp(position)
    ratios = special.gammaln(counts) - special.betaln(a * base, counts)
    prior = -position - 2.0 * math.log1p(math.exp(-position))
    return float(ratios.sum() + special.betaln(a, n)) + prior
