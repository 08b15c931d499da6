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

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from unikat._typing import Bool, Float32, Float64, Int16, Int32, Int64
from unikat.data.companions import Companions
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.kernels import mixture, split_merge
from unikat.kernels import weights as weight_kernels
from unikat.kernels.random import PURPOSE_IMPUTE, PURPOSE_SIMULATE
from unikat.models.base import Info, PopulationLaw, Stream, Uncertainty
from unikat.models.device import on_gpu
from unikat.models.groups import Groups
from unikat.models.mixtures import truncation
from unikat.models.mixtures.completions import completions, grouped_completions
from unikat.models.mixtures.components import FIRST_COMPONENTS, Components, base_tables_of, padded
from unikat.models.mixtures.homes import OfPersons
from unikat.models.mixtures.latent_class import LatentClass
from unikat.models.mixtures.left_out import (
    asked_of,
    membership_drawn,
    summed,
    thinned_memberships,
)
from unikat.models.mixtures.new_record import (
    EXACT_KEYS,
    NewRecord,
    gamma_nodes,
    group_probabilities,
    possible_mass,
    possible_probabilities,
    row_probabilities,
)
from unikat.models.mixtures.profiles import ProfilePrior
from unikat.models.mixtures.truncation import TruncationPrior
from unikat.models.options import PRIOR, check_bool, check_choice, check_numbers
from unikat.models.records import (
    MixtureData,
    compile_on_toy_table,
    in_parts,
    lay_out,
    rows_of,
    start_classes,
)
from unikat.models.state_checks import mixture_fits, positive
from unikat.rng import chain_key

_LEAST_SHAPE = 0.05
_FIRST_SPREAD = (1.0, 1.0)


class MembershipState(NamedTuple):
    """State of a mixed-membership sampler."""

    z: Int16
    """(n_records, n_keys): component of each known key, -1 where missing."""
    theta: Float32
    """(n_rows, n_components)"""
    weights: Float64
    """(n_components,): g0, sum 1; empty components of the HDP hold sticks of the unseen part."""
    alpha: Float64
    """(1,) shared, or (n_records,)."""
    spread: Float64
    """(2,): shape and rate of the law of the alphas if it is learned, else (0,)."""
    top: Float64
    """(1,): alpha_0; (0,) where the number of components is fixed."""
    profile: Float64
    """(n_rows,): Dirichlet parameters of the profiles."""
    imputed: Int32
    """(n_incomplete, n_keys): rows of the incomplete records' keys under structural zeros."""
    impossible: Int32
    """(n_rows, n_components): tokens of the simulated impossible records; (n_rows, 0) without
    structural zeros."""
    impossible_tables: Int64
    """(n_components,): tables that these opened, 0 if no record has companions; (0,) without
    structural zeros."""
    homes: Any = ()
    """State of latent classes of households, where their shared keys have a law of their own."""


