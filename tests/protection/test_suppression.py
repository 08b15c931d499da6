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
from unikat.protection import suppression
from unikat.protection.suppression import KAnonymity, RiskLimit, suppress

DATA = Path(__file__).parents[3] / "shared" / "data"


# --- the twin: the definition of a safe record, in plain Python -----------------------------------


def agrees(a: Any, b: Any) -> bool:
    return all(x == y or x == -1 or y == -1 for x, y in zip(a, b, strict=True))


def lacking(codes: Any, mask: Any, rule: Any) -> list[int]:
    """Matches that each record lacks to be safe; 0 if it is safe by its risk."""
    codes = np.asarray(codes)
    shown = np.where(mask, -1, codes)
    n_missing = []
    for i, record in enumerate(shown):
        total = 1 + sum(agrees(record, codes[h]) for h in range(len(codes)) if h != i)
        accepted = isinstance(rule, RiskLimit) and (
            rule.risk_of(record[None, :])[0] <= rule.threshold
        )
        n_missing.append(0 if accepted else max(0, rule.needed - total))
    return n_missing


def cheapest(codes: Any, rule: Any, costs: Any) -> float | None:
    """Lowest cost over all masks; None if there is no mask that makes all safe."""
    codes = np.asarray(codes)
    places = [tuple(at) for at in np.argwhere((codes >= 0) & np.isfinite(costs)).tolist()]
    best = None
    for chosen in itertools.product((False, True), repeat=len(places)):
        mask = np.zeros(codes.shape, bool)
        for at, hide in zip(places, chosen, strict=True):
            mask[at] = hide
        cost = sum(costs[j] for (_, j), hide in zip(places, chosen, strict=True) if hide)
        if (best is None or cost < best) and not any(lacking(codes, mask, rule)):
            best = cost
    return best


def cost_of(mask: Any, costs: Any) -> float:
    return float(sum(costs[j] for j in np.nonzero(mask)[1]))


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


@pytest.mark.parametrize("kind", ["k2", "k3", "r0.3", "r0.6"])
@pytest.mark.parametrize("costs", [(1.0, 1.0, 1.0), (2.0, 1.0, 2.5), (1.0, np.inf, 0.7)])
def test_the_cost_is_the_lowest_of_all_masks(kind, costs):
    n_levels = [3, 2, 3]
    n_refused = 0
    for seed in range(8):
        codes = table(seed, 4, n_levels, 0.1 * (seed % 3))
        rule = rule_of(kind, n_levels, seed)
        best = cheapest(codes, rule, costs)
        if best is None:
            n_refused += 1
            with pytest.raises(SpecError, match=r"best that can be|lowest threshold that can be"):
                suppress(codes, n_levels, rule, costs=costs)
            continue
        found = suppress(codes, n_levels, rule, costs=costs)
        assert cost_of(found, costs) == pytest.approx(best, abs=1e-9)
        assert not any(lacking(codes, found, rule))
    assert n_refused < 8


# --- what must hold on any table ------------------------------------------------------------------


def naive(codes: Any, rule: Any, costs: Any) -> list[float]:
    """Lowest cost of each record by itself, over all sets of its keys."""
    least = []
    for record in codes:
        options = []
        known = np.flatnonzero(record >= 0)
        for chosen in itertools.product((False, True), repeat=len(known)):
            shown = record.copy()
            shown[known[np.array(chosen, bool)]] = -1
            total = ((codes == shown) | (codes < 0) | (shown < 0)).all(axis=1).sum()
            accepted = isinstance(rule, RiskLimit) and (
                rule.risk_of(shown[None, :])[0] <= rule.threshold
            )
            if accepted or total >= rule.needed:
                options.append(sum(costs[j] for j in np.flatnonzero(shown != record)))
        least.append(min(options))
    return least


