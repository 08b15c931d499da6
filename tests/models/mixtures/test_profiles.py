"""The prior of the profiles: its parameters as the options say, and that a fixed one stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unikat import CellTable, Key, LatentClass
from unikat.models.base import Stream

KEYS = [Key.of_size("A", 2), Key.of_size("B", 5)]
CODES = np.random.default_rng(3).integers(0, [2, 5], (60, 2))
TABLE = CellTable.from_codes(CODES, KEYS, population_size=600)


def shares(j: int, n_levels: int) -> Any:
    """Shares of the levels, each raised by half a record."""
    raised = np.bincount(CODES[:, j], minlength=n_levels) + 0.5
    return raised / raised.sum()


@pytest.mark.parametrize("base", ["uniform", "empirical"])
def test_a_total_of_one_whatever_the_number_of_levels(base: Any) -> None:
    model = LatentClass(profile_concentration="total", profile_base=base)
    data = model.prepare(TABLE)
    wanted = np.concatenate(
        [shares(0, 2), shares(1, 5)] if base == "empirical" else [[1 / 2] * 2, [1 / 5] * 5]
    )
    state = model.init(Stream(1, 0, 0), data)
    for sweep in range(1, 10):
        state, _ = model.step(Stream(1, 0, sweep), state, data, 1)
        assert state.profile == pytest.approx(wanted)
    # Planted bug: one for each level, as a number means.
    each = LatentClass(profile_concentration=1, profile_base=base).first_profile(data.records)
    assert not np.allclose(each, wanted)
