"""Mixed membership with unlimited components: the hierarchical Dirichlet process of paper 1.

    X_ij | Z_ij = k  ~  theta_j^(k)          key j of record i
    Z_ij | g_i       ~  g_i
    g_i | G0         ~  DP(alpha, g0)        alpha shared, or one alpha_i per record
    g0               ~  GEM(alpha_0)
    theta_j^(k)      ~  Dirichlet(concentration, ..., concentration)

Battiston & Rimella (2024); sampler of Teh, Jordan, Beal & Blei (2006) with the record's weights
g_i summed out. The table counts use alpha g0_k, not paper 1's alpha_0 g0_k (its step 2 and
eq. 12), which would not have the stated posterior as its target.

| here | paper 1 |
|---|---|
| component weights `weights` | g_0 |
| profiles `theta` | theta |
| concentration of a record `alpha` | alpha_i |
| top concentration `top` | alpha_0 |
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from unikat._typing import Float32, Float64, Int16, Int32, Int64
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.kernels import cells as cell_kernels
from unikat.kernels import mixture
from unikat.kernels import weights as weight_kernels
from unikat.kernels.random import PURPOSE_IMPUTE, PURPOSE_SIMULATE
from unikat.models.base import Info, Stream
from unikat.rng import chain_key

_FIRST_SLOTS = 32
_MOST_SLOTS = 16_384
_SPARE_SLOTS = 12
_STICK_TOLERANCE = 1e-6
_GRID = 1024
_NODES = 16
_EXACT_KEYS = 11
_REPEATS = (4, 32)
_SMALL_ALPHA = 0.05
_LEAST_SHAPE = 0.05
_START_CLASSES = (64, 128, 96, 192)


class MixtureData(NamedTuple):
    """The table as the kernels read it; records are in the order of their pattern."""

    rows: Int32
    """(n_cells, n_keys): row of theta of each known key, -1 where missing."""
    record_cell: Int32
    """(n_records,)"""
    offsets: Int64
    """(n_keys + 1,): first row of each key."""
    at_least: Float64
    """(n_keys,): records with more than l known keys."""


class HDPState(NamedTuple):
    """State of the HDP sampler."""

    z: Int16
    """(n_records, n_keys): component of each known key, -1 where missing."""
    theta: Float32
    """(n_rows, n_slots)"""
    weights: Float64
    """(n_slots,): g0; empty slots hold sticks of the unseen part; they sum to 1."""
    alpha: Float64
    """(1,) shared, or (n_records,)."""
    top: Float64
    """(1,): alpha_0."""


@dataclass(frozen=True, kw_only=True)
class HDP:
    """Parameters of the HDP mixed-membership model.

    Parameters
    ----------
    alpha
        `"shared"`: one concentration for all records, learned; `"per-record"`: paper 1's, one
        for each record.
    alpha_shape, alpha_rate
        Gamma prior of alpha.
    top_shape, top_rate
        Gamma prior of alpha_0.
    profile_concentration
        Parameter of the symmetric Dirichlet prior of the profiles; paper 1 has 1.
    """

    name: ClassVar[str] = "hdp"
    alpha: Literal["shared", "per-record"] = "shared"
    alpha_shape: float = 2.0
    alpha_rate: float = 1.0
    top_shape: float = 2.0
    top_rate: float = 1.0
    profile_concentration: float = 1.0

    def __post_init__(self) -> None:
        """Check the parameters."""
        if self.alpha not in ("shared", "per-record"):
            raise SpecError(
                f"model option alpha is {self.alpha!r}; choose 'shared' or 'per-record'."
            )
        for field in (
            "alpha_shape",
            "alpha_rate",
            "top_shape",
            "top_rate",
            "profile_concentration",
        ):
            value = getattr(self, field)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not 0 < value < np.inf:
                raise SpecError(
                    f"model option {field} is {value!r}; it must be a positive, finite number."
                )
        if self.alpha == "per-record" and self.alpha_shape < _LEAST_SHAPE:
            raise SpecError(
                f"model option alpha_shape is {self.alpha_shape!r}; with alpha = 'per-record' it "
                f"must be at least {_LEAST_SHAPE}, since below that the prior of alpha runs into "
                "zero. Take a larger alpha_shape, or alpha = 'shared'."
            )

    def prepare(self, table: CellTable) -> MixtureData:
        """Lay the table out as rows of theta, records in the order of their pattern."""
        levels = np.asarray(table.n_levels, np.int64)
        offsets = np.concatenate(([0], np.cumsum(levels)))
        known = table.cells >= 0
        rows = np.where(known, table.cells + offsets[:-1], -1).astype(np.int32)
        tokens = np.repeat(known.sum(axis=1), table.counts)
        at_least = np.array([(tokens > l).sum() for l in range(table.n_keys)], np.float64)
        record_cell = np.repeat(np.arange(table.n_cells, dtype=np.int32), table.counts)
        return MixtureData(rows, record_cell, offsets, at_least)

    def compile(self) -> None:
        """Compile the kernels (or load them from the cache) on a toy table."""
        from unikat.data.keys import Key

        keys = tuple(Key.of_size(name, 2) for name in "AB")
        table = CellTable.from_codes([[0, 0], [0, 1], [1, 1]], keys, population_size=9)
        data = self.prepare(table)
        stream = Stream(0, 0, 0)
        state, _ = self.step(stream, self.init(stream, data), data, 1)
        self.cell_probabilities(stream, state, data, table.cells)

    def init(self, stream: Stream, data: MixtureData) -> HDPState:
        """Start from clusters of cells; their number and purity differ from chain to chain."""
        key = chain_key(stream.seed, stream.chain)
        n, n_keys = len(data.record_cell), len(data.offsets) - 1
        n_rows = int(data.offsets[-1])
        n_slots = max(_FIRST_SLOTS, 2 * _START_CLASSES[stream.chain % len(_START_CLASSES)])
        z = np.where(data.rows >= 0, _start_classes(data, stream)[:, None], -1)
        z = z.astype(np.int16)[data.record_cell]
        # Pure starts hold only the opening of one table per record: about their posterior mean.
        # From the prior mean the first draw would fall to where alpha * g0 underflows.
        excess = sum(count / l for l, count in enumerate(data.at_least) if l)
        shared = self.alpha_shape / (self.alpha_rate + excess)
        alpha = (
            np.full(1, shared)
            if self.alpha == "shared"
            else np.full(n, self.alpha_shape / self.alpha_rate)
        )
        empty = HDPState(
            z=z,
            theta=np.full((n_rows, n_slots), 1.0, np.float32),
            weights=np.full(n_slots, 1.0 / n_slots),
            alpha=alpha,
            top=np.array([self.top_shape / self.top_rate]),
        )
        counts = np.zeros((n_rows, n_slots), np.int32)
        stacks = np.zeros((n_keys, n_slots), np.int64)
        mixture.count(0, n, data.rows, data.record_cell, z, counts, stacks)
        wide = counts.astype(np.int64)
        state, _ = self._refresh(key, stream.sweep, empty, data, wide, stacks)
        return state

    def step(
        self, stream: Stream, state: HDPState, data: MixtureData, n_threads: int
    ) -> tuple[HDPState, Info]:
        """One sweep: all tokens' components given (g0, theta, alpha), then those given them."""
        key = chain_key(stream.seed, stream.chain)
        n, n_keys = state.z.shape
        n_rows, n_slots = state.theta.shape
        base = np.empty(n_rows, np.float32)
        cut = np.empty((n_rows, n_slots), np.float32)
        alias = np.empty((n_rows, n_slots), np.int16)
        weight_kernels.base_tables(state.theta, state.weights, base, cut, alias)
        z = state.z.copy()
        counts = np.zeros((n_threads, n_rows, n_slots), np.int32)
        stacks = np.zeros((n_threads, n_keys, n_slots), np.int64)

        alpha = state.alpha
        rising = np.ones((n_keys + 1 if self.alpha == "shared" else 0, n_slots))
        for size in range(1, len(rising)):
            rising[size] = rising[size - 1] * (alpha[0] * state.weights + (size - 1))

        def assign(part: int, first: int, last: int) -> None:
            mixture.assign(
                key,
                stream.sweep,
                first,
                last,
                data.rows,
                data.record_cell,
                z,
                alpha,
                state.weights,
                rising,
                state.theta,
                base,
                cut,
                alias,
                counts[part],
                stacks[part],
            )

        _in_parts(assign, n, n_threads)
        return self._refresh(
            key, stream.sweep, state._replace(z=z), data, counts.sum(axis=0), stacks.sum(axis=0)
        )

    def _refresh(
        self,
        key: Any,
        sweep: int,
        state: HDPState,
        data: MixtureData,
        counts: Int64,
        stacks: Int64,
    ) -> tuple[HDPState, Info]:
        """Draw tables, alpha_0, g0, theta and alpha given the tokens' components."""
        state, counts, stacks = _compact(state, counts, stacks)
        n_slots = counts.shape[1]
        tables = np.zeros(n_slots, np.int64)
        alpha = state.alpha
        if self.alpha == "shared":
            weight_kernels.draw_tables(key, sweep, float(alpha[0]), stacks, state.weights, tables)
        else:
            alpha = alpha.copy()
            grid, cut, alias = _alpha_tables(
                self.alpha_shape, self.alpha_rate, len(data.offsets) - 1
            )
            weight_kernels.draw_tables_and_alphas(
                key, sweep, 0, len(state.z), state.z, state.weights, grid, cut, alias, alpha, tables
            )
        concentration = np.full(len(counts), self.profile_concentration)
        while True:
            weights = np.empty(n_slots)
            top, remainder, occupied = weight_kernels.draw_weights(
                key, sweep, float(state.top[0]), self.top_shape, self.top_rate, tables, weights
            )
            if remainder < _STICK_TOLERANCE or n_slots >= _MOST_SLOTS:
                break
            # Too few empty slots for the unseen part: the same draw again, with more of them.
            counts = np.concatenate((counts, np.zeros_like(counts)), axis=1)
            stacks = np.concatenate((stacks, np.zeros_like(stacks)), axis=1)
            tables = np.concatenate((tables, np.zeros_like(tables)))
            n_slots *= 2
        theta = np.empty(counts.shape, np.float32)
        weight_kernels.draw_profiles(key, sweep, data.offsets, concentration, counts, theta)
        if self.alpha == "shared":
            value = weight_kernels.draw_alpha(
                key,
                sweep,
                float(alpha[0]),
                self.alpha_shape,
                self.alpha_rate,
                stacks,
                weights,
                data.at_least,
            )
            alpha = np.array([value])
        info = Info({"alpha": float(alpha.mean()), "top": top, "n_components": float(occupied)})
        return HDPState(state.z, theta, weights, alpha, np.array([top])), info

    def cell_probabilities(
        self, stream: Stream, state: HDPState, data: MixtureData, cells: Int32
    ) -> Float64:
        """Probability of each cell for a new individual, (n,); -1 leaves a key out.

        Exact for up to 11 keys, beyond that an unbiased estimate.
        """
        if len(cells) == 0:
            return np.empty(0)
        # The last key costs one dot product a cell, so it is the one with most levels.
        order = np.argsort(np.diff(data.offsets), kind="stable")
        rows = np.where(cells >= 0, cells + data.offsets[:-1], -1).astype(np.int32)[:, order]
        sorting = np.lexsort(rows.T[::-1])
        slots = _slots_that_matter(state)
        theta = np.ascontiguousarray(state.theta[:, slots], np.float64)
        alpha, alpha_weight = self._new_record_alpha(state)
        rows, weights = np.ascontiguousarray(rows[sorting]), state.weights[slots]
        out = np.empty(len(cells))
        if rows.shape[1] <= _EXACT_KEYS:
            cell_kernels.partition_probabilities(rows, theta, weights, alpha, alpha_weight, out)
        else:
            key = chain_key(stream.seed, stream.chain)
            # A small alpha leaves little to estimate; the nodes of a prior repeat by themselves.
            spread = len(alpha) == 1 and float(alpha[0]) > _SMALL_ALPHA
            cell_kernels.sequential_probabilities(
                key,
                stream.sweep,
                rows,
                theta,
                weights,
                theta @ weights,
                alpha,
                alpha_weight,
                _REPEATS[spread],
                out,
            )
        result = np.empty(len(cells))
        result[sorting] = out
        return result

    def impute(self, stream: Stream, state: HDPState, data: MixtureData) -> Int32:
        """Draw the missing keys of the incomplete records, in the order of the records."""
        records = np.flatnonzero(np.any(data.rows < 0, axis=1)[data.record_cell])
        rows = data.rows[data.record_cell[records]]
        z = state.z[records].astype(np.int64)
        alpha = state.alpha if len(state.alpha) == 1 else state.alpha[records]
        mixture.impute(
            chain_key(stream.seed, stream.chain),
            stream.sweep,
            PURPOSE_IMPUTE,
            rows,
            z,
            alpha,
            state.weights,
            state.theta,
            data.offsets,
        )
        return (rows - data.offsets[:-1]).astype(np.int32)

    def simulate(self, stream: Stream, state: HDPState, data: MixtureData, n_records: int) -> Int32:
        """Draw the keys of new individuals: records of which every key is missing."""
        key = chain_key(stream.seed, stream.chain)
        alpha = state.alpha
        if self.alpha == "per-record":
            rng = np.random.Generator(np.random.Philox(key=key, counter=stream.sweep))
            alpha = rng.gamma(self.alpha_shape, 1.0 / self.alpha_rate, n_records)
        rows = np.full((n_records, data.rows.shape[1]), -1, np.int32)
        z = np.full(rows.shape, -1, np.int64)
        mixture.impute(
            key,
            stream.sweep,
            PURPOSE_SIMULATE,
            rows,
            z,
            alpha,
            state.weights,
            state.theta,
            data.offsets,
        )
        return (rows - data.offsets[:-1]).astype(np.int32)

    def cost(self, data: MixtureData) -> tuple[float, float]:
        """Nanoseconds, roughly, of a sweep and of one cell probability."""
        n_keys = data.rows.shape[1]
        sweep = len(data.record_cell) * (30.0 + 12.0 * n_keys)
        # Drawing the profiles: all levels of all keys, for about as many slots as at first.
        sweep += 60.0 * float(data.offsets[-1]) * _FIRST_SLOTS
        if n_keys <= _EXACT_KEYS:
            return sweep, 7.0 * 2.0**n_keys + 3.0 ** (n_keys - 2)
        return sweep, 200.0 * n_keys**2

    def _new_record_alpha(self, state: HDPState) -> tuple[Float64, Float64]:
        """Return the concentration of an unobserved individual: values and their probabilities."""
        if self.alpha == "shared":
            return state.alpha, np.ones(1)
        return _gamma_nodes(self.alpha_shape, self.alpha_rate)