@dataclass(frozen=True, kw_only=True)
class MixedMembership(ProfilePrior, TruncationPrior, OfPersons[MembershipState, MixtureData]):
    """What HDP and grade of membership share.

    Parameters
    ----------
    alpha
        `"shared"`: one concentration for all records, learned; `"per-record"`: one for each
        record, with the fixed prior below (paper 1); `"hierarchical"`: one for each record, shape
        and rate of their gamma law learned, each with the prior Gamma(1, 1).
    alpha_shape, alpha_rate
        Gamma prior of alpha, each from 1e-6 to 1e6 (the shape from 0.05 if per record); not used if
        hierarchical.
    split_merge
        Propose to split or merge components in every sweep.
    """

    name: ClassVar[str]
    population: ClassVar[PopulationLaw] = "multinomial"
    uncertainty: ClassVar[Uncertainty] = "posterior"
    leaves_out_companions: ClassVar[bool] = True
    alpha: Literal["shared", "per-record", "hierarchical"] = "shared"
    alpha_shape: float = 2.0
    alpha_rate: float = 1.0
    split_merge: bool = True

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_choice("alpha", self.alpha, ("shared", "per-record", "hierarchical"))
        check_numbers(self, {"alpha_shape": PRIOR, "alpha_rate": PRIOR})
        check_bool(self, "split_merge")
        self.check_tempering()
        if self.alpha == "per-record" and self.alpha_shape < _LEAST_SHAPE:
            raise SpecError(
                f"model option alpha_shape is {self.alpha_shape!r}; with alpha = 'per-record' it "
                f"must be at least {_LEAST_SHAPE}, since below that the prior of alpha runs into "
                "zero. Take a larger alpha_shape, or alpha = 'shared'."
            )

    @abstractmethod
    def _first_components(self, chain: int) -> int:
        """Components at the start of a chain, a multiple of 8."""

    def _compacted(self, state: MembershipState, components: Components) -> Components:
        """Drop components where few are needed."""
        return components

    @abstractmethod
    def _start_limit(self) -> int | None:
        """Most classes a chain may start from."""

    @abstractmethod
    def _first_top(self) -> list[float]:
        """alpha_0 at the start of a chain, if there is one."""

    @abstractmethod
    def _partition_prior(self, state: MembershipState, n_components: int) -> tuple[Float64, float]:
        """`log_new` and `share` of `split_merge.propose`."""

    @abstractmethod
    def weight_exponents(self, state: MembershipState, tables: Int64) -> tuple[float, float]:
        """`share` and `total_exponent` of `truncation.along_ridges`."""

    @abstractmethod
    def _draw_weights(
        self, key: Any, sweep: int, state: MembershipState, tables: Int64
    ) -> tuple[Float64, Float64, int]:
        """Draw (weights, top, number of occupied components) given the tables."""

    @property
    def _homes_model(self) -> LatentClass:
        return LatentClass()

    def _prepare(self, table: CellTable) -> MixtureData:
        """Lay the table out as rows of theta, records in the order of their pattern."""
        return lay_out(table)

    def compile(self, zeros: bool = False) -> None:
        """Compile the kernels (or load them from the cache) on a toy table."""
        compile_on_toy_table(self, zeros)

    def _init(self, stream: Stream, data: MixtureData) -> MembershipState:
        """Start from clusters of cells; their number and purity differ from chain to chain."""
        key = chain_key(stream.seed, stream.chain)
        n, n_keys = len(data.record_cell), len(data.offsets) - 1
        n_rows = int(data.offsets[-1])
        n_components = self._first_components(stream.chain)
        classes = start_classes(data, stream, self._start_limit())
        imputed = np.empty((0, n_keys), np.int32)
        records = data
        if data.zeros is not None:
            imputed = truncation.first_completed(key, data.zeros, data)
            records = truncation.augmented(data, imputed, imputed[:0])
        known = records.rows[records.record_cell] >= 0
        z = np.where(known, classes[data.record_cell][:, None], -1).astype(np.int16)
        # Pure starts hold only the opening of one table per record: about their posterior mean.
        # From the prior mean the first draw would fall to where alpha * g0 underflows.
        excess = sum(count / l for l, count in enumerate(records.at_least) if l)
        shared = self.alpha_shape / (self.alpha_rate + excess)
        empty = MembershipState(
            z=z,
            theta=np.full((n_rows, n_components), 1.0, np.float32),
            weights=np.full(n_components, 1.0 / n_components),
            alpha={
                "shared": np.full(1, shared),
                "per-record": np.full(n, self.alpha_shape / self.alpha_rate),
                "hierarchical": np.full(n, _FIRST_SPREAD[0] / _FIRST_SPREAD[1]),
            }[self.alpha],
            spread=np.array(_FIRST_SPREAD if self.alpha == "hierarchical" else ()),
            top=np.array(self._first_top()),
            profile=self.first_profile(data),
            imputed=imputed,
            impossible=np.empty((n_rows, 0), np.int32),
            impossible_tables=np.empty(0, np.int64),
        )
        counts = np.zeros((n_rows, n_components), np.int32)
        stacks = np.zeros((n_keys, n_components), np.int64)
        mixture.count(0, n, records.rows, records.record_cell, z, counts, stacks)
        state, _ = self._refresh(key, stream.sweep, empty, records, counts.astype(np.int64), stacks)
        return state

    def state_bytes(self, data: MixtureData) -> float:
        """Bytes that a sweep needs: profiles, counts and tables of every component, and z."""
        return (
            24.0 * float(data.offsets[-1]) * self._first_components(0) + 4.0 * data.record_cell.size
        )

    def _state_fits(
        self, state: MembershipState, data: MixtureData, start: MembershipState
    ) -> bool:
        """Whether a state of a file has shapes and indices that the kernels can read."""
        limited = self._start_limit() is not None
        n_alphas = 1 if self.alpha == "shared" else len(data.record_cell)
        return (
            mixture_fits(state, data, self._first_components(0) if limited else 8)
            and state.alpha.shape == (n_alphas,)
            and state.spread.shape == ((2,) if self.alpha == "hierarchical" else (0,))
            and state.top.shape == (len(self._first_top()),)
            and all(positive(values) for values in (state.alpha, state.spread, state.top))
            and state.impossible_tables.shape == state.impossible.shape[1:]
            and bool((state.impossible_tables >= 0).all())
            and bool((state.impossible_tables <= state.impossible.sum(axis=0)).all())
        )

    def _step(
        self, stream: Stream, state: MembershipState, data: MixtureData, n_threads: int
    ) -> tuple[MembershipState, Info]:
        """One sweep: all tokens' components given (g0, theta, alpha), then those given them."""
        key = chain_key(stream.seed, stream.chain)
        n, n_keys = state.z.shape
        imputed, observed = state.imputed, data
        if data.zeros is not None:
            which = truncation.incomplete(data)
            imputed = truncation.completed(
                key, stream.sweep, data.zeros, data, state.z[which], state.theta
            )
            data = truncation.augmented(data, imputed, imputed[:0])
        n_rows, n_components = state.theta.shape
        base_tables = base_tables_of(state.theta, state.weights)
        z = state.z.copy()
        counts = np.zeros((n_threads, n_rows, n_components), np.int32)
        stacks = np.zeros((n_threads, n_keys, n_components), np.int64)

        alpha = state.alpha
        rising = np.ones((n_keys + 1 if self.alpha == "shared" else 0, n_components))
        for size in range(1, len(rising)):
            rising[size] = rising[size - 1] * (alpha[0] * state.weights + (size - 1))
        given = mixture.Given(alpha, state.weights, rising, state.theta)

        def assign(part: int, first: int, last: int) -> None:
            tally = mixture.Tally(counts[part], stacks[part])
            mixture.assign(
                key, stream.sweep, first, last, data.arrays, z, given, base_tables, tally
            )

        state = state._replace(z=z, imputed=imputed)
        if on_gpu() and observed.zeros is None:
            from unikat.kernels.cuda import mixture as cuda_kernels

            if cuda_kernels.can_assign(n_keys, n_components):
                tallied = cuda_kernels.assign(key, stream.sweep, data.arrays, z, given, base_tables)
                return self._refresh(key, stream.sweep, state, data, *tallied)
        in_parts(assign, n, n_threads)
        if observed.zeros is None:
            return self._refresh(
                key, stream.sweep, state, data, counts.sum(axis=0), stacks.sum(axis=0)
            )
        total_counts, total_stacks = counts.sum(axis=0), stacks.sum(axis=0)
        prior = truncation.MembershipPrior(
            alpha if self.alpha == "shared" else np.array(self.record_law(state)),
            state.profile,
            partial(self.weight_exponents, state),
        )
        tally, most = (total_counts, total_stacks), self.n_possible(n)
        theta, weights, more = truncation.impossible_memberships(
            key, stream.sweep, observed, most, prior, state.theta, state.weights, tally, n_threads
        )
        state = state._replace(theta=theta, weights=weights)
        data = truncation.augmented(observed, imputed, more.rows)
        n_more = len(more.rows)
        mixture.count(
            n,
            n + n_more,
            data.rows,
            data.record_cell,
            z := np.concatenate((z, more.z)),
            total_counts,
            total_stacks,
        )
        if self.alpha != "shared":
            alpha = np.concatenate((alpha, more.alpha))
        state, info = self._refresh(
            key,
            stream.sweep,
            state._replace(z=z, alpha=alpha),
            data,
            total_counts,
            total_stacks,
        )
        impossible = np.zeros(state.theta.shape, np.int32)
        ignored = np.zeros((n_keys, state.theta.shape[1]), np.int64)
        mixture.count(n, n + n_more, data.rows, data.record_cell, state.z, impossible, ignored)
        tables = np.zeros(state.theta.shape[1], np.int64)
        if observed.place is not None:
            # Only where companions are taken out of a record's probability.
            opens = self._opens(key, stream.sweep, state, n)
            tables = np.bincount(state.z[n:][opens], minlength=len(tables))
        state = state._replace(
            z=state.z[:n].copy(),
            alpha=state.alpha if self.alpha == "shared" else state.alpha[:n].copy(),
            impossible=impossible,
            impossible_tables=tables,
        )
        info.values["impossible_mass"] = n_more / (n_more + self.n_possible(n))
        return state, info

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
        components = self._compacted(
            state, Components(state.z, state.weights, counts, stacks, state.theta)
        )
        z, counts, stacks = components.z, components.counts, components.stacks
        n_components = counts.shape[1]
        tables = np.zeros(n_components, np.int64)
        alpha, spread = state.alpha, state.spread
        if self.alpha == "shared":
            weight_kernels.draw_tables(
                key, sweep, float(alpha[0]), stacks, components.weights, tables
            )
        else:
            shape, rate = self.record_law(state)
            alpha = alpha.copy()
            weight_kernels.draw_tables_and_alphas(
                key, sweep, z, components.weights, shape, rate, alpha, tables
            )
            if len(spread):
                spread = np.array(weight_kernels.draw_spread(key, sweep, shape, alpha))
        moved = 0
        if self.split_merge:
            log_new, share = self._partition_prior(state, n_components)
            prior = split_merge.PartitionPrior(
                alpha, components.weights, log_new, share, state.profile
            )
            partition = split_merge.Partition(z, tables, counts, stacks)
            moved = split_merge.propose(key, sweep, data.arrays, prior, partition)
        weights, top, occupied = self._draw_weights(key, sweep, state, tables)
        counts, stacks = padded(counts, len(weights)), padded(stacks, len(weights))
        profile, theta = self.draw_profiles(
            key,
            sweep,
            data,
            counts,
            stacks[0] > 0,
            state.profile,
            None if moved else components.theta,
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
        # Of the records stay the missing keys, and what is impossible.
        state = MembershipState(z, theta, weights, alpha, spread, top, profile, *state[7:])
        return state, Info(values)

    def _probabilities(
        self,
        stream: Stream,
        state: MembershipState,
        data: MixtureData,
        cells: Int32,
        groups: Groups | None,
    ) -> Float64:
        """Probability of each cell for a new individual, (n,); -1 leaves a key out.

        Exact for up to 11 keys, beyond that an unbiased estimate; under structural zeros that of a
        possible individual (see `new_record.possible_mass`).
        """
        if len(cells) == 0:
            return np.empty(0)
        key = chain_key(stream.seed, stream.chain)
        record = self._new_record(state)
        if data.zeros is not None:
            parts = (
                completions(data.zeros, data.offsets, cells)
                if groups is None
                else grouped_completions(data.zeros, data.offsets, groups, cells)
            )
            return possible_probabilities(key, stream.sweep, record, data, parts, len(cells))
        if groups is not None:
            return group_probabilities(key, stream.sweep, record, groups, cells)
        rows = rows_of(cells, data.offsets)
        return row_probabilities(key, stream.sweep, record, data.offsets, rows)

    def _thinned(
        self,
        stream: Stream,
        state: MembershipState,
        data: MixtureData,
        cells: Int32,
        p: Float64,
        companions: Companions,
        groups: Groups | None,
    ) -> Float64:
        """Probabilities of cells without their companions, (n,); see `kernels.thinning`.

        Under structural zeros the probability of the possible cells is that with the companions.
        """
        if data.place is None:
            return p
        key = chain_key(stream.seed, stream.chain)
        record = self._new_record(state)
        opens = self._opens(key, stream.sweep, state)
        drawn = membership_drawn(data, record, state, opens, self.weight_exponents(state, _NONE)[0])
        owner, asked = asked_of(data, drawn.theta, cells, groups)
        of = companions.taken(owner)
        places = of._replace(records=data.place[of.records])
        found = thinned_memberships(key, stream.sweep, places, record, drawn, asked)
        mass = 1.0
        if data.zeros is not None:
            mass = possible_mass(key, stream.sweep, record, data)
        return summed(owner, found, mass, p, companions.some)

    def _opens(self, key: Any, sweep: int, state: MembershipState, first: int = 0) -> Bool:
        """Draw which tokens of the records from `first` on open a table, (n, n_keys)."""
        z = state.z[first:]
        opens = np.empty(z.shape, np.bool_)
        alpha = state.alpha if self.alpha == "shared" else state.alpha[first:]
        weight_kernels.open_tables(key, sweep, first, z, alpha, state.weights, opens)
        return opens

    def predictive_probabilities(
        self, stream: Stream, state: MembershipState, data: MixtureData, cells: Int32
    ) -> Float64:
        """`cell_probabilities` with the profiles integrated out.

        The tokens of a new record are of different keys, whose profiles are independent, so the
        probability is linear in each of them. Under structural zeros the normalising constant is
        that of the mean profiles, which costs about a percent.
        """
        records = data
        if data.zeros is not None:
            records = truncation.augmented(data, state.imputed, state.imputed[:0])
        theta = self.mean_profiles(
            records, state.z, state.profile, len(state.weights), state.impossible
        )
        return self._probabilities(stream, state._replace(theta=theta), data, cells, None)

    def impute(self, stream: Stream, state: MembershipState, data: MixtureData) -> Int32:
        """Draw the missing keys of the incomplete records, in the order of the records."""
        if data.zeros is not None:
            return (state.imputed - data.offsets[:-1]).astype(np.int32)
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
        if data.zeros is not None:
            return truncation.first_possible(
                lambda start, n: self._simulate(stream, state, data, start, n),
                data.zeros,
                n_records,
            )
        return self._simulate(stream, state, data, 0, n_records)

    def _simulate(
        self, stream: Stream, state: MembershipState, data: MixtureData, start: int, n_records: int
    ) -> Int32:
        """Draw new individuals, numbered from `start`, possible or not."""
        key = chain_key(stream.seed, stream.chain)
        alpha = state.alpha
        if self.alpha != "shared":
            shape, rate = self._alpha_law(state)
            # The sweep stands above the word that counts blocks, so that sweeps share no number.
            counter = [0, stream.sweep, PURPOSE_SIMULATE, start]
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
            start,
        )
        return (rows - data.offsets[:-1]).astype(np.int32)

    def _cost(self, data: MixtureData) -> tuple[float, float]:
        """Nanoseconds, roughly, of a sweep and of one cell probability."""
        n_keys = data.rows.shape[1]
        sweep = len(data.record_cell) * (60.0 + 20.0 * n_keys)
        # Drawing the profiles: all levels of all keys, for about as many components as at first.
        sweep += 60.0 * float(data.offsets[-1]) * FIRST_COMPONENTS
        # With companions left out once more, and nothing shared with other cells.
        times = 1.0 if data.place is None else 2.5
        if n_keys <= EXACT_KEYS:
            return sweep, times * (2.3 * 2.0**n_keys + 0.4 * 3.0 ** (n_keys - 2))
        return sweep, times * 200.0 * n_keys**2

    def _alpha_law(self, state: MembershipState) -> tuple[float, float]:
        """`record_law` with a shape that quadrature can do with."""
        shape, rate = self.record_law(state)
        return max(shape, _LEAST_SHAPE), rate

    def record_law(self, state: MembershipState) -> tuple[float, float]:
        """Shape and rate of the gamma law of the records' alphas."""
        if len(state.spread):
            return float(state.spread[0]), float(state.spread[1])
        return self.alpha_shape, self.alpha_rate

    def concentrations(self, state: MembershipState) -> tuple[Float64, Float64]:
        """Return values of a new record's alpha, (n_nodes,), and their probabilities."""
        if self.alpha == "shared":
            return state.alpha, np.ones(1)
        return gamma_nodes(*self._alpha_law(state))

    def _new_record(self, state: MembershipState) -> NewRecord:
        """Return what the law of an unobserved individual depends on."""
        alpha, share = self.concentrations(state)
        used = np.bincount(state.z.ravel() + 1, minlength=len(state.weights) + 1)[1:] > 0
        return NewRecord(state.theta, state.weights, alpha, share, used)


_NONE = np.empty(0, np.int64)
