"""Expected unobserved units of each cell where margins of the population are known.

Of margin cell m, a combination of the levels of some keys, the population has N_m units, and the
sample n_m: the M_m = N_m - n_m others are Multinomial(M_m, p_c / p_m) over the cells c of m, with
p_m the model's probability of m. So m is a class of equal chances, as in post-stratification.

Of several margins, the first one's cells are the classes, and the expected units of the others hold
as well. With j the *joint* cells, combinations of the levels of all keys that a margin has,

    M_j = p_j prod_t a_t(j),      sum of M_j over the j of cell m of margin t  =  M_m of t,

is found by raking p_j to the unobserved margins (iterative proportional fitting, Deming and Stephan
1940), draw by draw: M_j is what unobserved units given all margins have as their mean, to first
order. Of the M_m units of class m a share p_c M_j / (p_j M_m) is expected in cell c of j.

Records without all of a margin's keys are spread over the margin cells that they may be in, in
proportion to the units left there. They change M_m by less than their own number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from unikat._typing import AnyArray, Float64, Int32, Int64
from unikat.data.companions import Companions
from unikat.data.margins import margin_cell
from unikat.data.table import CellTable, Margin
from unikat.risk.by_class import ByClass, ClassChances, Look, probabilities

MOST_ROUNDS = 200
"""Rounds of raking, at most."""
PRECISION = 1e-9
"""Raking ends when no margin cell is off by more than this share of the units."""


MOST_ROWS = 1 << 20
"""Cells within joint cells that a model is asked for at a time, about."""
_NOTHING = np.empty(0, np.int64), np.empty(0)
_SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")


class Target(NamedTuple):
    """A margin to rake to."""

    cell: Int64
    """(n_joint,): its cell that each joint cell is in."""
    units: Float64
    """(n_margin_cells,)"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Joint:
    """The joint cells of some margins: combinations of the levels of all their keys."""

    keys: tuple[int, ...]
    levels: Int32
    """(n_joint, len(keys)), sorted."""
    n_levels: tuple[int, ...]
    """Levels of all keys of the table."""
    columns: tuple[int, ...]
    """Column of each of `keys` in cells that are asked for; -1 if there is none."""
    shown: Int32
    """(n_joint, len(keys)): what the columns show: the levels, or groups of them."""
    n_recoded: int | None = None
    """Recoded keys, whose levels are in `shown`; None if keys are as they were."""

    @classmethod
    def of(cls, margins: Sequence[Margin], n_levels: Sequence[int]) -> Joint:
        """List the joint cells."""
        keys = tuple(sorted({j for margin in margins for j in margin.keys}))
        grid = np.indices([n_levels[j] for j in keys]).reshape(len(keys), -1)
        levels = np.ascontiguousarray(grid.T, dtype=np.int32)
        return cls(keys=keys, levels=levels, n_levels=tuple(n_levels), columns=keys, shown=levels)

    def recoded(self, groups: Sequence[Int32], kept: Sequence[int]) -> Joint:
        """Return the same joint cells as recoded keys show them.

        groups: group of each level, of each key of the table; kept: the keys not left out.
        """
        place = {j: column for column, j in enumerate(kept)}
        shown = [groups[j][self.levels[:, k]] for k, j in enumerate(self.keys)]
        return replace(
            self,
            columns=tuple(place.get(j, -1) for j in self.keys),
            shown=np.stack(shown, axis=1).astype(np.int32),
            n_recoded=len(kept),
        )

    @property
    def cells(self) -> Int32:
        """As a model is asked for them, (n_joint, n_keys); -1 for the other keys."""
        width = len(self.n_levels) if self.n_recoded is None else self.n_recoded
        cells = np.full((len(self.levels), width), -1, np.int32)
        return self.joined(cells, np.arange(len(cells)))

    def joined(self, cells: Int32, joint: Int64) -> Int32:
        """What cells (n, n_keys) and joint cells (n,) have in common, as a model is asked for it.

        Where keys are recoded, levels of the joint cells follow them (`Recoded.finer`).
        """
        if self.n_recoded is not None:
            return np.column_stack((cells, self.levels[joint])).astype(np.int32)
        rows = cells.copy()
        rows[:, self.keys] = self.levels[joint]
        return rows

    def spreads(self, cells: Int32) -> bool:
        """Whether cells may be in several joint cells."""
        return self.n_recoded is not None or bool((cells[:, self.keys] < 0).any())

    def within(self, cells: Int32) -> tuple[Int64, Int64]:
        """Joint cells that cells (n, n_keys) may be in; of complete ones their own.

        Returns
        -------
        tuple
            Row of `cells` and joint cell, (n_pairs,) each, sorted by the row.
        """
        codes = np.full((len(cells), len(self.keys)), -1, np.int32)
        for key, column in enumerate(self.columns):
            if column >= 0:
                codes[:, key] = cells[:, column]
        open_ = codes < 0
        size = (self.shown.max(axis=0) + 1).tolist()
        owners: list[AnyArray] = []
        joints: list[AnyArray] = []
        for pattern in np.unique(open_, axis=0):
            rows = np.flatnonzero((open_ == pattern).all(axis=1))
            closed = np.flatnonzero(~pattern)
            place = np.zeros(len(self.levels), np.int64)
            asked = np.zeros(len(rows), np.int64)
            for k in closed:
                place = place * size[k] + self.shown[:, k]
                asked = asked * size[k] + codes[rows, k]
            order = np.argsort(place, kind="stable")
            first, end = (np.searchsorted(place[order], asked, side) for side in _SIDES)
            many = end - first
            start = np.repeat(first - np.cumsum(many) + many, many)
            joints.append(order[start + np.arange(len(start))])
            owners.append(np.repeat(rows, many))
        if not owners:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        owner, joint = np.concatenate(owners), np.concatenate(joints)
        order = np.argsort(owner, kind="stable")
        return owner[order], joint[order]


