"""Samples of whole households: keys that members share have the law of a fit to households.

Three members with the same rare region, tenure and size are one draw of this combination h of
shared keys, not three. Latent classes are therefore fitted to the *households* too, by their shared
keys and their size s. The probability that a random person has the keys (h, x) is

    p(h, x) = p'(x | h) P(h),    P(h) = sum_s s P(h, s) / sum_s s P(s),

with p'(x | h) = p'(h, x) / p'(h) from the mixture of persons, companions left out
(`kernels.thinning`) above and below the line. It adds up to one. See docs/design/companions.md.

Persons and households are fitted side by side: neither state depends on the other. Where members
share no key a mixture is that of persons alone. Structural zeros are those of persons: combinations
of shared keys that nobody can have keep the little that the households' fit gives them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, TypeVar

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.companions import Companions, Members
from unikat.data.keys import Key
from unikat.data.shared_keys import shared_keys
from unikat.data.table import CellTable
from unikat.kernels import latent_class as kernels
from unikat.models.base import AnyModel, Info, Model, Stream
from unikat.models.groups import Groups
from unikat.models.records import rows_of, sorted_places

State = TypeVar("State", bound=Any)
Data = TypeVar("Data", bound=Any)

TELLS_SIZE = 0.9
"""Share of the variance of the size that a shared key predicts, from the other households of its
level, from which it stands for the size: such as the number of members, topcoded or not."""
_CHAINS = 1 << 20
"""Households have the random numbers of chains that no fit of persons has."""
_MOST_KEPT, _MOST_BYTES = 8, 1 << 20
_ASKED = b"homes"


class Asked(NamedTuple):
    """Cells whose law is asked for."""

    shared: Int32
    """(n, n_keys): the cells, with all but the shared keys left out."""
    rows: Int32
    """(n_distinct, n_shared): rows of a profile of all keys, sorted; see `Homes.law`."""
    place: Int64
    """(n,): which of these each cell has."""


class Homes(NamedTuple):
    """The households of a sample, as latent classes are fitted to them."""

    model: AnyModel
    data: Any
    """Of the model."""
    columns: Int64
    """(n_shared,): the shared keys among those of persons."""
    offsets: Int64
    """First row of each key of persons, (n_keys + 1,), and..."""
    home_offsets: Int64
    """...of each key of households: the shared ones, then the size if no key stands for it."""
    sized: int
    """The key of households that stands for the size."""
    members: Float64
    """Mean size of the households that have each of its levels."""
    told: tuple[Float64 | None, ...]
    """(n_levels, n_levels) of each shared key: share of the members of a household of the first
    level who have the second, where not all have that of the household; else None."""
    found: dict[int, tuple[bytes, Asked]]
    """What was asked for last, by its place in memory."""

    def asked(self, cells: Int32, groups: Groups | None) -> Asked:
        """Lay out cells (n, n_keys), of groups of levels if these are given.

        What is made of few cells is kept, so that what mixtures keep of these is found again.
        """
        if cells.nbytes > _MOST_BYTES:
            return self._laid_out(cells, groups)
        content = cells.tobytes()
        if groups is not None:
            kept = groups.found.get(_ASKED)
            if kept is None or kept[0] != content:
                kept = groups.found[_ASKED] = content, self._laid_out(cells, groups)
            found: Asked = kept[1]
            return found
        place = cells.__array_interface__["data"][0]
        last = self.found.get(place)
        if last is None or last[0] != content:
            if len(self.found) >= _MOST_KEPT:
                self.found.clear()
            last = self.found[place] = content, self._laid_out(cells, None)
        return last[1]

    def _laid_out(self, cells: Int32, groups: Groups | None) -> Asked:
        shared = np.full_like(cells, -1)
        shared[:, self.columns] = cells[:, self.columns]
        offsets, n_rows = self.offsets, int(self.offsets[-1])
        if groups is not None:
            offsets, n_rows = groups.offsets, len(groups.starts)
        rows = rows_of(shared, offsets)[:, self.columns]
        if self.sized < len(self.columns):
            # Any level: the mean size of all.
            rows[rows[:, self.sized] < 0, self.sized] = n_rows
        order = sorted_places(rows)
        rows = rows[order]
        first = np.r_[True, (rows[1:] != rows[:-1]).any(axis=1)][: len(rows)]
        place = np.empty(len(rows), np.int64)
        place[order] = np.cumsum(first) - 1
        return Asked(shared, np.ascontiguousarray(rows[first]), place)

    def law(self, state: Any, asked: Asked, groups: Groups | None) -> Float64:
        """P(h) of the shared keys of cells, (n,)."""
        profile = state.theta.astype(np.float64)
        first, end = self.home_offsets[self.sized : self.sized + 2]
        profile[first:end] *= self.members[:, None]
        members = profile[first:end].sum(axis=0)
        theta = np.zeros((int(self.offsets[-1]), profile.shape[1]))
        for key, (column, told) in enumerate(zip(self.columns, self.told, strict=True)):
            of_homes = profile[self.home_offsets[key] : self.home_offsets[key + 1]]
            theta[self.offsets[column] : self.offsets[column + 1]] = (
                of_homes if told is None else told.T @ of_homes
            )
        if groups is not None:
            theta = groups.sums(theta)
        weights = state.weights
        if self.sized == len(self.columns):
            weights = weights * members
        p = np.empty(len(asked.rows))
        kernels.probabilities(asked.rows, np.vstack((theta, members)), weights, p)
        found: Float64 = p[asked.place] / float(state.weights @ members)
        return found


def homes_of(table: CellTable, model: AnyModel) -> Homes | None:
    """Lay out the households of a sample for latent classes of these.

    None where households are not needed: persons were drawn one by one, no two members of a
    household are there, or they share no key.
    """
    shared = () if Members.of(table) is None else shared_keys(table)
    if not shared:
        return None
    assert table.households is not None
    columns = np.flatnonzero([key in shared for key in table.keys])
    home = np.unique(table.households, return_inverse=True)[1]
    sizes, found, told = np.bincount(home), [], []
    for j in columns:
        codes, key = table.cells[table.record_cell, j].astype(np.int64), table.keys[j]
        found.append(_of_homes(home, codes, key.missing_level, len(sizes)))
        told.append(_told(found[-1][home], codes, key.n_levels))
    keys = [table.keys[j] for j in columns]
    predicted = [_predicted(codes, sizes) for codes in found]
    sized = int(np.argmax(predicted))
    if predicted[sized] < TELLS_SIZE:
        sized = len(keys)
        keys.append(Key.of_size("size", max(int(sizes.max()), 2)))
        found.append(sizes - 1)
        members = np.arange(1.0, keys[-1].n_levels + 1.0)
    else:
        n, total = _by_level(found[sized], sizes, keys[sized].n_levels)
        members = np.where(n > 0, total / np.maximum(n, 1), sizes.mean())
    homes = CellTable.from_codes(np.column_stack(found).astype(np.int32), keys, len(sizes))
    return Homes(
        model=model,
        data=model.prepare(homes),
        columns=columns,
        offsets=np.concatenate(([0], np.cumsum(table.n_levels))),
        home_offsets=np.concatenate(([0], np.cumsum(homes.n_levels))),
        sized=sized,
        members=members,
        told=tuple(told),
        found={},
    )


def _of_homes(home: Int64, codes: Int64, missing_level: int | None, n_homes: int) -> Int64:
    """Commonest known code of the members of each household, the first of several; -1 if none.

    A level that means missing is that of a household all of whose members have it.
    """
    known = codes >= 0
    pairs, times = np.unique(np.stack((home[known], codes[known])), axis=1, return_counts=True)
    if missing_level is not None:
        times = np.where(pairs[1] == missing_level, 0, times)
    order = np.lexsort((-pairs[1], times))
    found = np.full(n_homes, -1, np.int64)
    found[pairs[0, order]] = pairs[1, order]
    return found


def _told(of_home: Int64, codes: Int64, n_levels: int) -> Float64 | None:
    """Share of the members of households of each level who have each level, by record."""
    known = codes >= 0
    if np.array_equal(of_home[known], codes[known]):
        return None
    times = np.zeros((n_levels, n_levels))
    np.add.at(times, (of_home[known], codes[known]), 1.0)
    n = times.sum(axis=1, keepdims=True)
    shares: Float64 = np.where(n > 0.0, times / np.maximum(n, 1.0), np.eye(n_levels))
    return shares


def _by_level(codes: Int64, sizes: Int64, n_levels: int) -> tuple[Int64, Float64]:
    """Households of each level, and their members."""
    known = codes >= 0
    n: Int64 = np.bincount(codes[known], minlength=n_levels)
    return n, np.bincount(codes[known], sizes[known], n_levels).astype(np.float64)


def _predicted(codes: Int64, sizes: Int64) -> float:
    """Share of the variance of sizes (n,) that the other households of the same code predict.

    Of households that have others; 0 if most are the only ones of their code.
    """
    n, total = (part[codes] for part in _by_level(codes, sizes, int(codes.max()) + 1))
    some = (codes >= 0) & (n > 1)
    if 2 * some.sum() < len(sizes) or sizes[some].var() == 0.0:
        return 0.0
    others = (total[some] - sizes[some]) / (n[some] - 1)
    return 1.0 - float(np.mean((sizes[some] - others) ** 2) / sizes[some].var())


class OfPersons(Model[State, Data]):
    """A mixture of persons, with the law of households for keys that members share.

    State and data are NamedTuples with a field `homes`: the state of the households' fit, and the
    households (None where they are not needed).
    """

    @property
    @abstractmethod
    def _homes_model(self) -> AnyModel:
        """Return the latent classes of households."""

    @abstractmethod
    def _prepare(self, table: CellTable) -> Data:
        """As `prepare`, and so on: of persons alone."""

    @abstractmethod
    def _init(self, stream: Stream, data: Data) -> State: ...

    @abstractmethod
    def _step(
        self, stream: Stream, state: State, data: Data, n_threads: int
    ) -> tuple[State, Info]: ...

    @abstractmethod
    def _state_fits(self, state: State, data: Data, start: State) -> bool: ...

    @abstractmethod
    def _probabilities(
        self, stream: Stream, state: State, data: Data, cells: Int32, groups: Groups | None
    ) -> Float64: ...

    @abstractmethod
    def _thinned(
        self,
        stream: Stream,
        state: State,
        data: Data,
        cells: Int32,
        p: Float64,
        companions: Companions,
        groups: Groups | None,
    ) -> Float64: ...

    def _thinned_both(
        self,
        stream: Stream,
        state: State,
        data: Data,
        cells: Int32,
        shared: Int32,
        companions: Companions,
        groups: Groups | None,
    ) -> tuple[Float64, Float64]:
        """`_thinned` of cells, and of these with all but the shared keys left out."""
        both, of_keys = (
            self._thinned(stream, state, data, these, np.zeros(len(these)), companions, groups)
            for these in (cells, shared)
        )
        return both, of_keys

    @abstractmethod
    def _cost(self, data: Data) -> tuple[float, float]: ...

    def prepare(self, table: CellTable) -> Data:
        """Lay out persons, and households where members share keys."""
        data = self._prepare(table)
        homes = homes_of(table, self._homes_model)
        if homes is not None:
            data = data._replace(homes=homes)
        return data

    def init(self, stream: Stream, data: Data) -> State:
        """Start from clusters of cells; their number and purity differ from chain to chain."""
        start, homes = self._init(stream, data), data.homes
        if homes is not None:
            start = start._replace(homes=homes.model.init(_of_homes_stream(stream), homes.data))
        return start

    def step(self, stream: Stream, state: State, data: Data, n_threads: int) -> tuple[State, Info]:
        """One sweep of persons, and one of households."""
        found, info = self._step(stream, state, data, n_threads)
        homes = data.homes
        if homes is None:
            return found, info
        of_homes, _ = homes.model.step(_of_homes_stream(stream), state.homes, homes.data, n_threads)
        return found._replace(homes=of_homes), info

    def state_fits(self, state: State, data: Data, start: State) -> bool:
        """Whether a state of a file has shapes and indices that the kernels can read."""
        if not self._state_fits(state, data, start):
            return False
        homes: Homes | None = data.homes
        if homes is None:
            return not state.homes
        return bool(state.homes) and homes.model.state_fits(state.homes, homes.data, start.homes)

    def cell_probabilities(self, stream: Stream, state: State, data: Data, cells: Int32) -> Float64:
        """Probability of each cell for a new individual, (n,); -1 leaves a key out.

        Exact under latent classes; under mixed membership exact for up to 11 keys, beyond that an
        unbiased estimate. Under structural zeros that of a possible individual.
        """
        return self._of_both(stream, state, data, cells, None)

    def grouped_probabilities(
        self, stream: Stream, state: State, data: Data, groups: Groups, cells: Int32
    ) -> Float64:
        """Probability of each cell of groups, (n,), as exact as `cell_probabilities`."""
        return self._of_both(stream, state, data, cells, groups)

    def without_companions(
        self,
        stream: Stream,
        state: State,
        data: Data,
        cells: Int32,
        p: Float64,
        companions: Companions,
        groups: Groups | None = None,
    ) -> Float64:
        """Probabilities of cells without their companions, (n,); see `kernels.thinning`.

        Under structural zeros the probability of the possible cells is that with the companions.
        """
        homes: Homes | None = data.homes
        if homes is None:
            return self._thinned(stream, state, data, cells, p, companions, groups)
        asked = homes.asked(cells, groups)
        both, of_keys = self._thinned_both(
            stream, state, data, cells, asked.shared, companions, groups
        )
        law = homes.law(state.homes, asked, groups)
        return np.where(companions.some, _joint(both, of_keys, law), p)

    def cost(self, data: Data) -> tuple[float, float]:
        """Nanoseconds, roughly, of a sweep and of one cell probability."""
        sweep, cell = self._cost(data)
        homes = data.homes
        if homes is None:
            return sweep, cell
        # The households' law is that of few distinct combinations.
        return sweep + homes.model.cost(homes.data)[0], 2.0 * cell

    def _of_both(
        self, stream: Stream, state: State, data: Data, cells: Int32, groups: Groups | None
    ) -> Float64:
        """Probability of each cell by persons and households."""
        p, homes = self._probabilities(stream, state, data, cells, groups), data.homes
        if homes is None or not len(cells):
            return p
        asked = homes.asked(cells, groups)
        of_keys = self._probabilities(stream, state, data, asked.shared, groups)
        return _joint(p, of_keys, homes.law(state.homes, asked, groups))


def _joint(both: Float64, of_keys: Float64, law: Float64) -> Float64:
    """p(h, x) / p(h) · P(h); 0 where a class that underflowed is all there is."""
    share = np.divide(both, of_keys, out=np.zeros_like(both), where=of_keys > 0.0)
    return np.minimum(share, 1.0) * law


def _of_homes_stream(stream: Stream) -> Stream:
    return stream._replace(chain=stream.chain + _CHAINS)
