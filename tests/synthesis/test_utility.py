"""Margins and pMSE, against their equations cell by cell and by simulation."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from unikat.synthesis.utility import margin_utility, repeated_uniques

LEVELS, NAMES = (2, 3, 4, 3), ("A", "B", "C", "D")


def file(n: int, seed: int, *, missing: bool = False):
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, levels, n) for levels in LEVELS]).astype(np.int32)
    if missing:
        codes[rng.random(codes.shape) < 0.1] = -1
    return codes


def twin(original, synthetic, keys, kept=()):
    """Distance and pMSE of one margin of one file, by counting; `kept` keys were not drawn."""

    def counted(codes):
        rows = (tuple(row[key] for key in keys) for row in codes.tolist())
        return Counter(row for row in rows if min(row) >= 0)

    first, second = counted(original), counted(synthetic)
    n, m = sum(first.values()), sum(second.values())
    cells = set(first) | set(second)
    distance = sum(abs(first[c] / n - second[c] / m) for c in cells) / 2
    h = m / (n + m)
    pmse = sum(
        (first[c] + second[c]) / (n + m) * (second[c] / (first[c] + second[c]) - h) ** 2
        for c in cells
    )
    groups = {tuple(x for key, x in zip(keys, c, strict=True) if key in kept) for c in cells}
    null = (len(cells) - len(groups)) * h * (1 - h) ** 2 / (n + m)
    return distance, pmse, pmse / null


@pytest.mark.parametrize("missing", [False, True])
def test_margins_are_those_of_counting(missing):
    original = file(200, 1, missing=missing)
    synthetic = [file(150, seed, missing=missing) for seed in (2, 3)]
    orders = margin_utility(original, synthetic, LEVELS, NAMES)
    assert [one.n_margins for one in orders] == [4, 6, 4]
    for found, order in zip(orders, (1, 2, 3), strict=True):
        assert found.order == order
        for one, keys in zip(found.margins, combinations(range(4), order), strict=True):
            assert one.variables == tuple(NAMES[key] for key in keys)
            expected = np.mean([twin(original, codes, keys) for codes in synthetic], axis=0)
            got = (one.distance, one.pmse, one.pmse_ratio)
            np.testing.assert_allclose(got, expected)
    assert min(share for share, _ in orders[0].cells) >= 10 / 200
    assert orders[0].n_cells == len(orders[0].cells) > 0


def test_margins_of_kept_keys_are_left_out():
    """B and D are kept; what is drawn is compared given them."""
    original = file(200, 1)
    synthetic = [original.copy() for _ in range(2)]
    for seed, codes in enumerate(synthetic):
        codes[:, [0, 2]] = file(200, seed + 2)[:, [0, 2]]
    orders = margin_utility(original, synthetic, LEVELS, NAMES, kept=["B", "D"])
    assert [one.n_margins for one in orders] == [2, 5, 4]
    for found, order in zip(orders, (1, 2, 3), strict=True):
        drawn = [keys for keys in combinations(range(4), order) if {0, 2} & set(keys)]
        for one, keys in zip(found.margins, drawn, strict=True):
            assert one.variables == tuple(NAMES[key] for key in keys)
            expected = np.mean([twin(original, codes, keys, (1, 3)) for codes in synthetic], axis=0)
            np.testing.assert_allclose((one.distance, one.pmse, one.pmse_ratio), expected)


def test_weighted_distances_are_those_of_records_that_are_repeated():
    """A record of weight 3 counts as three records."""
    original, synthetic = file(200, 1, missing=True), file(200, 2, missing=True)
    times = np.arange(200) % 3 + 1
    orders = margin_utility(original, [synthetic], LEVELS, NAMES, weights=0.5 * times.astype(float))
    repeated = margin_utility(
        original.repeat(times, axis=0), [synthetic.repeat(times, axis=0)], LEVELS, NAMES
    )
    plain = margin_utility(original, [synthetic], LEVELS, NAMES)
    for one, other, without in zip(orders, repeated, plain, strict=True):
        assert one.distance_weighted == pytest.approx(other.distance)
        assert one.distance == without.distance != one.distance_weighted
        assert without.distance_weighted is None


def test_a_copy_has_no_distance():
    original = file(300, 4)
    orders = margin_utility(original, [original, original], LEVELS, NAMES)
    assert [one.distance for one in orders] == [0.0, 0.0, 0.0]
    assert orders[1].cells
    assert all(first == second for first, second in orders[1].cells)
    unique = np.unique(original, axis=0, return_counts=True)[1] == 1
    assert repeated_uniques(original, [original], LEVELS) == pytest.approx(unique.sum() / 300)


@pytest.mark.statistical
def test_the_expected_ratios_and_distances():
    """Means over 400 pairs: 1 of a file drawn from the original's shares, 2 of a second sample.

    The standard errors are below 0.02 (ratios) and 1% (distances); the bounds are five of them.
    """
    rng = np.random.default_rng(9)
    ratios, second, distances = [], [], []
    for _ in range(400):
        original, other = file(1000, int(rng.integers(2**31))), file(1000, int(rng.integers(2**31)))
        resampled = original[rng.integers(0, 1000, 1000)]
        orders = margin_utility(original, [resampled, other], LEVELS[:2], NAMES[:2])
        one = orders[1].margins[0]
        parts = [
            margin_utility(original, [codes], LEVELS[:2], NAMES[:2])[1].margins[0]
            for codes in (resampled, other)
        ]
        assert one.pmse_ratio == pytest.approx(np.mean([part.pmse_ratio for part in parts]))
        ratios.append(parts[0].pmse_ratio)
        second.append(parts[1].pmse_ratio)
        distances.append(parts[1].distance / parts[1].distance_expected)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.15)
    assert np.mean(second) == pytest.approx(2.0, abs=0.3)
    assert np.mean(distances) == pytest.approx(1.0, abs=0.07)


@pytest.mark.statistical
def test_the_expected_ratios_and_distances_where_a_key_is_kept():
    """A is drawn given C: from the original's own shares given C, and once more from the truth.

    Means over 400 pairs, four degrees of freedom each: standard errors 0.035, 0.07 and 2%; the
    bounds are four of them. Were k - 1 = 7 the degrees of freedom, the ratios would be 0.57 and
    1.14.
    """
    rng = np.random.default_rng(10)
    ratios, distances = [], []
    for _ in range(400):
        original = np.column_stack([rng.integers(0, 2, 1000), rng.integers(0, 4, 1000)])
        own, second = original.copy(), original.copy()
        for level in range(4):
            here = original[:, 1] == level
            own[here, 0] = rng.choice(original[here, 0], here.sum())
        second[:, 0] = rng.integers(0, 2, 1000)
        parts = [
            margin_utility(
                original.astype(np.int32), [codes.astype(np.int32)], (2, 4), "AC", kept=["C"]
            )[1].margins[0]
            for codes in (own, second)
        ]
        ratios.append([part.pmse_ratio for part in parts])
        distances.append(parts[1].distance / parts[1].distance_expected)
    means = np.mean(ratios, axis=0)
    assert means[0] == pytest.approx(1.0, abs=0.14)
    assert means[1] == pytest.approx(2.0, abs=0.28)
    assert np.mean(distances) == pytest.approx(1.0, abs=0.08)
