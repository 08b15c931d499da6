"""Latent classes: one component for all keys of a record (Dirichlet process mixture, DPMPM).

    X_ij | Z_i = k  ~  theta_j^(k)          key j of record i
    Z_i             ~  g0
    g0              ~  GEM(alpha_0)
    theta_j^(k)     ~  Dirichlet(c_j b_j)   see `models.profiles`

Dunson & Xing (2009); the limit of the mixed-membership models for alpha -> 0. Within a class the
keys are independent, so a cell's probability is one sum over the classes. The sampler draws the
classes of identical records together: the cost of a sweep follows distinct cells, not records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from unikat._typing import Bool, Float32, Float64, Int16, Int32, Int64
from unikat.data.companions import Companions
from unikat.data.table import CellTable
from unikat.kernels import latent_class as kernels
from unikat.kernels import mixture, split_merge, thinning
from unikat.kernels.random import PURPOSE_IMPUTE, PURPOSE_SIMULATE
from unikat.kernels.truncation import RidgePrior, Seen
from unikat.models.base import Info, PopulationLaw, Stream, Uncertainty
from unikat.models.device import on_gpu
from unikat.models.groups import Groups
from unikat.models.mixtures import truncation
from unikat.models.mixtures.completions import completions, grouped_completions
from unikat.models.mixtures.components import (
    FIRST_COMPONENTS,
    Components,
    compacted,
    draw_sticks,
    first_components,
    padded,
)
from unikat.models.mixtures.homes import Homes, OfPersons
from unikat.models.mixtures.left_out import asked_of, sampled_rows, summed
from unikat.models.mixtures.profiles import ProfilePrior
from unikat.models.mixtures.truncation import TruncationPrior
from unikat.models.options import PRIOR, check_bool, check_numbers
from unikat.models.records import (
    MixtureData,
    compile_on_toy_table,
    in_blocks,
    in_parts,
    lay_out,
    rows_of,
    sorted_places,
    start_classes,
)
from unikat.models.state_checks import mixture_fits, positive
from unikat.rng import chain_key


class LatentClassData(NamedTuple):
    """The table, and its cells in the order of the walk."""

    records: MixtureData
    walk: kernels.Walk
    """Keys with few levels first."""
    asked: dict[tuple[int, int], tuple[bytes, Int32, Int64]]
    """The cells that were asked for first, by their place in memory, with the walk along them:
    those at risk are asked for in every draw, and arranging them takes as long as the rest."""
    homes: Homes | None = None


class LatentClassState(NamedTuple):
    """State of the latent class sampler."""

    z: Int16
    """(n_records, 1): class of each record, -1 for a record without known keys."""
    theta: Float32
    """(n_rows, n_components)"""
    weights: Float64
    """(n_components,): g0; empty components hold sticks of the unseen part; they sum to 1."""
    top: Float64
    """(1,): alpha_0."""
    profile: Float64
    """(n_rows,): Dirichlet parameters of the profiles."""
    imputed: Int32
    """(n_incomplete, n_keys): rows of the incomplete records' keys under structural zeros."""
    impossible: Int32
    """(n_rows, n_components): tokens of the simulated impossible records; (n_rows, 0) without
    structural zeros."""
    homes: Any = ()
    """State of the same classes of households, where their shared keys have a law of their own."""


