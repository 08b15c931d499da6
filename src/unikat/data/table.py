"""The table of occupied patterns: the sample, once its keys are coded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from unikat._typing import AnyArray, Bool, Float64, Int32, Int64
from unikat.data.design import Design, Sampling, no_population
from unikat.data.households import HouseholdLayout, household_meetings
from unikat.data.keys import MISSING, Key
from unikat.data.patterns import distinct, match_sums, summed
from unikat.data.units import HOUSEHOLD, RECORD, Unit
from unikat.errors import DataError, SpecError, brief, option, suggest

if TYPE_CHECKING:
    from unikat.kernels.zeros import Diagram

Missing: TypeAlias = Literal["integrate", "level", "wildcard"]
"""What a missing key is: unknown and integrated over, a level of its own, or matching any."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Margin:
    """Known counts of the population over some keys; made by `unikat.data.margins.read_margin`."""

    name: str
    """What the file is called in messages."""
    keys: tuple[int, ...]
    """Places of its keys among those of the table."""
    counts: Int64
    """(n_margin_cells,): units of each combination of their levels, the last key's the fastest; 0
    where the file has none."""
    outside: int = 0
    """Units at levels that the keys do not have."""
    absent: tuple[Bool, ...] = ()
    """(n_levels,) of each key: levels that the file does not have."""

    @property
    def total(self) -> int:
        """N, the units of the population."""
        return int(self.counts.sum()) + self.outside


