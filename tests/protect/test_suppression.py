"""Local suppression against all masks of small tables, and what must hold on any table."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unikat.errors import SpecError
from unikat.protect import coupled as coupled_module
from unikat.protect import suppression
from unikat.protect.suppression import KAnonymity, RiskLimit, suppress

DATA = Path(__file__).parents[3] / "shared" / "data"
READINGS: list[suppression.Matching] = ["true", "wildcard"]


# --- the twin: the definition of a safe record, in plain Python ----------------------------------


def agrees(a: Any, b: Any) -> bool:
    return all(x == y or x == -1 or y == -1 for x, y in zip(a, b, strict=True))


def lacking(codes: Any, mask: Any, rule: Any, matching: str) -> list[int]:
    """Matches that each record lacks to be safe; 0 if it is safe by its risk."""
    codes = np.asarray(codes)
    shown = np.where(mask, -1, codes)
    others = shown if matching == "wildcard" else codes
    n_missing = []
    for i, record in enumerate(shown):
        total = 1 + sum(agrees(record, others[h]) for h in range(len(codes)) if h != i)
        accepted = isinstance(rule, RiskLimit) and (
            rule.risk_of(record[None, :])[0] <= rule.threshold
        )
        n_missing.append(0 if accepted else max(0, rule.needed - total))
    return n_missing


def cheapest(codes: Any, rule: Any, costs: Any, matching: str) -> float | None:
    """Lowest cost over all masks; None if there is no mask that makes all safe."""
    codes = np.asarray(codes)
    places = [tuple(at) for at in np.argwhere((codes >= 0) & np.isfinite(costs)).tolist()]
    best = None
    for chosen in itertools.product((False, True), repeat=len(places)):
        mask = np.zeros(codes.shape, bool)
        for at, hide in zip(places, chosen, strict=True):
            mask[at] = hide
        cost = sum(costs[j] for (_, j), hide in zip(places, chosen, strict=True) if hide)
        if (best is None or cost < best) and not any(lacking(codes, mask, rule, matching)):
            best = cost
    return best


def risk_by_share(n_levels: list[int], seed: int) -> Any:
    """Return a risk that never grows with a further missing key: exp of minus a product."""
    rng = np.random.default_rng(seed)
    rate = [rng.uniform(0.1, 1.0, n) for n in n_levels]

    def risk_of(patterns: Any) -> Any:
        mean = np.ones(len(patterns))
        for j, values in enumerate(rate):
            mean *= np.where(patterns[:, j] < 0, 1.5, values[patterns[:, j]])
        return np.exp(-mean)

    return risk_of


def table(seed: int, n: int, n_levels: list[int], share_missing: float) -> Any:
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, k, n) for k in n_levels]).astype(np.int32)
    codes[rng.random(codes.shape) < share_missing] = -1
    return codes


def rule_of(kind: str, n_levels: list[int], seed: int) -> Any:
    if kind.startswith("k"):
        return KAnonymity(int(kind[1:]))
    return RiskLimit(float(kind[1:]), risk_by_share(n_levels, seed))


@pytest.mark.parametrize("matching", READINGS)
@pytest.mark.parametrize("kind", ["k2", "k3", "r0.3", "r0.6"])
@pytest.mark.parametrize("costs", [(1.0, 1.0, 1.0), (2.0, 1.0, 2.5), (1.0, np.inf, 0.7)])
def test_the_cost_is_the_lowest_of_all_masks(matching, kind, costs):
    n_levels = [3, 2, 3]
    n_refused = 0
    for seed in range(8):
        codes = table(seed, 4, n_levels, 0.1 * (seed % 3))
        rule = rule_of(kind, n_levels, seed)
        best = cheapest(codes, rule, costs, matching)
        if best is None:
            n_refused += 1
            with pytest.raises(SpecError, match="best that can be|lowest threshold that can be"):
                suppress(codes, n_levels, rule, costs=costs, matching=matching)
            continue
        found = suppress(codes, n_levels, rule, costs=costs, matching=matching)
        assert found.cost == pytest.approx(best, abs=1e-9)
        assert found.optimal
        assert not any(lacking(codes, found.suppressed, rule, matching))
    assert n_refused < 8