@dataclass(frozen=True, kw_only=True, eq=False)
class ByMargins(ByClass):
    """The classes are cells of a margin. Made by :meth:`of`."""

    joint: Joint
    class_of: Int64
    """(n_joint,): class of each joint cell."""
    targets: tuple[Target, ...]
    """Unobserved units of the margins to rake to; empty for one margin."""
    sampled: Float64
    """(n_joint,): share of the records in each joint cell."""
    n_records: int

    @classmethod
    def of(cls, table: CellTable) -> ByMargins:
        """Prepare for a table with margins."""
        joint = Joint.of(table.margins, table.n_levels)
        sampled = joint_counts(table, joint)
        targets = []
        for margin in table.margins:
            cell = margin_cell(joint.cells, margin.keys, table.n_levels)
            n_m = np.bincount(cell, sampled, len(margin.counts))
            targets.append(Target(cell, np.maximum(margin.counts - n_m, 0.0)))
        # Whole numbers, as a multinomial asks.
        unobserved = np.rint(targets[0].units)
        return cls(
            unobserved=unobserved,
            sizes=table.margins[0].counts.astype(np.float64),
            joint=joint,
            class_of=targets[0].cell,
            targets=tuple(targets) if len(targets) > 1 else (),
            sampled=sampled / table.n_records,
            n_records=table.n_records,
        )

    @property
    def width(self) -> int:
        """Combinations that a model is asked for, for each cell."""
        return 1

    def chances(
        self, look: Look, cells: Int32, companions: Companions | None = None
    ) -> ClassChances:
        """Chances of cells, (n, n_keys) codes; -1 leaves a key out."""
        p_joint = probabilities(look, self.joint.cells)
        inverse = np.divide(1.0, p_joint, out=np.zeros(len(p_joint)), where=p_joint > 0.0)
        given = self._raked(p_joint) * inverse if self.targets else inverse
        n, n_classes = len(cells), len(self.sizes)
        # In blocks, so that memory does not grow with cells times joint cells.
        most = max(MOST_ROWS // len(self.joint.levels), 1) if self.joint.spreads(cells) else n
        found: list[tuple[Int64, Float64]] = []
        sample = np.zeros(n)
        for start in range(0, n, max(most, 1)):
            owner, joint = self.joint.within(cells[start : start + most])
            owner += start
            rows = self.joint.joined(cells[owner], joint)
            of_rows = None if companions is None else companions.taken(owner)
            q = probabilities(look, rows, of_rows)
            sample += np.bincount(owner, q * (self.sampled * inverse)[joint], minlength=n)
            # The units of a class are in one of its joint cells or in another: one multinomial.
            pairs, which = np.unique(owner * n_classes + self.class_of[joint], return_inverse=True)
            chance = np.bincount(which.ravel(), q * given[joint])
            found.append((pairs, chance.astype(np.float64)))
        pairs = np.concatenate([_NOTHING[0], *(one for one, _ in found)])
        chance = np.concatenate([_NOTHING[1], *(one for _, one in found)])
        owner, classes_of = np.divmod(pairs, n_classes)
        width = np.bincount(owner, minlength=n)
        place = np.arange(len(owner)) - np.repeat(np.cumsum(width) - width, width)
        shape = (n, int(width.max(initial=1)))
        p, classes = np.zeros(shape), np.zeros(shape, np.int64)
        p[owner, place] = np.minimum(chance, 1.0)
        classes[owner, place] = classes_of
        return ClassChances(sample, p, classes)

    def recoded(self, groups: Sequence[Int32], kept: Sequence[int]) -> ByMargins:
        """Return the same margins where keys are recoded; see `Joint.recoded`.

        The margins are those of the keys as they were.
        """
        return replace(self, joint=self.joint.recoded(groups, kept))

    def population(self, chances: ClassChances) -> Float64:
        """Units of the population expected in each cell, over its probability, (n,).

        At least the records: of a margin cell that is in the sample as a whole nobody is expected.
        """
        return np.maximum(super().population(chances), float(self.n_records))

    def _raked(self, p_joint: Float64) -> Float64:
        """Share of the unobserved units of a class in each of its joint cells, (n_joint,)."""
        units = raked(p_joint, self.targets)
        classes = self.targets[0].units
        whole = np.divide(1.0, classes, out=np.zeros(len(classes)), where=classes > 0.0)
        return units * whole[self.class_of]


def raked(seed: Float64, targets: Sequence[Target]) -> Float64:
    """Bring positive numbers to margins, by factors of each margin's cells (Deming and Stephan).

    The first margin holds exactly in the end. A margin cell whose numbers are all 0 keeps them.

    Examples
    --------
    >>> rows = Target(np.array([0, 0, 1, 1]), np.array([3.0, 7.0]))
    >>> columns = Target(np.array([0, 1, 0, 1]), np.array([6.0, 4.0]))
    >>> raked(np.array([1.0, 1.0, 1.0, 1.0]), [rows, columns]).round(6).tolist()
    [1.8, 1.2, 4.2, 2.8]
    """
    found = seed.astype(np.float64)
    enough = PRECISION * float(targets[0].units.sum())
    for _ in range(MOST_ROUNDS):
        off = 0.0
        # The first margin last.
        for number in (*range(1, len(targets)), 0):
            target = targets[number]
            sums = np.bincount(target.cell, found, len(target.units))
            off = max(off, float(np.abs(sums - target.units)[sums > 0.0].max(initial=0.0)))
            found *= np.divide(target.units, sums, out=np.ones(len(sums)), where=sums > 0.0)[
                target.cell
            ]
        if off <= enough:
            break
    return found


def joint_counts(table: CellTable, joint: Joint) -> Float64:
    """Records of the sample in each joint cell, (n_joint,).

    Records without all keys are spread over those they may be in.
    """
    complete = (table.cells[:, joint.keys] >= 0).all(axis=1)
    n_joint = len(joint.levels)
    counts = table.counts.astype(np.float64)
    _, cell = joint.within(table.cells[complete])
    found = np.bincount(cell, counts[complete], n_joint).astype(np.float64)
    if complete.all():
        return found
    # A record more in each joint cell, or those without a record could not be raked up.
    expected = raked(
        found + 1.0,
        [
            Target(
                margin_cell(joint.cells, margin.keys, table.n_levels),
                margin.counts.astype(np.float64),
            )
            for margin in table.margins
        ],
    )
    left = np.maximum(expected - found, 0.0)
    owner, cell = joint.within(table.cells[~complete])
    total = np.bincount(owner, left[cell])
    many = np.bincount(owner)
    share = np.divide(left[cell], total[owner], out=1.0 / many[owner], where=total[owner] > 0.0)
    spread = np.bincount(cell, counts[~complete][owner] * share, n_joint)
    return (found + spread).astype(np.float64)


def moved(table: CellTable, sample: CellTable) -> tuple[Margin, ...]:
    """Return the margins of a population that has another sample, and the same unobserved units."""
    if not table.margins:
        return ()
    joint = Joint.of(table.margins, table.n_levels)
    more = joint_counts(replace(sample, margins=table.margins), joint)
    more -= joint_counts(table, joint)
    return tuple(replace(margin, counts=_changed(margin, more, joint)) for margin in table.margins)


def _changed(margin: Margin, more: Float64, joint: Joint) -> Int64:
    cell = margin_cell(joint.cells, margin.keys, joint.n_levels)
    changed = np.bincount(cell, more, len(margin.counts))
    counts: Int64 = np.maximum(np.rint(margin.counts + changed), 0.0).astype(np.int64)
    return counts