@dataclass(frozen=True, kw_only=True, eq=False)
class CellTable:
    """Occupied patterns of the sample and their counts.

    A pattern is a record's codes over the keys, -1 where the key is missing; a pattern without
    -1 is a cell of the contingency table. Tables are compared by their `fingerprint`.

    Parameters
    ----------
    keys
        The key variables, n_keys of them.
    cells
        Occupied patterns, (n_cells, n_keys) codes, sorted lexicographically (so -1 comes first),
        each once.
    counts
        Number of records of each pattern, (n_cells,), at least 1.
    record_cell
        Row of `cells` that each record falls in, (n_records,), in the order of the input.
    population_size
        N, number of units in the population; None if it is not known (see `n_units`).
    missing
        What -1 means: ``"integrate"`` (unknown) or ``"wildcard"`` (matches any level). Under
        ``"level"`` missing values are a level of their own and no -1 occurs.
    zeros
        The possible cells as a decision diagram; None if every combination is possible.
    sampling
        What each record stands for; None if all were drawn with equal chances.
    households
        (n_records,) number of the household each record was drawn with, 0 to H-1; None if records
        were drawn one by one.
    margins
        Known counts of the population over some keys; they sum to N.
    clues
        What columns that are no keys tell, in sentences (see `Microdata.clues`).
    layout
        What the columns are where a record is a household; None where it is a person.
    held
        (n_records,) records that are held back: the sample has them, the released file does not.
        None: all are released.
    presence_known
        Whether an intruder knows who is in the released file, so that no other is a candidate. N is
        then n, and held records count for nobody.

    Examples
    --------
    >>> keys = [Key.of_size("SEX", 2), Key.of_size("AGE", 3)]
    >>> table = CellTable.from_codes([[0, 2], [1, 1], [0, 2]], keys, population_size=100)
    >>> table.counts.tolist(), table.record_cell.tolist(), table.n_uniques
    ([2, 1], [0, 1, 0], 1)
    """

    keys: tuple[Key, ...]
    cells: Int32
    counts: Int64
    record_cell: Int32
    population_size: int | None
    missing: Missing = "integrate"
    zeros: Diagram | None = None
    sampling: Sampling | None = None
    households: Int32 | None = None
    margins: tuple[Margin, ...] = ()
    clues: tuple[str, ...] = ()
    layout: HouseholdLayout | None = None
    held: Bool | None = None
    presence_known: bool = False

    def __repr__(self) -> str:
        names = ", ".join(key.name for key in self.keys)
        size = "not known" if self.population_size is None else f"{self.population_size:,}"
        return (
            f"CellTable of {self.n_records:,} records, keys {names}: {self.n_cells:,} patterns, "
            f"{self.n_uniques:,} sample uniques; population {size}"
        )

    @classmethod
    def from_codes(
        cls,
        codes: ArrayLike,
        keys: Sequence[Key],
        population_size: int,
        missing: Missing = "integrate",
        *,
        zeros: Diagram | None = None,
        layout: HouseholdLayout | None = None,
    ) -> CellTable:
        """Tabulate records that are already coded.

        Parameters
        ----------
        codes
            Integer codes, (n_records, n_keys), -1 where missing.
        keys
            The key variables; a code is a position in `Key.levels`.
        population_size
            N, at least n_records.
        missing
            What -1 means.
        zeros
            The possible cells, if not all are.
        layout
            What the columns are where a record is a household.

        Raises
        ------
        DataError
            If the codes are not such an array, or a code is no level of its key.
        SpecError
            If the population size or `missing` is not allowed.
        """
        check_missing(missing)
        array = _checked_codes(codes, keys, missing)
        design = Design(population_size=population_size)
        design.check(len(array))
        assert design.population_size is not None
        found = distinct(array, [key.n_levels for key in keys])
        return cls(
            keys=tuple(keys),
            cells=np.ascontiguousarray(array[found.first], dtype=np.int32),
            counts=found.counts,
            record_cell=found.place.astype(np.int32),
            population_size=design.population_size,
            missing=missing,
            zeros=zeros,
            layout=layout,
        )

    def with_keys(self, keys: Sequence[Key], codes: ArrayLike) -> CellTable:
        """Return the same records with other keys, and (n_records, n_keys) codes of these."""
        array = np.asarray(codes, np.int32)
        found = distinct(array, [key.n_levels for key in keys])
        return replace(
            self,
            keys=tuple(keys),
            cells=np.ascontiguousarray(array[found.first]),
            counts=found.counts,
            record_cell=found.place.astype(np.int32),
        )

    @property
    def n_records(self) -> int:
        """Number of records, n."""
        return len(self.record_cell)

    @property
    def n_units(self) -> int:
        """Number of units in the population, N.

        Raises
        ------
        SpecError
            If it is not known.
        """
        if self.population_size is None:
            raise no_population()
        return self.population_size

    @property
    def weights(self) -> Float64:
        """Units of the population that each record stands for, (n_records,); N/n without design."""
        if self.sampling is not None:
            return self.sampling.weights
        return np.full(self.n_records, self.n_units / self.n_records)

    @cached_property
    def cell_weights(self) -> Float64:
        """Sum of the weights of the records of each pattern, (n_cells,): it estimates F."""
        sums = np.bincount(self.record_cell, self.weights, minlength=self.n_cells)
        return sums.astype(np.float64, copy=False)

    @property
    def n_cells(self) -> int:
        """Number of occupied patterns."""
        return len(self.cells)

    @property
    def has_impossible(self) -> bool:
        """Whether some cells are impossible, by structural zeros or household rules."""
        ruled = self.layout is not None and self.layout.rules is not None
        return ruled or self.zeros is not None

    @property
    def n_keys(self) -> int:
        """Number of key variables."""
        return len(self.keys)

    @property
    def n_levels(self) -> tuple[int, ...]:
        """Number of levels of each key."""
        return tuple(key.n_levels for key in self.keys)

    @property
    def variables(self) -> tuple[Key, ...]:
        """The key variables as somebody would name them: `keys`, or those of the `layout`."""
        return self.keys if self.layout is None else self.layout.variables

    @property
    def unit(self) -> Unit:
        """The words for what is counted: a record, or a household where there is a `layout`."""
        return RECORD if self.layout is None else HOUSEHOLD

    def columns_of(self, name: str) -> list[int]:
        """Return the columns that hold a key; of members of households one for each place.

        There the code after the last level says that there is no such member.
        """
        layout, names = self.layout, [key.name for key in self.keys]
        if layout is not None:
            names = [layout.name_of(key) for key in layout.household_keys]
            names += [key.name for key in layout.person_keys] * layout.n_slots
        return [j for j, one in enumerate(names) if one == name]

    def without(self, cells: Int32, variable: int) -> Int32:
        """Patterns (n, n_keys) with one of `variables` left out (-1), by its position."""
        return without(cells, variable, self.layout)

    @cached_property
    def incomplete(self) -> Bool:
        """Patterns with a missing key, (n_cells,)."""
        mask: Bool = (self.cells == MISSING).any(axis=1)
        return mask

    @cached_property
    def imputed_records(self) -> Int64:
        """Records with a missing key, in the order in which a model imputes them.

        It is that of the patterns of the fitted table, where the class of a design is the last key,
        and within a pattern that of the input.
        """
        classes = self.record_cell if self.sampling is None else self.sampling.strata
        records = np.flatnonzero(self.incomplete[self.record_cell])
        order: Int64 = np.lexsort((classes[records], self.record_cell[records]))
        return records[order]

    @cached_property
    def n_missing(self) -> tuple[int, ...]:
        """Number of records with each of `variables` missing, also where missing is a level.

        Of a household: with the key missing in a member at least.
        """
        if self.layout is not None:
            missing = self.layout.missing(self.cells)
            return tuple((self.counts @ missing).tolist())
        counts = []
        for column, key in zip(self.cells.T, self.keys, strict=True):
            code = MISSING if key.missing_level is None else key.missing_level
            counts.append(int(self.counts[column == code].sum()))
        return tuple(counts)

    @cached_property
    def released(self) -> Int64:
        """Records of each pattern that are released, (n_cells,)."""
        if self.held is None:
            return self.counts
        return np.bincount(self.record_cell[~self.held], minlength=self.n_cells).astype(np.int64)

    @property
    def frequency(self) -> Int64:
        """Candidates among the records of each pattern, (n_cells,), from which F starts.

        Under ``"wildcard"`` all that match. Held records are in the population, so they count.
        """
        if self.missing == "wildcard":
            return self.released_matches if self.presence_known else self.matches
        return self.released if self.presence_known else self.counts

    @cached_property
    def released_matches(self) -> Int64:
        """As `matches`, of the records that are released."""
        return self.matches if self.held is None else self._match_sums(self.released)

    @cached_property
    def matches(self) -> Int64:
        """Records compatible with each pattern when a missing key matches any level, (n_cells,).

        A record counts for a pattern if the two agree on every key that both have. Equal to
        `counts` where nothing is missing.
        """
        return self._match_sums(self.counts)

    def _match_sums(self, values: Int64) -> Int64:
        """Sum values (n_cells,) over the patterns that match each one, (n_cells,)."""
        if self.layout is not None and self.layout.is_whole(self.cells).all():
            pairs, of_cells = (
                household_meetings(self.layout, self.cells),
                values[:, None].astype(np.float64),
            )
            return summed(pairs, of_cells, self.n_cells)[:, 0].astype(np.int64)
        return match_sums(self.cells, values[:, None], self.n_levels)[:, 0]

    @cached_property
    def unique(self) -> Bool:
        """Sample uniques, (n_cells,).

        The complete patterns with one record; under ``"wildcard"`` those patterns, complete or
        not, that match one record only, their own. Of records that are released.
        """
        alone: Bool = self.released == 1
        if self.missing == "wildcard":
            alone &= self.released_matches == 1
        else:
            alone &= ~self.incomplete
        return alone

    @property
    def n_uniques(self) -> int:
        """Number of sample uniques (see `unique`)."""
        return int(np.count_nonzero(self.unique))

    @property
    def n_masked_uniques(self) -> int:
        """Complete records with a pattern of their own that an incomplete one may match.

        They are no sample uniques under ``"wildcard"``; 0 under the other treatments.
        """
        if self.missing != "wildcard":
            return 0
        masked = (self.released == 1) & (self.released_matches > 1) & ~self.incomplete
        return int(np.count_nonzero(masked))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of names and numbers of levels, patterns, counts and population size.

        Also of the possible cells, where not all are, of the sampling, where it was not simple, and
        of known margins of the population.
        """
        head = {
            "keys": [key.name for key in self.keys],
            "n_levels": self.n_levels,
            "population_size": self.population_size,
        }
        digest = hashlib.sha256(json.dumps(head).encode())
        # Fixed byte order and layout, so that the same table has one fingerprint on any machine.
        digest.update(np.ascontiguousarray(self.cells, dtype="<i4").data)
        digest.update(np.ascontiguousarray(self.counts, dtype="<i8").data)
        if self.zeros is not None:
            digest.update(b"zeros")
            for part in self.zeros:
                digest.update(np.ascontiguousarray(part, dtype="<i8").data)
        if self.sampling is not None:
            # The draws depend on which pattern a record of some weight has.
            digest.update(b"sampling")
            digest.update(np.ascontiguousarray(self.record_cell, dtype="<i4").data)
            digest.update(self.sampling.digest)
        if self.households is not None:
            # Evidence leaves out whole households.
            digest.update(b"households")
            digest.update(np.ascontiguousarray(self.record_cell, dtype="<i4").data)
            digest.update(np.ascontiguousarray(self.households, dtype="<i4").data)
        for margin in self.margins:
            digest.update(f"margin {margin.keys} {margin.outside}".encode())
            digest.update(np.ascontiguousarray(margin.counts, dtype="<i8").data)
        if self.layout is not None:
            shape = [len(self.layout.household_keys), self.layout.n_slots, self.layout.head_apart]
            digest.update(b"layout" + json.dumps(shape).encode())
            for rules in self.layout.rules or ():
                digest.update(np.asarray(rules, "<f8").tobytes())
        return digest.hexdigest()


def check_missing(missing: str) -> None:
    """Refuse an unknown treatment of missing values (SpecError)."""
    choices = get_args(Missing)
    if missing not in choices:
        raise SpecError(
            f"{option('missing', brief(str(missing)))} is not known; use one of "
            f"{', '.join(choices)}." + suggest(str(missing), choices)
        )


def _checked_codes(codes: ArrayLike, keys: Sequence[Key], missing: Missing) -> AnyArray:
    array = np.asarray(codes)
    if array.ndim != 2 or array.shape[1] != len(keys):
        raise DataError(
            f"Codes must have shape (n_records, {len(keys)}), a column per key; "
            f"got shape {array.shape}."
        )
    if not len(keys):
        raise DataError("There are no keys; name the key variables.")
    if not len(array):
        raise DataError("There are no records; give at least one.")
    if array.dtype.kind not in "iu":
        raise DataError(f"Codes must be integers; got an array of {array.dtype}.")
    lowest = 0 if missing == "level" else MISSING
    for column, key in zip(array.T, keys, strict=True):
        outside = int(np.count_nonzero((column < lowest) | (column >= key.n_levels)))
        if outside:
            raise DataError(
                f"Key {key.name!r}: {outside:,} codes lie outside {lowest} to {key.n_levels - 1}; "
                "a code is the position of a level, or -1 for missing where missing values are "
                "not a level."
            )
    return array.astype(np.int32, copy=False)


def without(cells: Int32, variable: int, layout: HouseholdLayout | None) -> Int32:
    """Patterns with a key variable left out; those of households in canonical form."""
    if layout is not None:
        return layout.without(cells, variable)
    left = cells.copy()
    left[:, variable] = MISSING
    return left
