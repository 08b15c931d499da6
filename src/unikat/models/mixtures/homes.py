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

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.companions import Companions, Members
from unikat.data.keys import Key
from unikat.data.shared_keys import shared_keys
from unikat.data.table import CellTable
from unikat.models.base import AnyModel, Info, Model, Stream
from unikat.models.groups import Groups
from unikat.models.records import in_blocks, rows_of

State = TypeVar("State", bound=Any)
Data = TypeVar("Data", bound=Any)

TELLS_SIZE = 0.9
"""Share of the variance of the size that a shared key explains from which it stands for the size,
such as the number of members, topcoded or not."""
_CHAINS = 1 << 20
"""Households have the random numbers of chains that no fit of persons has."""
_MOST_KEPT, _MOST_BYTES = 8, 1 << 20


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
    found: dict[int, tuple[bytes, Int32]]
    """Cells that were asked for, with all but the shared keys left out."""

    def shared(self, cells: Int32) -> Int32:
        """Leave out all but the shared keys of cells (n, n_keys).

        What is made of few cells is kept, so that what mixtures keep of these is found again.
        """
        if cells.nbytes > _MOST_BYTES:
            return self._shared(cells)
        place, content = cells.__array_interface__["data"][0], cells.tobytes()
        kept = self.found.get(place)
        if kept is not None and kept[0] == content:
            return kept[1]
        shared = self._shared(cells)
        if len(self.found) < _MOST_KEPT or place in self.found:
            self.found[place] = content, shared
        return shared

    def _shared(self, cells: Int32) -> Int32:
        shared = np.full_like(cells, -1)
        shared[:, self.columns] = cells[:, self.columns]
        return shared

    def law(self, state: Any, cells: Int32, groups: Groups | None) -> Float64:
        """P(h) of the shared keys of cells (n, n_keys), of groups of levels if these are given."""
        profile = state.theta.astype(np.float64)
        first, end = self.home_offsets[self.sized : self.sized + 2]
        profile[first:end] *= self.members[:, None]
        members = profile[first:end].sum(axis=0)
        theta = np.zeros((int(self.offsets[-1]), profile.shape[1]))
        for key, column in enumerate(self.columns):
            rows = slice(*self.home_offsets[key : key + 2])
            theta[self.offsets[column] : self.offsets[column + 1]] = profile[rows]
        if groups is not None:
            theta = groups.sums(theta)
        offsets = self.offsets if groups is None else groups.offsets

        def probabilities(cells: Int32) -> Float64:
            rows = rows_of(cells, offsets)
            product = np.repeat(state.weights[None], len(cells), axis=0)
            for key, column in enumerate(self.columns):
                row = rows[:, column]
                known = row >= 0
                product[known] *= theta[row[known]]
                if key == self.sized:
                    product[~known] *= members
            if self.sized == len(self.columns):
                product *= members
            total: Float64 = product.sum(axis=1)
            return total

        return in_blocks(probabilities, cells) / float(state.weights @ members)


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
    sizes = np.bincount(home)
    codes = np.column_stack(
        [_of_homes(home, table.cells[table.record_cell, j], len(sizes)) for j in columns]
    )
    keys = [table.keys[j] for j in columns]
    explained = [_explained(codes[:, k], sizes) for k in range(len(keys))]
    sized = int(np.argmax(explained))
    if explained[sized] < TELLS_SIZE:
        sized = len(keys)
        keys.append(Key.of_size("size", max(int(sizes.max()), 2)))
        codes = np.column_stack((codes, sizes - 1))
        members = np.arange(1.0, keys[-1].n_levels + 1.0)
    else:
        members = _mean_sizes(codes[:, sized], sizes, keys[sized].n_levels)
    n_homes = max(len(sizes), round(table.n_units * len(sizes) / table.n_records))
    homes = CellTable.from_codes(codes.astype(np.int32), keys, n_homes)
    return Homes(
        model=model,
        data=model.prepare(homes),
        columns=columns,
        offsets=np.concatenate(([0], np.cumsum(table.n_levels))),
        home_offsets=np.concatenate(([0], np.cumsum(homes.n_levels))),
        sized=sized,
        members=members,
        found={},
    )


def _of_homes(home: Int64, codes: Int32, n_homes: int) -> Int64:
    """Commonest known code of the members of each household, the first of several; -1 if none."""
    known = codes >= 0
    pairs, times = np.unique(
        np.stack((home[known], codes[known].astype(np.int64))), axis=1, return_counts=True
    )
    order = np.lexsort((-pairs[1], times))
    found = np.full(n_homes, -1, np.int64)
    found[pairs[0, order]] = pairs[1, order]
    return found


def _explained(codes: Int64, sizes: Int64) -> float:
    """Share of the variance of the sizes of households (n,) that is between their codes."""
    if sizes.var() == 0.0:
        return 0.0
    means = _mean_sizes(codes, sizes, int(codes.max()) + 1)
    # The last is that of -1, missing.
    return 1.0 - float(np.mean((sizes - np.append(means, sizes.mean())[codes]) ** 2) / sizes.var())


def _mean_sizes(codes: Int64, sizes: Int64, n_levels: int) -> Float64:
    """Mean size of the households with each level, (n_levels,); of all where none has it."""
    known = codes >= 0
    n = np.bincount(codes[known], minlength=n_levels)
    total = np.bincount(codes[known], sizes[known], n_levels)
    return np.where(n > 0, total / np.maximum(n, 1), sizes.mean())


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
        some: Bool = companions.some
        of, cells = companions.taken(some), cells[some]
        nothing = np.zeros(len(cells))
        both, of_keys = (
            self._thinned(stream, state, data, asked, nothing, of, groups)
            for asked in (cells, homes.shared(cells))
        )
        out = p.copy()
        out[some] = _joint(both, of_keys, homes.law(state.homes, cells, groups))
        return out

    def cost(self, data: Data) -> tuple[float, float]:
        """Nanoseconds, roughly, of a sweep and of one cell probability."""
        sweep, cell = self._cost(data)
        homes = data.homes
        if homes is None:
            return sweep, cell
        return sweep + homes.model.cost(homes.data)[0], 2.0 * cell

    def _of_both(
        self, stream: Stream, state: State, data: Data, cells: Int32, groups: Groups | None
    ) -> Float64:
        """Probability of each cell by persons and households."""
        p, homes = self._probabilities(stream, state, data, cells, groups), data.homes
        if homes is None or not len(cells):
            return p
        of_keys = self._probabilities(stream, state, data, homes.shared(cells), groups)
        return _joint(p, of_keys, homes.law(state.homes, cells, groups))


def _joint(both: Float64, of_keys: Float64, law: Float64) -> Float64:
    """p(h, x) / p(h) · P(h); 0 where a class that underflowed is all there is."""
    share = np.divide(both, of_keys, out=np.zeros_like(both), where=of_keys > 0.0)
    return np.minimum(share, 1.0) * law


def _of_homes_stream(stream: Stream) -> Stream:
    return stream._replace(chain=stream.chain + _CHAINS)
