"""The files of an attack with households as their records: what the members have together.

Members have no order. So a household has of each key the values of all its members, as often as
they occur, and as one column more the members themselves. Two households are alike if they have
the same members; they differ in as many keys as these have other values.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unikat._typing import AnyArray, Int32, Int64
from unikat.data.patterns import pattern_ids
from unikat.synthesis.attacks.control import scattered
from unikat.synthesis.attacks.files import Files

MEMBERS = "members"
"""Name of the column of the members themselves."""


def whole_households(files: Files) -> Files | None:
    """Make files of households of files of persons; None if one does not tell who lives together.

    The columns are those of the keys, and the members last. The files have no households any more,
    since their records are independent.
    """
    household = [files.household, *files.synthetic_household]
    if len(files.control):
        household.append(files.control_household)
    known = [one for one in household if one is not None]
    if len(known) < len(household):
        return None
    persons = np.concatenate([files.original, *files.synthetic, files.control])
    keys = persons[:, : files.n_keys]
    ends = np.cumsum([0, *(int(one.max()) + 1 for one in known)])
    together = np.concatenate([one + end for one, end in zip(known, ends[:-1], strict=True)])
    members = pattern_ids(keys, files.n_levels[: files.n_keys])
    columns = [_alike(together, values) for values in (*keys.T, members)]
    parts = np.split(np.stack(columns, axis=1), ends[1:-1])
    original, *made = parts[: 1 + len(files.synthetic)]
    return replace(
        files,
        names=(*files.names[: files.n_keys], MEMBERS),
        n_keys=len(columns),
        n_levels=tuple(int(column.max()) + 1 for column in columns),
        original=original,
        synthetic=tuple(made),
        control=parts[-1] if len(files.control) else original[:0],
        population=original[:0],
        household=None,
        synthetic_household=(),
        control_household=None,
    )


def _alike(household: Int64, values: AnyArray) -> Int32:
    """Number households, (n_households,), alike if their members have the same values.

    Values are scattered over all of 64 bits, and their sums are compared.
    """
    order = np.argsort(household, kind="stable")
    starts = np.flatnonzero(np.diff(household[order], prepend=-1))
    sums = np.add.reduceat(scattered(values[order].astype(np.uint64), 0), starts)
    number: Int32 = np.unique(sums, return_inverse=True)[1].astype(np.int32)
    return number