def _slots_that_matter(state: HDPState) -> Int64:
    """Slots in falling weight: all that hold tokens, and sticks until the rest is negligible.

    An occupied slot may weigh as little as 1/n, so none of them is dropped.
    """
    slots = np.argsort(-state.weights, kind="stable")
    keep = np.bincount(state.z.ravel() + 1, minlength=len(slots) + 1)[1:][slots] > 0
    keep[: 1 + np.searchsorted(np.cumsum(state.weights[slots]), 1.0 - _STICK_TOLERANCE)] = True
    return slots[keep]


@lru_cache(maxsize=8)
def _alpha_grid(shape: float, rate: float) -> Float64:
    """Return the prior of a record's alpha as equally likely values: its quantiles."""
    from scipy.special import gammaincinv

    grid: Float64 = gammaincinv(shape, (np.arange(_GRID) + 0.5) / _GRID) / rate
    return grid


@lru_cache(maxsize=8)
def _alpha_tables(shape: float, rate: float, n_keys: int) -> tuple[Float64, Float64, Int16]:
    """Alias tables of alpha given (known keys, tables): a^tables Gamma(a) / Gamma(a + tokens)."""
    grid = _alpha_grid(shape, rate)
    tokens = np.arange(n_keys + 1)
    log_denominator = np.concatenate(
        ([np.zeros(_GRID)], np.cumsum(np.log(grid + tokens[:-1, None]), axis=0))
    )
    log_mass = tokens[None, :, None] * np.log(grid) - log_denominator[:, None, :]
    mass = np.exp(log_mass - log_mass.max(axis=2, keepdims=True)).reshape(-1, _GRID)
    cut = np.empty(mass.shape, np.float32)
    alias = np.empty(mass.shape, np.int16)
    weight_kernels.base_tables(
        mass.astype(np.float32), np.ones(_GRID), np.empty(len(mass), np.float32), cut, alias
    )
    shape3 = (n_keys + 1, n_keys + 1, _GRID)
    return grid, cut.reshape(shape3), alias.reshape(shape3)


