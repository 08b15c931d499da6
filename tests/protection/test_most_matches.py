"""The intruder who has most correct matches, counted by loops in a file that is the population."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.protection.perturbed import most_matches
from unikat.protection.recoding import parse_recoding
from unikat.protection.what_if import Posterior

LEVELS = (3, 3, 60)
NAMES = "ABC"
IGNORED: tuple[tuple[str, ...], ...] = ((), ("A",), ("B",), ("A", "B"))


def counted(
    true: Any, rows: Any, published: Any, unsuppressed: Any, ignored: tuple[str, ...]
) -> tuple[int, float, int]:
    """τ1, τ2 and the records that are alone, of an intruder who leaves some keys out."""
    kept = [j for j, name in enumerate(NAMES) if name not in ignored]
    tau1, tau2, n_alone = 0, 0.0, 0
    for i, row in enumerate(rows):
        shown = published[i, kept]
        agreeing = sum(all((shown < 0) | (shown == other)) for other in unsuppressed[:, kept])
        if agreeing != 1:
            continue
        n_alone += 1
        if all((shown < 0) | (shown == true[row, kept])):
            persons = sum(all((shown < 0) | (shown == other)) for other in true[:, kept])
            tau1 += persons == 1
            tau2 += 1.0 / persons
    return tau1, tau2, n_alone


def test_the_intruder_who_leaves_out_what_misleads_him() -> None:
    """Every perturbed key by itself, and all together; of records that are released in part."""
    best = {1: set(), 2: set()}  # type: dict[int, set[tuple[str, ...]]]
    suppressed_matter = 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        true = np.stack([rng.integers(0, n, 36) for n in LEVELS], axis=1).astype(np.int32)
        keys = [Key.of_size(name, n) for name, n in zip(NAMES, LEVELS, strict=True)]
        table = CellTable.from_codes(true, keys, population_size=len(true))
        rows = np.sort(rng.choice(len(true), 22, replace=False))
        unsuppressed = true[rows].copy()
        for j, share in enumerate(((0.9, 0.05), (0.05, 0.9), (0.9, 0.9), (0.1, 0.1))[seed % 4]):
            redrawn = rng.random(len(rows)) < share
            unsuppressed[redrawn, j] = rng.integers(0, LEVELS[j], int(redrawn.sum()))
        hidden = rng.random(unsuppressed.shape) < 0.08
        published = np.where(hidden, -1, unsuppressed).astype(np.int32)
        found = most_matches(
            Posterior.without_model(table),
            parse_recoding(table, {}),
            published,
            0.95,
            ("A", "B"),
            rows,
            unsuppressed,
        )
        each = [counted(true, rows, published, unsuppressed, one) for one in IGNORED]
        assert found.tau1.mean == found.tau1.upper == max(one[0] for one in each)
        assert found.tau2.mean == pytest.approx(max(one[1] for one in each))
        assert found.n_uniques == each[0][2]
        tau2 = [one[1] for one in each]
        assert found.ignored == IGNORED[int(np.argmax(tau2))]
        for which, place in ((1, 0), (2, 1)):
            values = [one[place] for one in each]
            if values.count(max(values)) == 1:
                best[which].add(IGNORED[int(np.argmax(values))])
        # What is suppressed of others matches as what they would show.
        otherwise = counted(true, rows, published, true[rows], ())
        suppressed_matter += otherwise[2] != each[0][2]
        both = min(
            sum(
                all((mine < 0) | (theirs < 0) | (mine == theirs)) for theirs in published
            )
            for mine in published
        )  # fmt: skip
        assert found.smallest == both
    # Each of them is the one who has most, of τ1 and of τ2.
    assert all(len(one) == len(IGNORED) for one in best.values()), best
    assert suppressed_matter > 0
