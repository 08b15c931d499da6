"""Mixed membership: every key of a record comes from a component of its own.

    X_ij | Z_ij = k  ~  theta_j^(k)          key j of record i
    Z_ij | g_i       ~  g_i
    g_i              ~  DP(alpha, g0)        alpha shared, or one alpha_i per record
    theta_j^(k)      ~  Dirichlet(c_j b_j)   see `models.profiles`

`models.hdp` has unlimited components, g0 ~ GEM(alpha_0): Battiston & Rimella (2024, "paper 1").
`models.gom`, grade of membership, has K of them, g0 ~ Dirichlet(1): Manrique-Vallier & Reiter
(2012, "paper 2"); there DP(alpha, g0) is Dirichlet(alpha g0). One sampler serves both: that of Teh,
Jordan, Beal & Blei (2006) with the record's weights g_i summed out. The table counts use
alpha g0_k, not paper 1's alpha_0 g0_k (its step 2 and eq. 12), which would not have the stated
posterior as its target.

| here | paper 1 | paper 2 |
|---|---|---|
| component weights `weights` | g_0 | xi |
| profiles `theta` | theta | lambda |
| concentration of a record `alpha` | alpha_i | alpha_0 |
| top concentration `top` | alpha_0 | none |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from unikat._typing import Float32, Float64, Int16, Int32, Int64
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.kernels import cells as cell_kernels
from unikat.kernels import mixture, moves
from unikat.kernels import weights as weight_kernels
from unikat.kernels.random import PURPOSE_IMPUTE, PURPOSE_SIMULATE
from unikat.models.base import Info, Stream
from unikat.models.profiles import ProfilePrior, check_bool, check_choice, check_positive
from unikat.models.records import (
    MixtureData,
    compile_on_toy_table,
    in_parts,
    lay_out,
    start_classes,
)
from unikat.models.slots import FIRST_SLOTS, Slots, padded
from unikat.rng import chain_key

_NODES = 16
_NEGLIGIBLE = 1e-7
_EXACT_KEYS = 11
_REPEATS = (4, 32)
_SMALL_ALPHA = 0.05
_LEAST_SHAPE = 0.05
_FIRST_SPREAD = (1.0, 1.0)


class MembershipState(NamedTuple):
    """State of a mixed-membership sampler."""

    z: Int16
    """(n_records, n_keys): component of each known key, -1 where missing."""
    theta: Float32
    """(n_rows, n_slots)"""
    weights: Float64
    """(n_slots,): g0; empty slots of the HDP hold sticks of the unseen part; they sum to 1."""
    alpha: Float64
    """(1,) shared, or (n_records,)."""
    spread: Float64
    """(2,): shape and rate of the law of the alphas if it is learned, else (0,)."""
    top: Float64
    """(1,): alpha_0; (0,) where the number of components is fixed."""
    profile: Float64
    """(n_rows,): Dirichlet parameters of the profiles."""


@dataclass(frozen=True, kw_only=True)
class MixedMembership(ProfilePrior, ABC):
    """What HDP and grade of membership share.

    Parameters
    ----------
    alpha
        `"shared"`: one concentration for all records, learned; `"per-record"`: one for each
        record, with the fixed prior below (paper 1); `"hierarchical"`: one for each record, shape
        and rate of their gamma law learned, each with the prior Gamma(1, 1).
    alpha_shape, alpha_rate
        Gamma prior of alpha; not used if hierarchical.
    split_merge
        Propose to split or merge components in every sweep.
    """

    name: ClassVar[str]
    alpha: Literal["shared", "per-record", "hierarchical"] = "shared"
    alpha_shape: float = 2.0
    alpha_rate: float = 1.0
    split_merge: bool = True

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_choice("alpha", self.alpha, ("shared", "per-record", "hierarchical"))
        check_positive(self, ["alpha_shape", "alpha_rate"])
        check_bool(self, "split_merge")
        if self.alpha == "per-record" and self.alpha_shape < _LEAST_SHAPE:
            raise SpecError(
                f"model option alpha_shape is {self.alpha_shape!r}; with alpha = 'per-record' it "
                f"must be at least {_LEAST_SHAPE}, since below that the prior of alpha runs into "
                "zero. Take a larger alpha_shape, or alpha = 'shared'."
            )

    @abstractmethod
    def _first_slots(self, chain: int) -> int:
        """Slots at the start of a chain, a multiple of 8."""

    def _slots(self, state: MembershipState, slots: Slots) -> Slots:
        """Drop slots where few are needed."""
        return slots

    @abstractmethod
    def _start_limit(self) -> int | None:
        """Most classes a chain may start from."""

    @abstractmethod
    def _first_top(self) -> list[float]:
        """alpha_0 at the start of a chain, if there is one."""

    @abstractmethod
    def _partition_prior(self, state: MembershipState, n_slots: int) -> tuple[Float64, float]:
        """`log_new` and `share` of `moves.split_merge`."""

    @abstractmethod
    def _draw_weights(
        self, key: Any, sweep: int, state: MembershipState, tables: Int64
    ) -> tuple[Float64, Float64, int]:
        """Draw (weights, top, number of occupied slots) given the tables."""

    def prepare(self, table: CellTable) -> MixtureData:
        """Lay the table out as rows of theta, records in the order of their pattern."""
        return lay_out(table)

    def compile(self) -> None:
        """Compile the kernels (or load them from the cache) on a toy table."""
        compile_on_toy_table(self)

    def init(self, stream: Stream, data: MixtureData) -> MembershipState:
        """Start from clusters of cells; their number and purity differ from chain to chain."""
        key = chain_key(stream.seed, stream.chain)
        n, n_keys = len(data.record_cell), len(data.offsets) - 1
        n_rows = int(data.offsets[-1])
        n_slots = self._first_slots(stream.chain)
        classes = start_classes(data, stream, self._start_limit())
        z = np.where(data.rows >= 0, classes[:, None], -1).astype(np.int16)[data.record_cell]
        # Pure starts hold only the opening of one table per record: about their posterior mean.
        # From the prior mean the first draw would fall to where alpha * g0 underflows.
        excess = sum(count / l for l, count in enumerate(data.at_least) if l)
        shared = self.alpha_shape / (self.alpha_rate + excess)
        empty = MembershipState(
            z=z,
            theta=np.full((n_rows, n_slots), 1.0, np.float32),
            weights=np.full(n_slots, 1.0 / n_slots),
            alpha={
                "shared": np.full(1, shared),
                "per-record": np.full(n, self.alpha_shape / self.alpha_rate),
                "hierarchical": np.full(n, _FIRST_SPREAD[0] / _FIRST_SPREAD[1]),
            }[self.alpha],
            spread=np.array(_FIRST_SPREAD if self.alpha == "hierarchical" else ()),
            top=np.array(self._first_top()),
            profile=self.first_profile(data),
        )
        counts = np.zeros((n_rows, n_slots), np.int32)
        stacks = np.zeros((n_keys, n_slots), np.int64)
        mixture.count(0, n, data.rows, data.record_cell, z, counts, stacks)
        state, _ = self._refresh(key, stream.sweep, empty, data, counts.astype(np.int64), stacks)
        return state

    def step(
        self, stream: Stream, state: MembershipState, data: MixtureData, n_threads: int
    ) -> tuple[MembershipState, Info]:
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

        in_parts(assign, n, n_threads)
        return self._refresh(
            key, stream.sweep, state._replace(z=z), data, counts.sum(axis=0), stacks.sum(axis=0)
        )

    def _refresh(
        self,
        key: Any,
        sweep: int,
        state: MembershipState,
        data: MixtureData,
        counts: Int64,
        stacks: Int64,
    ) -> tuple[MembershipState, Info]:
        """Draw everything above the records, given the tokens' components in `state.z`.

        Tables; split-merge, which changes z (the caller's own copy); weights; the profiles' prior
        and the profiles; the shared alpha.
        """
        slots = self._slots(state, Slots(state.z, state.weights, counts, stacks, state.theta))
        z, counts, stacks = slots.z, slots.counts, slots.stacks
        n_slots = counts.shape[1]
        tables = np.zeros(n_slots, np.int64)
        alpha, spread = state.alpha, state.spread
        if self.alpha == "shared":
            weight_kernels.draw_tables(key, sweep, float(alpha[0]), stacks, slots.weights, tables)
        else:
            shape, rate = spread if len(spread) else (self.alpha_shape, self.alpha_rate)
            alpha = alpha.copy()
            weight_kernels.draw_tables_and_alphas(
                key, sweep, z, slots.weights, float(shape), float(rate), alpha, tables
            )
            if len(spread):
                spread = np.array(weight_kernels.draw_spread(key, sweep, float(shape), alpha))
        moved = 0
        if self.split_merge:
            log_new, share = self._partition_prior(state, n_slots)
            moved = moves.split_merge(
                key,
                sweep,
                data.rows,
                data.record_cell,
                data.offsets,
                z,
                alpha,
                slots.weights,
                log_new,
                share,
                state.profile,
                tables,
                counts,
                stacks,
            )
        weights, top, occupied = self._draw_weights(key, sweep, state, tables)
        counts, stacks = padded(counts, len(weights)), padded(stacks, len(weights))
        profile, theta = self.draw_profiles(
            key, sweep, data, counts, stacks[0] > 0, state.profile, None if moved else slots.theta
        )
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
        values = {"alpha": float(alpha.mean()), "n_components": float(occupied)}
        values["split_merge"] = float(moved != 0)
        if len(top):
            values["top"] = float(top[0])
        return MembershipState(z, theta, weights, alpha, spread, top, profile), Info(values)

    def cell_probabilities(
        self, stream: Stream, state: MembershipState, data: MixtureData, cells: Int32
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

    def predictive_probabilities(
        self, stream: Stream, state: MembershipState, data: MixtureData, cells: Int32
    ) -> Float64:
        """`cell_probabilities` with the profiles integrated out.

        The tokens of a new record are of different keys, whose profiles are independent, so the
        probability is linear in each of them.
        """
        theta = self.mean_profiles(data, state.z, state.profile, len(state.weights))
        return self.cell_probabilities(stream, state._replace(theta=theta), data, cells)

    def impute(self, stream: Stream, state: MembershipState, data: MixtureData) -> Int32:
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

    def simulate(
        self, stream: Stream, state: MembershipState, data: MixtureData, n_records: int
    ) -> Int32:
        """Draw the keys of new individuals: records of which every key is missing."""
        key = chain_key(stream.seed, stream.chain)
        alpha = state.alpha
        if self.alpha != "shared":
            shape, rate = self._alpha_law(state)
            # The sweep stands above the word that counts blocks, so that sweeps share no number.
            counter = [0, stream.sweep, PURPOSE_SIMULATE, 0]
            rng = np.random.Generator(np.random.Philox(key=key, counter=counter))
            alpha = np.maximum(rng.gamma(shape, 1.0 / rate, n_records), 1e-100)
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
        sweep = len(data.record_cell) * (60.0 + 20.0 * n_keys)
        # Drawing the profiles: all levels of all keys, for about as many slots as at first.
        sweep += 60.0 * float(data.offsets[-1]) * FIRST_SLOTS
        if n_keys <= _EXACT_KEYS:
            return sweep, 7.0 * 2.0**n_keys + 3.0 ** (n_keys - 2)
        return sweep, 200.0 * n_keys**2

    def _alpha_law(self, state: MembershipState) -> tuple[float, float]:
        """Shape and rate of the gamma law of the records' alphas."""
        if len(state.spread):
            return max(float(state.spread[0]), _LEAST_SHAPE), float(state.spread[1])
        return self.alpha_shape, self.alpha_rate

    def _new_record_alpha(self, state: MembershipState) -> tuple[Float64, Float64]:
        """Return the concentration of an unobserved individual: values and their probabilities."""
        if self.alpha == "shared":
            return state.alpha, np.ones(1)
        return _gamma_nodes(*self._alpha_law(state))


def _slots_that_matter(state: MembershipState) -> Int64:
    """Slots in falling weight: all that hold tokens, and sticks until the rest is negligible.

    An occupied slot may weigh as little as 1/n, so none of them is dropped.
    """
    slots = np.argsort(-state.weights, kind="stable")
    keep = np.bincount(state.z.ravel() + 1, minlength=len(slots) + 1)[1:][slots] > 0
    keep[: 1 + np.searchsorted(np.cumsum(state.weights[slots]), 1.0 - _NEGLIGIBLE)] = True
    return slots[keep]


@lru_cache(maxsize=8)
def _gamma_nodes(shape: float, rate: float) -> tuple[Float64, Float64]:
    """Gauss quadrature of Gamma(shape, rate) in u = alpha / (3 + alpha).

    There the chances of a record's partitions, alpha^m Gamma(alpha) / Gamma(alpha + J), are smooth
    whatever the scale of alpha; in alpha itself they are not where the rate is small. The 3 keeps
    the poles at alpha = -1, ..., 1 - J far from both ends of u.
    """
    # The measure on a fine grid of log alpha, by the trapezium rule.
    reach = 12.0 * np.sqrt(shape) + 40.0
    low = np.log(shape - reach) if shape > 400.0 else -40.0 / shape
    eta = np.linspace(low, np.log(shape + reach), 2001)
    mass = shape * eta - np.exp(eta)
    mass = np.exp(mass - mass.max())
    alpha = np.exp(eta) / rate
    u = alpha / (3.0 + alpha)
    # Its orthonormal polynomials (Stieltjes), whose recurrence has the nodes as eigenvalues.
    diagonal, beside = np.empty(_NODES), np.zeros(_NODES)
    before, now = np.zeros_like(u), np.sqrt(mass / mass.sum())
    basis = [now]
    for p in range(_NODES):
        diagonal[p] = u @ now**2
        after = (u - diagonal[p]) * now - (beside[p - 1] if p else 0.0) * before
        for other in basis:
            after -= (other @ after) * other
        beside[p] = np.sqrt(after @ after)
        before, now = now, after / max(beside[p], 1e-300)
        basis.append(now)
    jacobi = np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
    nodes, vectors = np.linalg.eigh(jacobi)
    return np.maximum(3.0 * nodes / (1.0 - nodes), 1e-100), vectors[0] ** 2