@lru_cache(maxsize=8)
def _gamma_nodes(shape: float, rate: float) -> tuple[Float64, Float64]:
    """Gauss quadrature of Gamma(shape, rate): exact for what is smooth in alpha."""
    from scipy.special import roots_genlaguerre

    nodes, node_weights = roots_genlaguerre(_NODES, shape - 1.0)
    return nodes / rate, node_weights / node_weights.sum()


def _compact(state: HDPState, counts: Int64, stacks: Int64) -> tuple[HDPState, Int64, Int64]:
    """Move the occupied slots to the front and drop half of the slots where few are needed."""
    n_slots = counts.shape[1]
    occupied = np.flatnonzero(stacks[0])
    keep = n_slots // 2
    if keep < _FIRST_SLOTS or len(occupied) + _SPARE_SLOTS > keep:
        return state, counts, stacks
    slots = np.concatenate((occupied, np.setdiff1d(np.arange(n_slots), occupied)))[:keep]
    place = np.full(n_slots + 1, -1, np.int16)
    place[occupied] = np.arange(len(occupied))
    # z = -1 (missing) reads the last entry, which stays -1.
    moved = state._replace(z=place[state.z], weights=state.weights[slots])
    return moved, counts[:, slots], stacks[:, slots]


def _start_classes(data: MixtureData, stream: Stream) -> Int64:
    """Start class of each cell, (n_cells,): classes of a few keys drawn at random.

    Many pure classes merge within some tens of sweeps; a start from few has to split them again,
    which takes thousands. Chains differ in the keys and in the number of classes.
    """
    n_classes = _START_CLASSES[stream.chain % len(_START_CLASSES)]
    rng = np.random.Generator(np.random.Philox(key=chain_key(stream.seed, stream.chain)))
    classes = np.zeros(len(data.rows), np.int64)
    for j in rng.permutation(data.rows.shape[1]):
        _, classes = np.unique(
            classes * (len(data.rows) + data.offsets[-1] + 2) + data.rows[:, j] + 1,
            return_inverse=True,
        )
        if classes.max() + 1 >= n_classes:
            break
    return rng.permutation(classes.max() + 1)[classes] % n_classes


def _in_parts(work: Callable[[int, int, int], None], n: int, n_parts: int) -> None:
    """Run `work(part, first, last)` over [0, n) cut in `n_parts`, one thread each."""
    bounds = [n * part // n_parts for part in range(n_parts + 1)]
    if n_parts == 1:
        work(0, 0, n)
        return
    pool = _pool(n_parts - 1)
    futures: list[Future[None]] = [
        pool.submit(work, part, bounds[part], bounds[part + 1]) for part in range(1, n_parts)
    ]
    work(0, bounds[0], bounds[1])
    for future in futures:
        future.result()


@lru_cache(maxsize=2)
def _pool(n_threads: int) -> ThreadPoolExecutor:
    """Threads for the kernels, which run without the interpreter lock."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="unikat-kernel")