@dataclass(frozen=True, kw_only=True)
class LatentClass(ProfilePrior, TruncationPrior, OfPersons[LatentClassState, LatentClassData]):
    """Latent classes, any number of them.

    Parameters
    ----------
    top_shape, top_rate
        Gamma prior of alpha_0, each from 1e-6 to 1e6; Dunson & Xing (2009) have 1/4 for both.
    split_merge
        Propose to split or merge classes in every sweep.

    See Also
    --------
    ProfilePrior : the profiles' prior.

    >>> LatentClass(split_merge=False).top_shape
    0.25
    """

    name: ClassVar[str] = "latent-class"
    population: ClassVar[PopulationLaw] = "multinomial"
    uncertainty: ClassVar[Uncertainty] = "posterior"
    leaves_out_companions: ClassVar[bool] = True
    top_shape: float = 0.25
    top_rate: float = 0.25
    split_merge: bool = True

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_numbers(self, {"top_shape": PRIOR, "top_rate": PRIOR})
        check_bool(self, "split_merge")
        self.check_tempering()

    @property
    def _homes_model(self) -> LatentClass:
        return LatentClass()

    def _prepare(self, table: CellTable) -> LatentClassData:
        """Lay the table out as rows of theta, and sort its cells for the walk."""
        records = lay_out(table)
        # Under structural zeros incomplete records have imputed cells of their own.
        dealt = np.flatnonzero(~table.incomplete | (table.zeros is None))
        walk, cell = _walk(records.rows[dealt], records.offsets)
        cell = dealt[cell]
        starts = np.concatenate(([0], np.cumsum(table.counts)))
        return LatentClassData(records, kernels.Walk(walk, cell, starts), {})

    def compile(self, zeros: bool = False) -> None:
        """Compile the kernels (or load them from the cache) on a toy table."""
        compile_on_toy_table(self, zeros)

    def _init(self, stream: Stream, data: LatentClassData) -> LatentClassState:
        """Start from clusters of cells; their number and purity differ from chain to chain."""
        key = chain_key(stream.seed, stream.chain)
        records, n_components = data.records, first_components(stream.chain)
        imputed = np.empty((0, len(records.offsets) - 1), np.int32)
        filled = records
        if records.zeros is not None:
            imputed = truncation.first_completed(key, records.zeros, records)
            filled = truncation.augmented(records, imputed, imputed[:0])
        rows = filled.rows[filled.record_cell]
        z = start_classes(records, stream)[records.record_cell].astype(np.int16)
        z[np.all(rows < 0, axis=1)] = -1
        start = LatentClassState(
            z=z[:, None],
            theta=np.full((int(records.offsets[-1]), n_components), 1.0, np.float32),
            weights=np.full(n_components, 1.0 / n_components),
            top=np.array([self.top_shape / self.top_rate]),
            profile=self.first_profile(records),
            imputed=imputed,
            impossible=np.empty((int(records.offsets[-1]), 0), np.int32),
        )
        counts = np.zeros((len(start.profile), n_components), np.int64)
        kernels.count(rows, start.z, counts)
        sizes = np.bincount(z[z >= 0], minlength=n_components).astype(np.int64)
        return self._refresh(key, stream.sweep, start, filled, counts, sizes)[0]

    def _state_fits(
        self, state: LatentClassState, data: LatentClassData, start: LatentClassState
    ) -> bool:
        """Whether a state of a file has shapes and indices that the kernels can read."""
        return (
            mixture_fits(state, data.records, 8) and state.top.shape == (1,) and positive(state.top)
        )

    def _step(
        self, stream: Stream, state: LatentClassState, data: LatentClassData, n_threads: int
    ) -> tuple[LatentClassState, Info]:
        """One sweep: all records' classes given (g0, theta), then those given them."""
        key = chain_key(stream.seed, stream.chain)
        z = np.empty_like(state.z)
        gpu = _gpu() if data.records.zeros is None else None
        if gpu is not None and gpu.can_allocate(len(state.weights)):
            counts, sizes = gpu.allocate(
                key, stream.sweep, data.walk, state.theta, state.weights, z
            )
            return self._refresh(
                key, stream.sweep, state._replace(z=z), data.records, counts, sizes
            )
        n_rows, n_components = state.theta.shape
        counts = np.zeros((n_threads, n_rows, n_components), np.int64)
        sizes = np.zeros((n_threads, n_components), np.int64)

        def allocate(part: int, first: int, last: int) -> None:
            kernels.allocate(
                key,
                stream.sweep,
                first,
                last,
                data.walk,
                state.theta,
                state.weights,
                z,
                counts[part],
                sizes[part],
            )

        in_parts(allocate, len(data.walk.rows), n_threads)
        if data.records.zeros is None:
            return self._refresh(
                key,
                stream.sweep,
                state._replace(z=z),
                data.records,
                counts.sum(axis=0),
                sizes.sum(axis=0),
            )
        return self._step_possible(
            key,
            stream.sweep,
            state,
            data.records,
            z,
            counts.sum(axis=0),
            sizes.sum(axis=0),
            n_threads,
        )

    def _step_possible(
        self,
        key: Any,
        sweep: int,
        state: LatentClassState,
        records: MixtureData,
        z: Int16,
        counts: Int64,
        sizes: Int64,
        n_threads: int,
    ) -> tuple[LatentClassState, Info]:
        """Rest of a sweep under structural zeros, the complete records' classes in `z` drawn."""
        assert records.zeros is not None
        n, (n_rows, n_components) = len(z), state.theta.shape
        which = truncation.incomplete(records)
        imputed = truncation.completed(
            key, sweep, records.zeros, records, state.z[which], state.theta
        )
        if len(which):
            walk, place = _walk(imputed, records.offsets)
            first = len(records.rows)
            starts = np.concatenate((np.zeros(first, np.int64), np.arange(len(which) + 1)))
            drawn = np.empty((len(which), 1), np.int16)
            kernels.allocate(
                key,
                sweep,
                0,
                len(walk),
                kernels.Walk(walk, first + place, starts),
                state.theta,
                state.weights,
                drawn,
                counts,
                sizes,
            )
            z[which] = drawn
        n_seen = self.n_possible(n)
        theta, weights = truncation.along_ridges(
            key,
            sweep,
            records.zeros,
            records,
            Seen(counts, sizes, n_seen),
            RidgePrior(state.profile, 0.0, 0.0, float(state.top[0]) + sizes.sum()),
            state.theta,
            state.weights,
        )
        state = state._replace(theta=theta, weights=weights)
        more = truncation.simulate_classes(
            key, sweep, records.zeros, records, n_seen, weights, theta, n_threads
        )
        kernels.count(more.rows, more.z, counts)
        sizes += np.bincount(more.z[:, 0], minlength=n_components)
        state, info = self._refresh(
            key,
            sweep,
            state._replace(z=np.concatenate((z, more.z)), imputed=imputed),
            truncation.augmented(records, imputed, more.rows),
            counts,
            sizes,
        )
        impossible = np.zeros((n_rows, len(state.weights)), np.int64)
        kernels.count(more.rows, state.z[n:], impossible)
        info.values["impossible_mass"] = len(more.rows) / (len(more.rows) + n_seen)
        state = state._replace(z=state.z[:n].copy(), impossible=impossible.astype(np.int32))
        return state, info

    def _refresh(
        self,
        key: Any,
        sweep: int,
        state: LatentClassState,
        data: MixtureData,
        counts: Int64,
        sizes: Int64,
    ) -> tuple[LatentClassState, Info]:
        """Split-merge on `state.z` (the caller's own copy); then weights and profiles."""
        components = compacted(
            Components(state.z, state.weights, counts, sizes[None, :], state.theta),
            float(state.top[0]),
        )
        # A table is a record here.
        tables = components.stacks[0].copy()
        moved = 0
        if self.split_merge:
            log_new = np.full(len(tables), math.log(float(state.top[0])))
            prior = split_merge.PartitionPrior(
                np.zeros(1), components.weights, log_new, 0.0, state.profile
            )
            partition = split_merge.Partition(
                components.z, tables, components.counts, components.stacks
            )
            moved = split_merge.propose(key, sweep, data.arrays, prior, partition)
        weights, top, occupied = draw_sticks(
            key, sweep, float(state.top[0]), self.top_shape, self.top_rate, tables
        )
        counts = padded(components.counts, len(weights))
        holds_tokens = padded(components.stacks[0], len(weights)) > 0
        profile, theta = self.draw_profiles(
            key,
            sweep,
            data,
            counts,
            holds_tokens,
            state.profile,
            None if moved else components.theta,
        )
        info = Info({"top": top, "n_components": float(occupied), "split_merge": float(moved != 0)})
        state = LatentClassState(
            components.z, theta, weights, np.array([top]), profile, state.imputed, state.impossible
        )
        return state, info

    def _probabilities(
        self,
        stream: Stream,
        state: LatentClassState,
        data: LatentClassData,
        cells: Int32,
        groups: Groups | None,
    ) -> Float64:
        """Probability of each cell for a new individual, (n,), exactly; -1 leaves a key out.

        Under structural zeros that of a possible individual.
        """
        records = data.records
        offsets, theta = records.offsets, state.theta.astype(np.float64)
        if records.zeros is not None:
            parts = (
                completions(records.zeros, offsets, cells)
                if groups is None
                else grouped_completions(records.zeros, offsets, groups, cells)
            )
            p = _probabilities(
                parts.rows, np.vstack((theta, parts.sets @ theta)), state.weights, offsets
            )
            mass = float(state.weights @ truncation.chances(records.zeros, records, theta)[0])
            total = np.bincount(parts.owner, p, minlength=len(cells)) / max(mass, 1e-300)
            return np.minimum(total, 1.0)
        if groups is not None:
            # The same cells are asked for with all keys and with the shared ones alone.
            asked, number = cells.tobytes(), _WALK + (cells[:1] >= 0).tobytes()
            kept, walk, place = groups.found.get(number, (b"", cells, groups.offsets))
            if kept != asked:
                walk, place = _walk(rows_of(cells, groups.offsets), groups.offsets)
                groups.found[number] = (asked, walk, place)
            return _along(walk, place, groups.sums(theta), state.weights)

        def probabilities(cells: Int32) -> Float64:
            walk, place = _kept_walk(data.asked, cells, offsets)
            return _along(walk, place, theta, state.weights)

        return in_blocks(probabilities, cells)

    def _thinned(
        self,
        stream: Stream,
        state: LatentClassState,
        data: LatentClassData,
        cells: Int32,
        p: Float64,
        companions: Companions,
        groups: Groups | None,
    ) -> Float64:
        """Probabilities of cells without their companions, (n,); see `kernels.thinning`.

        Under structural zeros the probability of the possible cells is that with the companions.
        """
        records = data.records
        if records.place is None:
            return p
        owner, found, _ = self._thin(stream, state, data, cells, companions, groups, None)
        mass = 1.0
        if records.zeros is not None:
            theta = state.theta.astype(np.float64)
            mass = float(state.weights @ truncation.chances(records.zeros, records, theta)[0])
        return summed(owner, found, mass, p, companions.some)

    def _thinned_both(
        self,
        stream: Stream,
        state: LatentClassState,
        data: LatentClassData,
        cells: Int32,
        shared: Int32,
        companions: Companions,
        groups: Groups | None,
    ) -> tuple[Float64, Float64]:
        """Both at once where a cell is one product for each class."""
        homes = data.homes
        if data.records.zeros is not None or homes is None:
            return super()._thinned_both(stream, state, data, cells, shared, companions, groups)
        part = np.zeros(cells.shape[1], np.bool_)
        part[homes.columns] = True
        return self._thin(stream, state, data, cells, companions, groups, part)[1:]

    def _thin(
        self,
        stream: Stream,
        state: LatentClassState,
        data: LatentClassData,
        cells: Int32,
        companions: Companions,
        groups: Groups | None,
        part: Bool | None,
    ) -> tuple[Int64, Float64, Float64]:
        """Cell that each product is of; its value without companions, 0 without any; and of a part.

        part (n_keys,): these keys alone.
        """
        records, key = data.records, chain_key(stream.seed, stream.chain)
        assert records.place is not None
        order = np.empty(len(records.place), np.int64)
        thinning.shuffled(key, stream.sweep, data.walk.starts, order)
        theta = state.theta.astype(np.float64)
        n_rows, n_components = theta.shape
        owner, asked = asked_of(records, theta, cells, groups)
        rows = sampled_rows(records, state.imputed)
        counts = np.zeros((n_rows, n_components), np.int64)
        kernels.count(rows, state.z, counts)
        seated = state.z >= 0
        sizes = np.bincount(state.z[seated], minlength=n_components)
        if state.impossible.size:
            counts += state.impossible
            sizes += state.impossible[: records.offsets[1]].sum(axis=0)
        drawn = thinning.Drawn(
            rows, state.z, seated, theta, state.weights, counts, sizes, 0.0, state.profile
        )
        of, found = companions.taken(owner), np.zeros(len(owner))
        places = of._replace(records=order[records.place[of.records]])
        of_part = np.zeros(0 if part is None else len(owner))
        keys = np.zeros(0, np.bool_) if part is None else part
        thinning.thin(key, stream.sweep, places, drawn, asked, keys, found, of_part)
        return owner, found, of_part

    def predictive_probabilities(
        self, stream: Stream, state: LatentClassState, data: LatentClassData, cells: Int32
    ) -> Float64:
        """`cell_probabilities` with the profiles integrated out: it is linear in each of them.

        Under structural zeros the normalising constant is that of the mean profiles, which costs
        about a percent.
        """
        records = data.records
        if records.zeros is not None:
            records = truncation.augmented(records, state.imputed, state.imputed[:0])
        theta = self.mean_profiles(
            records, state.z, state.profile, len(state.weights), state.impossible
        )
        return self._probabilities(stream, state._replace(theta=theta), data, cells, None)

    def impute(self, stream: Stream, state: LatentClassState, data: LatentClassData) -> Int32:
        """Draw the missing keys of the incomplete records, in the order of the records."""
        records = data.records
        if records.zeros is not None:
            return (state.imputed - records.offsets[:-1]).astype(np.int32)
        rows = records.rows[records.record_cell]
        incomplete = np.any(rows < 0, axis=1)
        rows = rows[incomplete]
        z = np.where(rows >= 0, state.z[incomplete].astype(np.int64), -1)
        return self._fill(stream, PURPOSE_IMPUTE, state, data, rows, z)

    def simulate(
        self, stream: Stream, state: LatentClassState, data: LatentClassData, n_records: int
    ) -> Int32:
        """Draw the keys of new individuals: records of which every key is missing."""

        def draw(start: int, n: int) -> Int32:
            rows = np.full((n, data.walk.rows.shape[1]), -1, np.int32)
            return self._fill(
                stream, PURPOSE_SIMULATE, state, data, rows, rows.astype(np.int64), start
            )

        zeros = data.records.zeros
        if zeros is None:
            return draw(0, n_records)
        return truncation.first_possible(draw, zeros, n_records)

    def _fill(
        self,
        stream: Stream,
        purpose: int,
        state: LatentClassState,
        data: LatentClassData,
        rows: Int32,
        z: Int64,
        start: int = 0,
    ) -> Int32:
        """Fill the missing rows. With alpha = 0 every token after the first copies its class."""
        offsets = data.records.offsets
        key = chain_key(stream.seed, stream.chain)
        mixture.impute(
            key,
            stream.sweep,
            purpose,
            rows,
            z,
            np.zeros(1),
            state.weights,
            state.theta,
            offsets,
            start,
        )
        return (rows - offsets[:-1]).astype(np.int32)

    def _cost(self, data: LatentClassData) -> tuple[float, float]:
        """Nanoseconds, roughly, of a sweep and of one cell probability."""
        n_keys = data.walk.rows.shape[1]
        n_rows = float(data.records.offsets[-1])
        sweep = 60.0 * n_rows * FIRST_COMPONENTS + len(data.walk.rows) * (80.0 + 20.0 * n_keys)
        return sweep, 20.0 + 10.0 * n_keys


