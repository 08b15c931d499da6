"""What the users of a file lose: tables of the original beside those that the published file gives.

A published value is a group of levels. To compare tables, the records of a group are spread over
its levels in proportion to the original shares of these, in each key by itself; a key that is left
out is one group of all. So a table of one key alone is always that of the original, and one of two
keys differs by the dependence within groups, which nobody can see any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.keys import Key
from unikat.data.microdata import Microdata
from unikat.errors import SpecError, option
from unikat.protection.recoding import Recoding
from unikat.synthesis.utility import MOST_CELLS, MarginUtility, compare_margin, margin_counts


@dataclass(frozen=True, kw_only=True)
class Utility:
    """What a published file keeps of the tables of the original."""

    n_pairs: int
    """Pairs of keys."""
    distance: float
    """Mean total variation distance of the tables of two keys: the share of the records that would
    have to move; 0 to 1."""
    distance_expected: float
    """The same between the original and a second sample of the population, about."""
    pmse_ratio: float
    """Mean; see `unikat.synthesis.utility`."""
    tables: tuple[MarginUtility, ...]
    """The user's own tables."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """The columns of a file of which tables are made. Made by :meth:`of`."""

    columns: Int64
    """(n_columns, n_records): codes of the keys, then of other columns; -1 where missing."""
    n_levels: Int64
    names: tuple[str, ...]
    n_keys: int
    wanted: tuple[tuple[int, ...], ...]
    """The user's own tables, as places of columns."""

    @classmethod
    def of(
        cls,
        microdata: Microdata,
        keys: Sequence[Key],
        codes: Int32,
        wanted: Sequence[Sequence[str]] = (),
    ) -> Tables:
        """Take the keys, and the columns that the user's tables name.

        Parameters
        ----------
        microdata
            The rows.
        keys
            Of the file.
        codes
            (n_records, n_keys): of all rows, -1 where missing.
        wanted
            Tables, each as the names of its columns.
        """
        import pyarrow.compute as pc

        names = [key.name for key in keys]
        others = list(dict.fromkeys(name for one in wanted for name in one if name not in names))
        columns, n_levels = [*codes.T], [key.n_levels for key in keys]
        if others:
            found = microdata.values(others)
            for name in others:
                column = pc.dictionary_encode(found[name].combine_chunks())
                columns.append(pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False))
                n_levels.append(max(len(column.dictionary), 1))
        every = [*names, *others]
        places = tuple(tuple(every.index(name) for name in one) for one in wanted)
        for one, place in zip(wanted, places, strict=True):
            if prod(n_levels[j] for j in place) > MOST_CELLS:
                raise SpecError(
                    f"The table of {', '.join(one)} has more than {MOST_CELLS:,} cells; name fewer "
                    f"columns, or such with fewer values ({option('tables')})."
                )
        return cls(
            columns=np.ascontiguousarray(np.array(columns, np.int64)),
            n_levels=np.array(n_levels, np.int64),
            names=tuple(every),
            n_keys=len(names),
            wanted=places,
        )

    def kept(
        self,
        recoding: Recoding,
        published: Int32 | None = None,
        records: Int64 | None = None,
    ) -> Utility:
        """Compare the tables.

        Parameters
        ----------
        recoding
            Of the keys.
        published
            (n_released, n_recoded_keys): groups that the published records show, -1 where missing;
            None: those of the recoding.
        records
            (n_released,): records that are released; None: all.
        """
        groups, shown = self._shown(recoding, published, records)
        pairs = [
            self._compare(place, groups, shown)
            for place in combinations(range(self.n_keys), 2)
            if prod(self.n_levels[list(place)].tolist()) <= MOST_CELLS
        ]
        return Utility(
            n_pairs=len(pairs),
            distance=_mean([one.distance for one in pairs]),
            distance_expected=_mean([one.distance_expected for one in pairs]),
            pmse_ratio=_mean([one.pmse_ratio for one in pairs]),
            tables=tuple(self._compare(place, groups, shown) for place in self.wanted),
        )

    def counts(
        self,
        place: tuple[int, int],
        recoding: Recoding,
        published: Int32 | None = None,
        records: Int64 | None = None,
    ) -> tuple[Float64, Float64]:
        """Records in each cell of two keys: of the original, and as users of the file count them.

        Parameters
        ----------
        place
            Of the keys.
        recoding, published, records
            As of `kept`.
        """
        groups, shown = self._shown(recoding, published, records)
        return self._tables(place, groups, shown)

    def _shown(
        self, recoding: Recoding, published: Int32 | None, records: Int64 | None
    ) -> tuple[list[Int64], Int64]:
        """Group of each level of the columns, and what the released records show of them."""
        groups = [np.arange(n, dtype=np.int64) for n in self.n_levels]
        shown = self.columns.copy() if records is None else self.columns[:, records]
        for j, one in enumerate(recoding.keys):
            groups[j] = one.groups.astype(np.int64)
            shown[j] = np.where(shown[j] >= 0, groups[j][shown[j]], -1)
        if published is not None:
            shown[list(recoding.kept)] = published.T
        return groups, shown

    def _tables(
        self, place: Sequence[int], groups: Sequence[Int64], shown: Int64
    ) -> tuple[Float64, Float64]:
        shape = self.n_levels[list(place)]
        original = margin_counts(self.columns, place, self.n_levels).reshape(shape)
        n_groups = np.array([one.max(initial=0) + 1 for one in groups], np.int64)
        grouped = margin_counts(shown, place, n_groups).reshape(n_groups[list(place)])
        return original, _spread(grouped, original, [groups[j] for j in place])

    def _compare(
        self, place: Sequence[int], groups: Sequence[Int64], shown: Int64
    ) -> MarginUtility:
        shape = self.n_levels[list(place)]
        original, spread = self._tables(place, groups, shown)
        names = tuple(self.names[j] for j in place)
        every = tuple(range(len(place)))
        o, s = original.ravel(), spread.ravel()
        found = compare_margin([o, s], names, shape, every)
        # A second sample has the cells of the original, and as many records as are published.
        second = compare_margin([o, o * (s.sum() / max(o.sum(), 1.0))], names, shape, every)
        return replace(
            found,
            distance_expected=second.distance_expected,
            pmse_ratio=found.pmse_ratio * max(found.n_cells - 1, 1) / max(second.n_cells - 1, 1),
        )


def _spread(grouped: Float64, original: Float64, groups: Sequence[Int64]) -> Float64:
    """Spread a table of groups over their levels, by the original shares of the levels."""
    found = grouped[np.ix_(*groups)]
    for axis, group in enumerate(groups):
        rest = tuple(other for other in range(original.ndim) if other != axis)
        levels = original.sum(axis=rest)
        of_group = np.bincount(group, levels)[group]
        share = np.divide(levels, of_group, out=np.zeros_like(levels), where=of_group > 0.0)
        shape = [1] * original.ndim
        shape[axis] = -1
        found = found * share.reshape(shape)
    return found


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
