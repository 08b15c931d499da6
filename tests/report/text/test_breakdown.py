"""The table of risk by level, as the report shows it."""

from __future__ import annotations

import pytest

from unikat.report.facts.breakdown import Breakdown, LevelFacts
from unikat.report.text.breakdown import MOST_LEVELS, rows


def test_what_is_not_shown_is_in_the_last_row():
    """Every number of a variable adds up to that of all its levels, shown or not."""
    levels = tuple(
        LevelFacts(label=f"l{i}", n_records=100 - i, n_uniques=20 - i, tau1=64.0 / 2**i)
        for i in range(MOST_LEVELS + 2)
    )
    other = LevelFacts(label="other levels", n_records=17, n_uniques=5, tau1=8.0)
    total = sum(one.tau1 for one in levels) + other.tau1
    found = Breakdown(variable="job", is_key=True, levels=levels, n_other=3, other=other)
    made = rows([found], total)
    assert [row.label for row in made] == [*(f"l{i}" for i in range(MOST_LEVELS)), "5 other levels"]
    assert (made[0].variable, made[0].n_rows, made[1].variable) == ("job", MOST_LEVELS + 1, "")
    last = made[-1]
    assert (last.n_records, last.n_uniques) == ("200", "28")
    assert float(last.tau1) == pytest.approx(64 / 256 + 64 / 512 + 8.0, abs=0.1)
    assert sum(float(row.n_records) for row in made) == sum(100 - i for i in range(10)) + 17