def _gpu() -> Any:
    """Return the CUDA kernels, if the GPU is to compute; they are imported with their compiler."""
    if not on_gpu():
        return None
    from unikat.kernels.cuda import latent_class

    return latent_class


_MOST_WALKS, _MOST_BYTES = 32, 1 << 20
"""That are kept of cells: those of the measures, and one for each part whose keys are left out."""
_WALK = b"walk"
"""Where the walk along the cells that were asked for last is kept: it is that of every state."""


def _probabilities(rows: Int32, theta: Float64, weights: Float64, offsets: Int64) -> Float64:
    """Probability of each row of levels or sets, -1 leaving a key out, without truncation."""
    return _along(*_walk(rows, offsets), theta, weights)


def _along(walk: Int32, place: Int64, theta: Float64, weights: Float64) -> Float64:
    """The same, of rows as `_walk` puts them."""
    out, result = np.empty(len(walk)), np.empty(len(walk))
    if (gpu := _gpu()) and gpu.can_multiply(len(weights)):
        gpu.probabilities(walk, theta, weights, out)
    else:
        kernels.probabilities(walk, theta, weights, out)
    result[place] = out
    return result


def _kept_walk(
    kept: dict[tuple[int, int], tuple[bytes, Int32, Int64]], cells: Int32, offsets: Int64
) -> tuple[Int32, Int64]:
    """`_walk` of cells, which is kept of the first that are asked for, if they are few."""
    if cells.nbytes > _MOST_BYTES:
        return _walk(rows_of(cells, offsets), offsets)
    # Hashing the cells themselves would take as long as sorting them.
    place, content = (cells.__array_interface__["data"][0], cells.nbytes), cells.tobytes()
    found = kept.get(place)
    if found is not None and found[0] == content:
        return found[1:]
    walk = _walk(rows_of(cells, offsets), offsets)
    if len(kept) < _MOST_WALKS or place in kept:
        kept[place] = (content, *walk)
    return walk


def _walk(rows: Int32, offsets: Int64) -> tuple[Int32, Int64]:
    """Rows with the keys of fewest levels first, sorted; and where each row came from."""
    order = np.argsort(np.diff(offsets), kind="stable")
    if np.any(np.diff(order) < 0):
        rows = np.ascontiguousarray(rows[:, order])
    sorting = sorted_places(rows)
    return rows[sorting], sorting
