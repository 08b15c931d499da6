"""Records as the kernels of the mixtures read them."""

from __future__ import annotations

import numpy as np
import pytest

from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.records import lay_out, sorted_places


@pytest.mark.parametrize("n_keys", [1, 3, 12])
@pytest.mark.parametrize("most", [1, 60, 2**30])
def test_rows_are_sorted_key_by_key(n_keys, most):
    """Also where the numbers of the rows do not fit into 64 bits, and equal rows in their order."""
    rows = np.random.default_rng(n_keys).integers(-1, most, (200, n_keys)).astype(np.int32)
    rows[100:150] = rows[:50]
    np.testing.assert_array_equal(sorted_places(rows), np.lexsort(rows.T[::-1]))
    assert len(sorted_places(rows[:0])) == 0


def test_a_table_is_laid_out_as_its_records_say():
    """Counts against records counted one by one; keys are missing in a third of them."""
    sizes, rng = (2, 4, 3), np.random.default_rng(5)
    codes = np.column_stack([rng.integers(-1, size, 300) for size in sizes]).astype(np.int32)
    keys = tuple(Key.of_size(f"K{j}", size) for j, size in enumerate(sizes))
    table = CellTable.from_codes(codes, keys, population_size=5000)
    data = lay_out(table)
    assert list(data.offsets) == [0, 2, 6, 9]
    # Records come in the order of their pattern.
    records = table.cells[np.repeat(np.arange(table.n_cells), table.counts)]
    np.testing.assert_array_equal(table.cells[data.record_cell], records)
    known = [[(j, int(code)) for j, code in enumerate(one) if code >= 0] for one in codes]
    for cell, rows in zip(table.cells, data.rows, strict=True):
        for j, code in enumerate(cell):
            assert rows[j] == (-1 if code < 0 else data.offsets[j] + code)
    for j, size in enumerate(sizes):
        for code in range(size):
            n = sum((j, code) in one for one in known)
            assert data.frequencies[data.offsets[j] + code] == n
    assert list(data.at_least) == [sum(len(one) > l for one in known) for l in range(3)]
