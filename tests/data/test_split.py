"""Records that are held out: a partition, by the seed, that leaves something on either side."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unikat.data.keys import Key
from unikat.data.split import split
from unikat.data.table import CellTable
from unikat.errors import SpecError

KEYS = [Key.of_size("A", 3), Key.of_size("B", 3)]


def dependent(n=400, seed=1):
    """B mostly follows A."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n)
    b = np.where(rng.random(n) < 0.6, a, rng.integers(0, 3, n))
    return CellTable.from_codes(np.column_stack([a, b]), KEYS, 10_000)


def test_the_parts_are_a_partition_chosen_by_the_seed():
    table = dependent(n=101)
    kept, out = split(table, 0.2, 1)
    assert (kept.n_records, out.n_records) == (81, 20)
    everybody = np.concatenate([part.cells[part.record_cell] for part in (kept, out)])
    whole = table.cells[table.record_cell]
    np.testing.assert_array_equal(np.sort(everybody, axis=0), np.sort(whole, axis=0))
    again, other = split(table, 0.2, 1)[1], split(table, 0.2, 2)[1]
    np.testing.assert_array_equal(again.record_cell, out.record_cell)
    assert out.fingerprint != other.fingerprint
    assert split(table, 1e-9, 1)[1].n_records == 1
    assert split(table, 1 - 1e-9, 1)[0].n_records == 1


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, math.nan])
def test_shares_that_leave_nothing_are_refused(fraction):
    with pytest.raises(SpecError, match="held_out"):
        split(dependent(), fraction, 1)


def test_one_record_cannot_be_split():
    with pytest.raises(SpecError, match="one record"):
        split(CellTable.from_codes([[0, 0]], KEYS, 10), 0.5, 1)