def check(codes: Any, n_levels: list[int], rule: Any, costs: Any) -> Any:
    found = suppress(codes, n_levels, rule, costs=costs)
    assert (found == suppress(codes, n_levels, rule, costs=costs)).all()
    assert (codes[found] >= 0).all()
    assert not any(lacking(codes, found, rule))
    by_record = np.where(found, costs, 0.0).sum(axis=1)
    np.testing.assert_allclose(by_record, naive(codes, rule, costs), atol=1e-9)
    return found


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(3, 14),
    n_keys=st.integers(1, 4),
    kind=st.sampled_from(["k2", "k3", "r0.2", "r0.4"]),
    share_missing=st.sampled_from([0.0, 0.1, 0.4]),
    costs=st.sampled_from([(1.0, 1.0, 1.0, 1.0), (0.3, 2.0, 1.0, 1.1)]),
)
def test_what_must_hold(seed, n, n_keys, kind, share_missing, costs):
    n_levels = [4, 3, 2, 5][:n_keys]
    codes = table(seed, n, n_levels, share_missing)
    rule = rule_of(kind, n_levels, seed)
    if isinstance(rule, RiskLimit) and n < 2:
        return
    alone = check(codes, n_levels, rule, costs[:n_keys])
    order = np.random.default_rng(seed).permutation(n)
    shuffled = suppress(codes[order], n_levels, rule, costs=costs[:n_keys])
    assert (shuffled == alone[order]).all()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["k2", "k4", "r0.4"]))
def test_to_suppress_more_makes_no_record_worse(seed, kind):
    n_levels = [3, 2, 4]
    codes = table(seed, 9, n_levels, 0.1)
    rule = rule_of(kind, n_levels, seed)
    rng = np.random.default_rng(seed)
    some = (rng.random(codes.shape) < 0.2) & (codes >= 0)
    more = some | ((rng.random(codes.shape) < 0.2) & (codes >= 0))
    before, after = (lacking(codes, mask, rule) for mask in (some, more))
    assert all(a <= b for a, b in zip(after, before, strict=True))


@pytest.mark.parametrize("target", ["count", "code", "subset"])
def test_a_planted_mistake_is_found(target, monkeypatch):
    n_levels = [4, 3, 2]
    rule = KAnonymity(2)
    real = suppression.Patterns.matching
    if target == "count":
        # A record that counts itself twice needs nobody.
        monkeypatch.setattr(suppression.Patterns, "matching", lambda *given: real(*given) + 1)
    elif target == "code":
        # One record keeps what it has.
        own = suppression._own_optimum
        monkeypatch.setattr(
            suppression,
            "_own_optimum",
            lambda *given: own(*given) & (np.arange(len(given[0].cells)) > 0)[:, None],
        )
    else:
        # Sets of keys from the dearest one on.
        first = suppression.cheapest_first
        monkeypatch.setattr(suppression, "cheapest_first", lambda cost: first(cost)[::-1])
    codes = np.array([[0, 0, 0], [1, 1, 0], [1, 1, 1], [2, 2, 1], [3, 0, 1]], np.int32)
    with pytest.raises(AssertionError):
        check(codes, n_levels, rule, (1.0, 1.0, 1.0))


# --- examples -----------------------------------------------------------------------------------


def test_of_equal_sets_the_first_in_the_order_of_the_keys_is_taken():
    codes = [[0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 1, 1], [1, 1, 0]]
    found = suppress(codes, (2, 2, 2), KAnonymity(2))
    assert found.astype(int).tolist() == [
        [0, 0, 0], [0, 0, 0], [1, 0, 0], [1, 0, 1], [0, 1, 0],
    ]  # fmt: skip


def test_a_missing_value_matches_everything():
    codes = np.array([[0, 1], [-1, 1], [1, 0], [1, -1]], np.int32)
    assert not suppress(codes, (2, 2), KAnonymity(2)).any()
    # The first has one match in every case; the second and third of them lack a value.
    found = suppress(codes, (2, 2), KAnonymity(3))
    assert not any(lacking(codes, found, KAnonymity(3)))
    assert not found[codes < 0].any()


