"""Records as the kernels of the mixtures read them."""

from __future__ import annotations

import numpy as np
import pytest

from unikat.models.records import sorted_places


@pytest.mark.parametrize("n_keys", [1, 3, 12])
@pytest.mark.parametrize("most", [1, 60, 2**30])
def test_rows_are_sorted_key_by_key(n_keys, most):
    """Also where the numbers of the rows do not fit into 64 bits, and equal rows in their order."""
    rows = np.random.default_rng(n_keys).integers(-1, most, (200, n_keys)).astype(np.int32)
    rows[100:150] = rows[:50]
    np.testing.assert_array_equal(sorted_places(rows), np.lexsort(rows.T[::-1]))
    assert len(sorted_places(rows[:0])) == 0
