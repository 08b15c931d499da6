"""Bayesian mixed-effects log-linear model of all cells of the table.

    f_c | lambda    ~  Poisson(pi lambda_c),       every possible cell c, pi = n / N
    F_c - f_c       ~  Poisson((1 - pi) lambda_c)
    log lambda_c    =  w_c' beta + phi_c
    beta            ~  N(0, effect_variance)       each
    random="none"     phi_c = 0
    random="normal"   phi_c ~ N(0, sigma^2)
    random="dp"       phi_c ~ G,  G ~ DP(m, N(alpha, sigma^2)),  m ~ Gamma(mass_shape, mass_rate)
    random="gamma-dp" the same with e^phi ~ Gamma(1/sigma^2, 1/sigma^2) for N(alpha, sigma^2)
    sigma^2         ~  inverse gamma(variance_shape, variance_scale)
    alpha           =  0 (mean="zero"), or ~ N(0, mean_variance) (mean="unknown")

Carota, Filippone, Leombruni & Polettini (2015), eq. (3) for the log-linear model, (6) to (9) for
the Dirichlet process, section 4 for the priors. Their likelihood, eq. (10), is misprinted: pi
stands in the exponent there, while the mean of f_c is pi lambda_c, as in their section 2.

Fixed effects are treatment contrasts from the first level of each key, of keys alone or of their
pairs as well. There is an intercept, except under "dp", whose values take its place; those of
"gamma-dp" have mean 1 as rates. With `empirical` the whole of w_c' beta is held at its maximum
likelihood estimate. "gamma-dp" with it is a Dirichlet process in the place of the gamma law of
Elamir and Skinner (2006), which paper 3 suggests in its section 2.

One sweep: missing keys given lambda; then

- "dp": cells move between clusters (Neal 2000, algorithm 8), clusters split and merge (Dahl 2005),
  their values; then values and beta together (SMMALA), each beta given the others, exactly;
  alpha, sigma^2, m (Escobar & West 1995);
- "gamma-dp": the same without the common move of values and beta; then the intercept against all
  values, exactly; sigma^2 by a slice sampler;
- "normal": phi, beta as above, then beta with phi + W beta held (the two parametrisations are
  interwoven), log sigma with phi / sigma held, and sigma^2 given phi;
- "none": beta as above.

The paper has SMMALA, algorithm 5, Gibbs steps for alpha and sigma^2 and Metropolis for log m.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from unikat._typing import Float64, Int32, Int64, UInt32
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.kernels import fixed_effects
from unikat.kernels import mixed_effects as kernels
from unikat.kernels.base_measure import Base
from unikat.kernels.fixed_effects import Cells, Prior
from unikat.kernels.partition import split_merge
from unikat.kernels.random import PURPOSE_IMPUTE
from unikat.models.base import Facts, Info, Model, PopulationLaw, Stream, Uncertainty
from unikat.models.loglinear.grid import Design, Grid, design_of, list_cells
from unikat.models.loglinear.maximum_likelihood import fitted_shares
from unikat.models.options import check_bool, check_choice, check_numbers
from unikat.models.records import compile_on_toy_table, generator_at
from unikat.models.slice_sampling import slice_draw
from unikat.models.state_checks import positive, within
from unikat.rng import chain_key

WARM_UP = 150
"""Sweeps inside `init`, in which the step of the Langevin move is found."""
LEAST_RECORDS = 5.0
"""Fixed effects and clusters with fewer records are not drawn together with the others. Their
posterior is skewed and wide, so that one step for all would be short; one by one costs nothing."""
_ACCEPTANCE = 0.7
"""Acceptance that it is brought to."""
_TRIES = 3
"""Splits or merges proposed in a sweep."""
_RANGES = {
    "effect_variance": (1e-3, 1e4),
    "mean_variance": (1e-3, 1e4),
    "variance_shape": (0.1, 1e4),
    "variance_scale": (1e-3, 100.0),
    "mass_shape": (1e-3, 100.0),
    "mass_rate": (0.1, 1e4),
}
"""Wider priors let exp overflow, or make each cell a cluster of its own, when a sweep costs by the
square of the cells; smaller variances cannot be distinguished from no effects."""
_BOUND = 60.0
"""Of the logarithm of sigma^2 in the slice sampler."""
_NO_VALUES, _NO_CELLS = np.empty(0), np.empty(0, np.int32)
_START_CLUSTERS = (1, 12, 3, 30)
"""Clusters at the start of a chain, by its number."""


@dataclass(frozen=True, kw_only=True)
class MixedEffectsFacts(Facts):
    """Cells that are listed, and fixed effects."""

    cells: int
    effects: int


class MixedEffectsData(NamedTuple):
    """The listed cells, what was seen in them, and the design."""

    grid: Grid
    design: Design
    offset: Float64
    """(n_cells,): what is not drawn of log(pi lambda); log pi, or all fixed effects at once."""
    known: Int64
    """(n_cells,): complete records of each cell."""
    patterns: Int32
    """(n_patterns, n_keys): patterns with a missing key."""
    times: Int64
    """(n_patterns,): records of each."""
    n_records: int
    """n; p_c = lambda_c / N = pi lambda_c / n."""


class MixedEffectsState(NamedTuple):
    """State of the sampler; what the options leave out is empty."""

    counts: Int64
    """(n_cells,): records of each cell, those with missing keys included."""
    beta: Float64
    """(n_columns,): fixed effects."""
    effects: Float64
    """(n_cells,): phi under "normal"."""
    cluster: Int32
    """(n_cells,): place of each cell's phi in `values` where these are from a process."""
    values: Float64
    """(n_clusters,): phi of each cluster."""
    variance: float
    """sigma^2."""
    mean: float
    """alpha."""
    mass: float
    """m."""
    step_size: float
    """Step of the Langevin move, found in `init`."""
    log_mean: Float64
    """(n_cells,): log(pi lambda), given all the above."""