def test_a_table_without_records_needs_nothing():
    assert suppress(np.empty((0, 2), np.int32), (2, 2), KAnonymity(2)).shape == (0, 2)


def test_more_levels_than_fit_in_an_integer():
    n_levels = [60_000] * 6
    codes = np.array([[i * 59_999 % 60_000] * 6 for i in range(40)] * 2, np.int32)
    codes[40:, 5] = 7
    found = suppress(codes, n_levels, KAnonymity(2))
    assert found.sum(axis=0).tolist() == [0, 0, 0, 0, 0, 80]


def test_the_risk_is_asked_of_sample_uniques_of_a_margin_alone_and_until_they_are_safe():
    asked = []

    def risk_of(patterns: Any) -> Any:
        asked.extend(map(tuple, patterns.tolist()))
        return np.where((patterns < 0).any(axis=1), 0.0, 1.0)

    codes = np.array([[0, 0], [0, 0], [1, 0], [0, 1], [1, 1]])
    found = suppress(codes, (2, 2), RiskLimit(0.5, risk_of), costs=[1.0, 2.0])
    assert found.sum(axis=0).tolist() == [3, 0]
    assert sorted(asked) == [(0, 1), (1, 0), (1, 1)]


# --- what cannot be reached, --------------------------------------------------


def test_what_cannot_be_reached_is_named_and_can_be_reached():
    codes = table(3, 6, [3, 3], 0.0)
    with pytest.raises(SpecError, match=r"6 records do not reach k = 7.* is k = 6"):
        suppress(codes, (3, 3), KAnonymity(7))
    assert suppress(codes, (3, 3), KAnonymity(6)).any()
    risk = RiskLimit(0.1, lambda patterns: np.where((patterns < 0).all(axis=1), 0.4321987, 0.9))
    with pytest.raises(SpecError, match=r"1 record has a risk above 0.1, .* reached is 0.432199"):
        suppress([[1, 1]], (3, 3), risk)
    allowed = RiskLimit(0.432199, risk.risk_of)
    assert suppress([[1, 1]], (3, 3), allowed).sum() == 2


def test_a_key_that_is_kept_is_never_suppressed():
    codes = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 2]], np.int32)
    with pytest.raises(SpecError, match=r"1 record does not reach k = 2.* is k = 1"):
        suppress(codes, (3, 3), KAnonymity(2), costs=[np.inf, 1.0])
    found = suppress(codes[:5], (3, 3), KAnonymity(2), costs=[np.inf, 1.0])
    assert found.sum(axis=0).tolist() == [0, 5]
    with pytest.raises(SpecError, match="reach k = 2"):
        suppress(codes, (3, 3), KAnonymity(2), costs=[np.inf, np.inf])


def test_too_many_keys_are_refused():
    with pytest.raises(SpecError, match="at most 20 keys; there are 21"):
        suppress(np.zeros((1, 21), int), [1] * 21, KAnonymity(2))


# --- real data ------------------------------------------------------------------------------------


def test_on_the_census_each_record_has_its_own_optimum():
    path = DATA / "acs2024_persons_northeast.parquet"
    if not path.exists():
        pytest.skip("the real data are not here")
    import pandas as pd

    keys = ["ST", "AGEP", "SEX", "RAC1P", "MAR"]
    frame = pd.read_parquet(path, columns=keys).iloc[::2_000]
    codes = np.column_stack([pd.factorize(frame[key], sort=True)[0] for key in keys])
    n_levels = (codes.max(axis=0) + 1).tolist()
    found = check(codes.astype(np.int32), n_levels, KAnonymity(2), (2.0, 1.0, 3.0, 1.5, 1.0))
    assert found.any(axis=1).mean() > 0.5
    assert found[:, 1].sum() > found[:, 2].sum()
