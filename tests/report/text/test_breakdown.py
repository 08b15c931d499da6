"""The table of risk by level, as the report shows it."""

from __future__ import annotations

import pytest

from unikat.report.facts.breakdown import Breakdown, LevelFacts
from unikat.report.text.breakdown import MOST_LEVELS, tables


def test_what_is_not_shown_is_in_the_last_row():
    """Every number of a variable adds up to that of all its levels, shown or not."""
    levels = tuple(
        LevelFacts(label=f"l{i}", n_records=100 - i, n_uniques=20 - i, tau1=64.0 / 2**i)
        for i in range(MOST_LEVELS + 2)
    )
    other = LevelFacts(label="other levels", n_records=17, n_uniques=5, tau1=8.0)
    found = Breakdown(variable="job", is_key=True, levels=levels, n_other=3, other=other)
    [(variable, made)] = tables([found])
    assert [row.label for row in made] == [*(f"l{i}" for i in range(MOST_LEVELS)), "5 other levels"]
    assert variable == "job"
    last = made[-1]
    assert (last.n_records, last.n_uniques) == (200, 28)
    assert last.tau1 == pytest.approx(64 / 256 + 64 / 512 + 8.0)
    assert sum(row.n_records for row in made) == sum(100 - i for i in range(10)) + 17