@dataclass(frozen=True, kw_only=True)
class MixedEffects(Model[MixedEffectsState, MixedEffectsData]):
    """Log-linear model with random effects, normal or from a Dirichlet process.

    Parameters
    ----------
    random
        Law of the random effects: ``"none"``, ``"normal"``, or ``"dp"``, which leaves it open
        around a normal law, or ``"gamma-dp"``, around a gamma law of the rates.
    mean
        Mean of the base measure under "dp": ``"zero"`` or ``"unknown"``.
    fixed
        Fixed effects: ``"none"``, of the keys (``"independence"``), or of their pairs as well
        (``"two-way"``).
    empirical
        Hold the fixed effects at their maximum likelihood estimate. Cells that it gives no
        probability, since a margin of theirs has no records, then have none.
    effect_variance, mean_variance
        Prior variances of the fixed effects and of alpha, each from 0.001 to 10,000: wider priors
        let exp overflow, and smaller effects cannot be told from none.
    variance_shape, variance_scale
        Inverse gamma prior of sigma^2 (under "gamma-dp" that of the rates), from 0.1 to 10,000 and
        from 0.001 to 100.
    mass_shape, mass_rate
        Gamma prior of m, from 0.001 to 100 and from 0.1 to 10,000: with a larger mean every cell is
        a cluster of its own.

    Examples
    --------
    >>> from unikat.data.keys import Key
    >>> keys = [Key.of_size("SEX", 2), Key.of_size("AGE", 3)]
    >>> table = CellTable.from_codes([[0, 2], [1, 1], [0, 2]], keys, population_size=30)
    >>> model = MixedEffects(random="normal")
    >>> data = model.prepare(table)
    >>> state, info = model.step(Stream(1, 0, 1), model.init(Stream(1, 0, 0), data), data, 1)
    >>> model.cell_probabilities(Stream(1, 0, 1), state, data, table.cells).shape
    (2,)
    """

    name: ClassVar[str] = "mixed-effects"
    population: ClassVar[PopulationLaw] = "poisson"
    uncertainty: ClassVar[Uncertainty] = "posterior"
    random: str = "dp"
    mean: str = "zero"
    fixed: str = "independence"
    empirical: bool = False
    effect_variance: float = 10.0
    mean_variance: float = 10.0
    variance_shape: float = 1.0
    variance_scale: float = 1.0
    mass_shape: float = 1.0
    mass_rate: float = 1.0

    def __post_init__(self) -> None:
        """Check the options."""
        check_choice("random", self.random, ("none", "normal", "dp", "gamma-dp"))
        check_choice("mean", self.mean, ("zero", "unknown"))
        check_choice("fixed", self.fixed, ("none", "independence", "two-way"))
        check_bool(self, "empirical")
        check_numbers(self, _RANGES)
        if self.mean == "unknown" and self.random != "dp":
            raise SpecError(
                f"model option mean is 'unknown' while random is {self.random!r}; a mean is "
                "estimated under random='dp' alone, elsewhere it would be the intercept."
            )
        if self.empirical and self.random == "none":
            raise SpecError(
                "model option empirical is true while random is 'none'; nothing would be left to "
                "draw. Choose random='normal', 'dp' or 'gamma-dp', or the model loglinear."
            )

    @property
    def _clustered(self) -> bool:
        """Effects from a Dirichlet process."""
        return self.random in ("dp", "gamma-dp")

    def prepare(self, table: CellTable) -> MixedEffectsData:
        """List the possible cells, with the design and the records of each."""
        grid = list_cells(table, self.name)
        intercept = self.random != "dp"
        fixed = "none" if self.empirical else self.fixed
        if self.empirical:
            p = fitted_shares(table, grid.cells, self.fixed)
            grid = grid.without(p <= 0.0)
            offset = np.log(table.n_records * p[p > 0.0])
            intercept = False
        else:
            share = math.log(table.n_records / table.n_units)
            offset = np.full(len(grid.cells), share)
        return MixedEffectsData(
            grid=grid,
            design=design_of(grid, fixed, intercept),
            offset=offset,
            known=grid.records(table),
            patterns=np.ascontiguousarray(table.cells[table.incomplete]),
            times=table.counts[table.incomplete],
            n_records=table.n_records,
        )

    def compile(self, zeros: bool = False) -> None:
        """Compile the kernels (or load them from the cache) on a toy table."""
        compile_on_toy_table(self, zeros)

    def init(self, stream: Stream, data: MixedEffectsData) -> MixedEffectsState:
        """Start around the mode of a model without random effects, then find the step.

        The warm-up has random numbers of its own: a key that no chain has.
        """
        seeds = np.random.SeedSequence(stream.seed, spawn_key=(stream.chain, 1))
        key = seeds.generate_state(2).astype(np.uint32)
        rng = np.random.Generator(np.random.Philox(key=key))
        n_cells, n_fixed = len(data.offset), data.design.n_columns
        start = MixedEffectsState(
            counts=data.grid.complete(
                key, 0, data.known, data.patterns, data.times, np.ones(n_cells)
            ),
            beta=np.zeros(n_fixed),
            effects=np.zeros(n_cells if self.random == "normal" else 0),
            cluster=np.zeros(n_cells if self._clustered else 0, np.int32),
            values=np.zeros(int(self._clustered)),
            variance=float(np.exp(rng.uniform(-2.0, 1.0))),
            mean=0.0,
            mass=float(np.exp(rng.uniform(-1.0, 1.5))),
            step_size=1.0,
            log_mean=data.offset,
        )
        start = self._dispersed(rng, start, data, _START_CLUSTERS[stream.chain % 4])
        # MALA's optimal step falls with the sixth root of the dimension.
        log_step = math.log(1.65 * max(1, n_fixed) ** (-1 / 6))
        state, steps = start._replace(step_size=math.exp(log_step)), []
        for sweep in range(1, WARM_UP + 1):
            state, acceptance = self._sweep(key, sweep, state, data)
            log_step = min(log_step + sweep**-0.6 * (acceptance - _ACCEPTANCE), 1.0)
            steps.append(log_step)
            state = state._replace(step_size=math.exp(log_step))
        return state._replace(step_size=math.exp(float(np.mean(steps[WARM_UP // 2 :]))))

    def _dispersed(
        self, rng: np.random.Generator, state: MixedEffectsState, data: MixedEffectsData, n: int
    ) -> MixedEffectsState:
        """Start drawn twice as wide as the posterior without random effects; n clusters."""
        design = data.design
        coefficients = np.concatenate((state.beta, state.values))
        if len(coefficients):
            listed = Cells(state.counts, data.offset, design.starts, design.columns)
            listed, _ = fixed_effects.joined(listed, state.cluster, coefficients, 0.0)
            noise = 2.0 * rng.normal(size=len(coefficients))
            fixed_effects.climb(listed, coefficients, self._prior(state), noise)
        # Of an effect without records there is only the prior, which may be very wide.
        beta, values = np.split(np.clip(coefficients, -20.0, 20.0), [len(state.beta)])
        state = state._replace(beta=beta, values=values)
        if self._clustered:
            # Cells dealt out by how many more records they have than expected, with noise.
            excess = np.log((state.counts + 0.5) / (np.exp(self._log_mean(state, data)) + 0.5))
            excess += rng.normal(size=len(excess))
            order = np.argsort(excess, kind="stable")
            cluster = np.empty(len(excess), np.int32)
            cluster[order] = np.arange(len(excess)) * min(n, len(excess)) // len(excess)
            values = values[0] + 0.5 * rng.normal(size=int(cluster.max()) + 1)
            state = state._replace(cluster=cluster, values=values)
        return state._replace(log_mean=self._log_mean(state, data))

    def state_fits(
        self, state: MixedEffectsState, data: MixedEffectsData, start: MixedEffectsState
    ) -> bool:
        """Whether a state of a file has shapes and indices that the kernels can read."""
        n_cells, n_values = len(data.offset), len(state.values)
        numbers = (state.variance, state.mass, state.step_size)
        return (
            state.counts.shape == state.log_mean.shape == (n_cells,)
            and bool((state.counts >= data.known).all())
            and int(state.counts.sum()) == data.n_records
            and state.beta.shape == (data.design.n_columns,)
            and state.effects.shape == (n_cells if self.random == "normal" else 0,)
            and state.cluster.shape == (n_cells if self._clustered else 0,)
            and (n_values > 0) == self._clustered
            and within(state.cluster, 0, n_values)
            and len(np.unique(state.cluster)) == n_values
            and bool(np.isfinite(state.beta).all() and np.isfinite(state.values).all())
            and all(positive(np.asarray(number)) for number in numbers)
            and math.isfinite(state.mean)
        )

    def step(
        self, stream: Stream, state: MixedEffectsState, data: MixedEffectsData, n_threads: int
    ) -> tuple[MixedEffectsState, Info]:
        """Make one sweep, on one thread: cells depend on each other."""
        key = chain_key(stream.seed, stream.chain)
        state, acceptance = self._sweep(key, stream.sweep, state, data)
        values: dict[str, float] = {}
        if len(state.beta):
            values["acceptance"] = acceptance
        if self.random != "none":
            values["sigma2"] = state.variance
        if self._clustered:
            values["mass"] = state.mass
            values["n_clusters"] = float(len(state.values))
            if self.mean == "unknown":
                values["mean"] = state.mean
        return state, Info(values)

    def _sweep(
        self, key: UInt32, sweep: int, state: MixedEffectsState, data: MixedEffectsData
    ) -> tuple[MixedEffectsState, float]:
        """Return the new state and the acceptance of the Langevin move."""
        if len(data.times):
            known, patterns, times = data.known, data.patterns, data.times
            mean = np.exp(state.log_mean)
            counts = data.grid.complete(key, sweep, known, patterns, times, mean)
            state = state._replace(counts=counts)
        if self._clustered:
            state = self._draw_clusters(key, sweep, state, data)
        elif self.random == "normal":
            effects, base = np.empty_like(state.effects), self._fixed_part(state, data)
            kernels.draw_effects(key, sweep, state.counts, base, state.variance, effects)
            state = state._replace(effects=effects)
        acceptance = 1.0
        if len(state.beta):
            state, acceptance = self._draw_fixed(key, sweep, state, data)
        if self._clustered:
            state = self._draw_base(key, sweep, state)
        elif self.random == "normal":
            state = self._draw_scale(key, sweep, state, data)
        return state._replace(log_mean=self._log_mean(state, data)), acceptance

    def _draw_clusters(
        self, key: UInt32, sweep: int, state: MixedEffectsState, data: MixedEffectsData
    ) -> MixedEffectsState:
        """Move cells one by one, split or merge clusters, then draw all their values."""
        rest, cluster, counts = self._fixed_part(state, data), state.cluster.copy(), state.counts
        base = Base(self.random == "gamma-dp", state.mean, state.variance)
        values = kernels.allocate(
            key, sweep, counts, rest, state.mass, base, cluster, state.values
        )  # fmt: skip
        n, _ = split_merge(
            key, sweep, _TRIES, counts, rest, state.mass, base, cluster, len(values)
        )  # fmt: skip
        values = np.empty(n)
        kernels.draw_values(key, sweep, counts, rest, cluster, base, values)
        return state._replace(cluster=cluster, values=values)

    def _draw_fixed(
        self, key: UInt32, sweep: int, state: MixedEffectsState, data: MixedEffectsData
    ) -> tuple[MixedEffectsState, float]:
        """Draw the fixed effects: together, under "dp" with the values, then one by one."""
        design = data.design
        if self.random == "dp":
            offset, values, cluster = data.offset, state.values, state.cluster
        else:
            offset, values, cluster = data.offset + self._effects(state), _NO_VALUES, _NO_CELLS
        coefficients = np.concatenate((state.beta, values))
        mean, precision = self._prior(state)
        listed = Cells(state.counts, offset, design.starts, design.columns)
        listed, chosen = fixed_effects.joined(listed, cluster, coefficients, LEAST_RECORDS)
        together, acceptance = coefficients[chosen], 1.0
        if len(chosen):
            prior = Prior(mean[chosen], precision[chosen])
            acceptance = fixed_effects.langevin(
                key, sweep, state.step_size, listed, together, prior
            )
        coefficients[chosen] = together
        beta, values = np.split(coefficients, [len(state.beta)])
        state = state._replace(beta=beta, values=values if self.random == "dp" else state.values)
        fixed_effects.draw_coefficients(
            key,
            sweep,
            state.counts,
            self._log_mean(state, data),
            design.column_starts,
            design.column_cells,
            self.effect_variance,
            beta,
        )
        if self.random == "gamma-dp":
            # The first column is the intercept.
            values = state.values.copy()
            beta[0] = kernels.exchange(
                key, sweep, state.variance, self.effect_variance, beta[0], values
            )
            state = state._replace(values=values)
        return state, acceptance

    def _draw_base(self, key: UInt32, sweep: int, state: MixedEffectsState) -> MixedEffectsState:
        """Draw alpha, sigma^2 and m given the clusters."""
        mean = state.mean
        if self.mean == "unknown":
            mean = kernels.draw_mean(key, sweep, state.values, state.variance, self.mean_variance)
        if self.random == "gamma-dp":
            variance = self._draw_rate_variance(generator_at(key, sweep, 1), state)
        else:
            variance = kernels.draw_variance(
                key, sweep, state.values, mean, self.variance_shape, self.variance_scale
            )
        mass = kernels.draw_mass(
            key,
            sweep,
            state.mass,
            len(state.values),
            len(state.cluster),
            self.mass_shape,
            self.mass_rate,
        )
        return state._replace(mean=mean, variance=variance, mass=mass)

    def _draw_rate_variance(
        self, generator: np.random.Generator, state: MixedEffectsState
    ) -> float:
        """Draw sigma^2 given e^values ~ Gamma(1/sigma^2, 1/sigma^2)."""
        n = len(state.values)
        total = float((state.values - np.exp(state.values)).sum())

        def log_density(position: float) -> float:
            if abs(position) > _BOUND:
                return -math.inf
            shape = math.exp(-position)
            likelihood = n * (shape * -position - math.lgamma(shape)) + shape * total
            return likelihood - self.variance_shape * position - self.variance_scale * shape

        return math.exp(slice_draw(generator, math.log(state.variance), log_density))

    def _draw_scale(
        self, key: UInt32, sweep: int, state: MixedEffectsState, data: MixedEffectsData
    ) -> MixedEffectsState:
        """Draw the fixed effects given the log means, and sigma^2 in its two ways."""
        design = data.design
        beta, effects = state.beta.copy(), state.effects.copy()
        if len(beta):
            kernels.recentre(
                key,
                sweep,
                design.starts,
                design.columns,
                design.gram,
                state.variance,
                self.effect_variance,
                effects,
                beta,
            )
        state = state._replace(beta=beta, effects=effects)
        variance = kernels.rescale(
            key,
            sweep,
            state.counts,
            self._fixed_part(state, data),
            state.variance,
            self.variance_shape,
            self.variance_scale,
            effects,
        )
        variance = kernels.draw_variance(
            key, sweep, effects, 0.0, self.variance_shape, self.variance_scale
        )
        return state._replace(variance=variance)

    def _prior(self, state: MixedEffectsState) -> Prior:
        """Prior mean and precision of the fixed effects and the clusters' values."""
        shape = len(state.beta), len(state.values)
        mean = np.repeat([0.0, state.mean], shape)
        precision = np.repeat([1.0 / self.effect_variance, 1.0 / state.variance], shape)
        return Prior(mean, precision)

    def _fixed_part(self, state: MixedEffectsState, data: MixedEffectsData) -> Float64:
        """Log means without the random effects, (n_cells,)."""
        out, design = np.empty(len(data.offset)), data.design
        fixed_effects.linear(data.offset, design.starts, design.columns, state.beta, out)
        return out

    def _log_mean(self, state: MixedEffectsState, data: MixedEffectsData) -> Float64:
        return self._fixed_part(state, data) + self._effects(state)

    def _effects(self, state: MixedEffectsState) -> Float64 | float:
        """Random effect of each cell, (n_cells,)."""
        if self.random == "normal":
            return state.effects
        return state.values[state.cluster] if self._clustered else 0.0

    def cell_probabilities(
        self, stream: Stream, state: MixedEffectsState, data: MixedEffectsData, cells: Int32
    ) -> Float64:
        """lambda_c / N of each cell, (n,); -1 sums over a key's levels.

        All cells add up to the sum of lambda over the known N, which is near 1 and not 1: the
        number of unobserved individuals is Poisson with mean (1 - pi) lambda_c in each cell.
        """
        return data.grid.sums(np.exp(state.log_mean), cells) / data.n_records

    def predictive_probabilities(
        self, stream: Stream, state: MixedEffectsState, data: MixedEffectsData, cells: Int32
    ) -> Float64:
        """Probability that an individual of the drawn population falls in each cell, (n,)."""
        mean = np.exp(state.log_mean)
        return data.grid.sums(mean, cells) / float(mean.sum())

    def impute(self, stream: Stream, state: MixedEffectsState, data: MixedEffectsData) -> Int32:
        """Draw the missing keys of the incomplete records given lambda."""
        key = chain_key(stream.seed, stream.chain)
        mean, sweep = np.exp(state.log_mean), stream.sweep
        rows = data.grid.draw(key, sweep, PURPOSE_IMPUTE, data.patterns, data.times, mean)
        return data.grid.cells[rows]

    def simulate(
        self, stream: Stream, state: MixedEffectsState, data: MixedEffectsData, n_records: int
    ) -> Int32:
        """Draw the keys of new individuals, with probability proportional to lambda."""
        key = chain_key(stream.seed, stream.chain)
        return data.grid.draw_new(key, stream.sweep, np.exp(state.log_mean), n_records)

    def cost(self, data: MixedEffectsData) -> tuple[float, float]:
        """Nanoseconds, roughly, of a sweep and of one cell probability."""
        n_cells, n_columns = len(data.offset), data.design.n_columns
        width = len(data.design.columns) / max(1, n_cells)
        sweep = 60.0 + 8.0 * width + width**2
        sweep += {"none": 0.0, "normal": 250.0}.get(self.random, 300.0)
        n_factors = 3 if self.random == "normal" else 2
        completions = np.where(data.patterns < 0, data.grid.levels, 1).prod(axis=1).sum()
        missing = 5.0 * float(completions) + 60.0 * float(data.times.sum())
        return n_cells * sweep + 0.05 * n_factors * n_columns**3 + missing, 100.0

    def facts(self, data: MixedEffectsData) -> Facts:
        """Cells that are listed, and fixed effects."""
        return MixedEffectsFacts(cells=len(data.offset), effects=data.design.n_columns)
