"""Minimal sample uniques against an enumeration, scores against sdcMicro, and what must hold."""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unikat.classics import suda
from unikat.classics.suda import suda2
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError

ORACLES = Path(__file__).parents[3] / "shared" / "oracles"
LACKING = ["differs", "matches"]


def tabulated(codes: Any, missing: str = "integrate", n_levels: Any = None) -> CellTable:
    codes = np.asarray(codes)
    n_levels = n_levels or [max(int(column.max()), 0) + 1 for column in codes.T]
    keys = [Key.of_size(f"K{j}", n) for j, n in enumerate(n_levels)]
    return CellTable.from_codes(codes, keys, max(1000, len(codes)), missing)


def random_codes(seed: int, n: int, n_levels: list[int], share_missing: float) -> Any:
    rng = np.random.default_rng(seed)
    codes = np.column_stack([np.minimum(rng.geometric(0.5, n) - 1, k - 1) for k in n_levels])
    codes[rng.random(codes.shape) < share_missing] = -1
    return codes


# --- the twin: every record, every set of keys --------------------------------------------------


def agrees(other: Any, record: Any, j: int, lacking: str) -> bool:
    return other[j] == record[j] or (lacking == "matches" and other[j] == -1)


def uniques_of(i: int, records: list[Any], largest: int, lacking: str) -> list[tuple[int, ...]]:
    """Minimal sample uniques of record i, from the definition."""
    found: list[tuple[int, ...]] = []
    known = [j for j in range(len(records[i])) if records[i][j] >= 0]
    for k in range(1, largest + 1):
        for keys in itertools.combinations(known, k):
            if any(set(part) <= set(keys) for part in found):
                continue
            if not any(
                all(agrees(other, records[i], j, lacking) for j in keys)
                for h, other in enumerate(records)
                if h != i
            ):
                found.append(keys)
    return found


def worth(n_keys: int, k: int, scores: str) -> Fraction:
    if scores == "original":
        return Fraction(math.factorial(n_keys - k))
    larger = sum(math.comb(n_keys - k, more) for more in range(1, n_keys - k + 1))
    return Fraction(larger, math.comb(n_keys, k))


def check(codes: Any, lacking: str, largest: int | None = None, scores: Any = "original") -> None:
    """Everything that `suda2` returns, against the twin."""
    records = [tuple(row) for row in np.asarray(codes).tolist()]
    n_keys = len(records[0])
    size = n_keys if largest is None else min(largest, n_keys)
    table = tabulated(codes)
    result = suda2(table, largest=largest, scores=scores, lacking=lacking, dis_fraction=0.05)
    at = table.record_cell
    assert result.n_msu.shape == (table.n_cells, size)
    total, by_key, by_level = Fraction(), Counter(), Counter()
    expected = []
    for i, record in enumerate(records):
        found = uniques_of(i, records, size, lacking)
        sizes = Counter(map(len, found))
        assert result.n_msu[at[i]].tolist() == [sizes[k] for k in range(1, size + 1)]
        score = sum((worth(n_keys, len(keys), scores) for keys in found), Fraction())
        assert result.score[at[i]] == pytest.approx(float(score), rel=1e-12)
        for j in range(n_keys):
            part = sum(
                (worth(n_keys, len(keys), scores) for keys in found if j in keys), Fraction()
            )
            share = 100 * part / score if score else 0
            assert result.contribution[at[i], j] == pytest.approx(float(share), rel=1e-12)
            by_key[j] += part
            by_level[j, record[j]] += part
        total += score
        expected.append(float(score))
    for j in range(n_keys):
        share = 100 * by_key[j] / total if total else 0
        assert result.key_contribution[j] == pytest.approx(float(share), rel=1e-12)
        for level, value in enumerate(result.level_contribution[j]):
            share = 100 * by_level[j, level] / by_key[j] if by_key[j] else math.nan
            assert value == pytest.approx(float(share), rel=1e-12, nan_ok=True)
    # Records that match a record's pattern, itself included.
    alike = [
        sum(
            a == b
            if lacking == "differs"
            else all(x == y or -1 in (x, y) for x, y in zip(a, b, strict=True))
            for b in records
        )
        for a in records
    ]
    alone, paired = 0.05 * alike.count(1), 0.95 * alike.count(2)
    dis = alone / (alone + paired) if alone else 0.0
    assert result.match_probability == pytest.approx(dis, rel=1e-12)
    power = 1 + (8 - n_keys) / 20
    mean = np.mean([s**-power for s in expected if s > 0]) if total else 0.0
    for i, s in enumerate(expected):
        relative = dis * s**power * mean
        by_hand = relative / (relative + 1 - dis) if s > 0 else 0.0
        assert result.dis_score[at[i]] == pytest.approx(by_hand, rel=1e-9)


SHAPES = [
    (40, [3, 2, 4, 2], 0.0),
    (40, [3, 2, 4, 2], 0.15),
    (25, [2, 2, 2, 2, 2], 0.4),
    (120, [9, 2, 5, 3, 2, 4], 0.0),
    (80, [9, 2, 5, 3, 2, 4], 0.08),
    (30, [40, 1, 3], 0.1),
    (30, [30, 30, 30], 0.3),
    (12, [2, 3, 2, 3, 2, 3, 2, 3], 0.2),
]


@pytest.mark.parametrize("lacking", LACKING)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_against_enumeration(seed, shape, lacking):
    codes = random_codes(seed, *shape)
    check(codes, lacking)
    check(codes, lacking, scores="supersets")
    for largest in (1, 2, len(shape[1]) - 1, 20):
        check(codes, lacking, largest)


@given(
    st.integers(1, 5).flatmap(
        lambda n_keys: st.lists(
            st.lists(st.integers(-1, 2), min_size=n_keys, max_size=n_keys), min_size=1, max_size=12
        )
    ),
    st.sampled_from(LACKING),
    st.sampled_from([None, 1, 2, 3]),
    st.sampled_from(["original", "supersets"]),
)
@settings(max_examples=150, deadline=None)
def test_any_small_table(codes, lacking, largest, scores):
    check(codes, lacking, largest, scores)


def test_many_keys():
    """Thirty keys with small sets, where the sets of all sizes would never end."""
    codes = random_codes(4, 25, [3, 2, 5, 2, 3, 4] * 5, 0.05)
    for lacking in LACKING:
        check(codes, lacking, 2)


def test_many_records_by_counting():
    """A sample of usual size: unique on every set, by NumPy, then minimal."""
    codes = random_codes(5, 4000, [30, 2, 9, 5, 8, 3, 12], 0.0)
    table = tabulated(codes)
    cells, n_keys = table.cells, table.n_keys
    unique = np.zeros((1 << n_keys, table.n_cells), dtype=bool)
    sizes = np.zeros((table.n_cells, n_keys), dtype=int)
    for mask in range(1, 1 << n_keys):
        keys = [j for j in range(n_keys) if mask >> j & 1]
        _, group, count = np.unique(codes[:, keys], axis=0, return_inverse=True, return_counts=True)
        first = np.zeros(table.n_cells, dtype=int)
        first[table.record_cell] = count[group.ravel()]
        unique[mask] = first == 1
        minimal = unique[mask] & ~np.any([unique[mask ^ (1 << j)] for j in keys], axis=0)
        sizes[:, len(keys) - 1] += minimal
    assert (sizes.sum(axis=0) > 0).sum() >= 4
    assert len(cells) > 2000
    np.testing.assert_array_equal(suda2(table).n_msu, sizes)


# --- sdcMicro -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(8))
def test_against_sdcmicro(number):
    path = ORACLES / "sdcmicro_suda2.json"
    if not path.exists():
        pytest.skip(f"the values of sdcMicro are not there ({path})")
    case = json.loads(path.read_text())["cases"][number]
    with (ORACLES / case["input"]).open() as file:
        rows = list(csv.DictReader(file))
    values = [sorted({float(row[key]) for row in rows}) for key in case["keys"]]
    keys = [
        Key(name=key, levels=tuple(levels), labels=tuple(map(str, levels)))
        for key, levels in zip(case["keys"], values, strict=True)
    ]
    codes = [
        [levels.index(float(row[key.name])) for key, levels in zip(keys, values, strict=True)]
        for row in rows
    ]
    table = CellTable.from_codes(codes, keys, 10_000, "level")
    result = suda2(
        table,
        dis_fraction=case["DisFraction"],
        scores="original" if case["original_scores"] else "supersets",
    )
    at = table.record_cell
    np.testing.assert_allclose(result.score[at], case["score"], rtol=1e-9)
    np.testing.assert_allclose(result.dis_score[at], case["disScore"], rtol=1e-6)
    for key, share in zip(case["attribute_contributions"], result.key_contribution, strict=True):
        assert share == pytest.approx(key["contribution"], rel=1e-9)
    if "contributionPercent" in case:
        # Called percent there, and between 0 and 1.
        expected = 100 * np.array(case["contributionPercent"])
        np.testing.assert_allclose(result.contribution[at], expected, rtol=1e-9)
        names = [key.name for key in keys]
        for entry in case["attribute_level_contributions"]:
            j = names.index(entry["variable"])
            share = result.level_contribution[j][values[j].index(entry["attribute"])]
            expected = math.nan if entry["contribution"] is None else entry["contribution"]
            assert share == pytest.approx(expected, rel=1e-9, nan_ok=True)


# --- what must hold -----------------------------------------------------------------------------


@pytest.mark.parametrize("lacking", LACKING)
def test_order_of_keys_and_records_does_not_matter(lacking):
    codes = random_codes(6, 90, [9, 2, 5, 3, 2, 4], 0.06)
    table = tabulated(codes)
    result = suda2(table, lacking=lacking)
    assert result.score.any()
    rng = np.random.default_rng(7)
    for _ in range(5):
        keys, rows = rng.permutation(6), rng.permutation(90)
        other_table = tabulated(codes[rows][:, keys])
        other = suda2(other_table, lacking=lacking)
        here, there = table.record_cell[rows], other_table.record_cell
        np.testing.assert_array_equal(other.n_msu[there], result.n_msu[here])
        np.testing.assert_array_equal(other.score[there], result.score[here])
        np.testing.assert_allclose(other.dis_score[there], result.dis_score[here], rtol=1e-12)
        np.testing.assert_allclose(
            other.contribution[there], result.contribution[here][:, keys], rtol=1e-12
        )
        np.testing.assert_allclose(
            other.key_contribution, result.key_contribution[keys], rtol=1e-12
        )


def test_who_has_a_minimal_sample_unique():
    """Just the sample uniques of the table, in its own sense of missing keys."""
    codes = random_codes(8, 150, [9, 4, 5, 3], 0.08)
    for missing in ("integrate", "wildcard"):
        table = tabulated(codes, missing)
        complete = ~table.incomplete
        has = suda2(table).n_msu.any(axis=1)
        assert 0 < table.n_uniques < table.n_cells
        np.testing.assert_array_equal(has[complete], table.unique[complete])
        if missing == "wildcard":
            np.testing.assert_array_equal(has, table.unique)
    level = tabulated(codes + 1, "level")
    np.testing.assert_array_equal(suda2(level).n_msu.any(axis=1), level.unique)


def test_the_default_for_missing_keys_follows_the_table():
    codes = random_codes(8, 150, [9, 4, 5, 3], 0.08)
    totals = {}
    for missing, lacking in (("integrate", "differs"), ("wildcard", "matches")):
        by_default = suda2(tabulated(codes, missing))
        named = suda2(tabulated(codes, missing), lacking=lacking)
        np.testing.assert_array_equal(by_default.n_msu, named.n_msu)
        totals[lacking] = by_default.n_msu.sum()
    assert totals["matches"] < totals["differs"]


def test_missing_keys_by_hand():
    """The first record is alone with its A; the second, who lacks A, may have it too."""
    codes = [[0, 0, 0], [-1, 0, 1], [1, 0, 0], [1, 0, 0]]
    seen = suda2(tabulated(codes), lacking="differs")
    may = suda2(tabulated(codes), lacking="matches")
    at = tabulated(codes).record_cell
    assert seen.n_msu[at].tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert seen.contribution[at][0].tolist() == [100.0, 0.0, 0.0]
    # Only with C is it told from the second, and only with A from the others.
    assert may.n_msu[at].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert may.contribution[at][0].tolist() == [100.0, 0.0, 100.0]
    # A record without any known key may be anybody, and is nobody in particular.
    unknown = [*codes, [-1, -1, -1]]
    at = tabulated(unknown).record_cell
    assert not suda2(tabulated(unknown), lacking="matches").n_msu.any()
    np.testing.assert_array_equal(
        suda2(tabulated(unknown)).n_msu[at][:4], seen.n_msu[tabulated(codes).record_cell]
    )


@given(
    st.lists(st.lists(st.integers(-1, 2), min_size=4, max_size=4), min_size=2, max_size=14),
    st.data(),
)
@settings(max_examples=150, deadline=None)
def test_a_value_suppressed_or_a_record_added_raises_no_score(codes, data):
    codes = np.array(codes)
    table = tabulated(codes)
    before = suda2(table, lacking="matches").score[table.record_cell]
    suppressed = codes.copy()
    i = data.draw(st.integers(0, len(codes) - 1))
    suppressed[i, data.draw(st.integers(0, 3))] = -1
    table = tabulated(suppressed)
    assert (suda2(table, lacking="matches").score[table.record_cell] <= before).all()
    more = np.vstack([codes, data.draw(st.lists(st.integers(-1, 2), min_size=4, max_size=4))])
    for lacking in LACKING:
        table = tabulated(codes)
        before = suda2(table, lacking=lacking).score[table.record_cell]
        table = tabulated(more)
        assert (suda2(table, lacking=lacking).score[table.record_cell][:-1] <= before).all()


def test_largest_only_cuts():
    table = tabulated(random_codes(9, 200, [9, 2, 5, 3, 2, 4], 0.05))
    for lacking in LACKING:
        whole = suda2(table, lacking=lacking)
        assert whole.n_msu[:, 3:].any()
        scores = np.zeros(table.n_cells)
        for largest in range(1, 7):
            part = suda2(table, largest=largest, lacking=lacking)
            np.testing.assert_array_equal(part.n_msu, whole.n_msu[:, :largest])
            assert (part.score >= scores).all()
            scores = part.score
        np.testing.assert_array_equal(scores, whole.score)


def test_small_tables():
    for lacking in LACKING:
        one = suda2(tabulated([[0, 1, 0]]), lacking=lacking)
        assert one.n_msu.tolist() == [[3, 0, 0]]
        assert one.score.tolist() == [6.0]
        assert one.dis_score.tolist() == [1.0]
        np.testing.assert_allclose(one.contribution, 100 / 3)
        alike = suda2(tabulated([[0, 1, 0]] * 5), lacking=lacking)
        assert not alike.score.any()
        assert not alike.dis_score.any()
        assert not alike.key_contribution.any()
        assert alike.match_probability == 0.0
        assert np.isnan(np.concatenate(alike.level_contribution)).all()
        single_key = suda2(tabulated([[0], [1], [1], [2], [-1]], "integrate"), lacking=lacking)
        expected = [[0], [1], [0], [1]] if lacking == "differs" else [[0]] * 4
        assert single_key.n_msu.tolist() == expected
        nothing = suda2(tabulated([[-1, -1]], n_levels=[2, 2]), lacking=lacking)
        assert nothing.n_msu.tolist() == [[0, 0]]
        assert nothing.score.tolist() == [0.0]


def test_an_unseen_level_and_a_constant_key_add_nothing():
    codes = random_codes(10, 60, [5, 3, 4], 0.0)
    bare = suda2(tabulated(codes))
    wide = suda2(tabulated(codes, n_levels=[9, 3, 50]))
    np.testing.assert_array_equal(bare.n_msu, wide.n_msu)
    assert wide.level_contribution[2].shape == (50,)
    constant = suda2(tabulated(np.column_stack([np.zeros(60, dtype=int), codes])))
    np.testing.assert_array_equal(constant.n_msu[:, :3], bare.n_msu)
    assert constant.key_contribution[0] == 0.0
    assert np.isnan(constant.level_contribution[0]).all()


def test_dis_scores_spread_the_dis_of_the_file():
    table = tabulated(random_codes(11, 200, [9, 2, 5, 3, 2, 4], 0.0))
    last = np.zeros(table.n_cells)
    for fraction in (0.001, 0.01, 0.3, 1.0):
        result = suda2(table, dis_fraction=fraction)
        scored = result.score > 0
        d = result.dis_score[scored]
        assert 1 / np.mean(1 / d) == pytest.approx(result.match_probability, rel=1e-12)
        assert (np.diff(d[np.argsort(result.score[scored])]) >= 0).all()
        assert (result.dis_score >= last).all()
        last = result.dis_score
    assert set(last) == {0.0, 1.0}


def test_dis_scores_of_very_many_keys_do_not_turn_round():
    """Beyond 28 keys the spread is none, never the reverse."""
    codes = random_codes(12, 40, [3] * 32, 0.0)
    result = suda2(tabulated(np.vstack([codes, codes[:9]])), largest=2)
    assert 0.0 < result.match_probability < 1.0
    assert len(set(result.score)) > 3
    np.testing.assert_allclose(
        result.dis_score[result.score > 0], result.match_probability, rtol=1e-12
    )


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"largest": 0}, ["largest is 0", "at least 1"]),
        ({"largest": 2.5}, ["largest is 2.5", "whole number"]),
        ({"largest": True}, ["largest is True"]),
        ({"dis_fraction": 0.0}, ["dis_fraction is 0.0", "above 0"]),
        ({"dis_fraction": 1.5}, ["dis_fraction is 1.5"]),
        ({"dis_fraction": math.nan}, ["dis_fraction is nan"]),
        ({"scores": "orginal"}, ["scores='orginal'", "Did you mean 'original'"]),
        ({"lacking": "match"}, ["lacking='match'", "Did you mean 'matches'"]),
    ],
)
def test_options_that_are_wrong(options, parts):
    with pytest.raises(SpecError) as error:
        suda2(tabulated([[0, 1], [1, 1]]), **options)
    assert all(part in str(error.value) for part in parts)


def test_work_without_end_is_refused(monkeypatch):
    with pytest.raises(SpecError, match="at most 62 keys; there are 63"):
        suda2(tabulated(np.zeros((2, 63), dtype=int)), largest=1)
    wide = tabulated(random_codes(13, 50, [3] * 62, 0.0))
    with pytest.raises(SpecError, match=r"4,611,686,018,427,387,903 sets .* 50 patterns") as error:
        suda2(wide)
    feasible = int(str(error.value).split("Set largest to ")[1].split()[0])
    assert suda.n_sets(62, feasible) * 50 <= suda.MOST_WORK < suda.n_sets(62, feasible + 1) * 50
    assert suda2(wide, largest=2).n_msu.any()
    monkeypatch.setattr(suda, "MOST_WORK", 10)
    with pytest.raises(SpecError, match=r"that would not end\. Name fewer keys"):
        suda2(wide, largest=2)


def test_more_uniques_than_memory_are_refused(monkeypatch):
    table = tabulated(random_codes(14, 60, [9, 2, 5, 3], 0.0))
    n = int(suda2(table).n_msu.sum())
    monkeypatch.setattr(suda, "MOST_FOUND", n)
    assert suda2(table).n_msu.sum() == n
    monkeypatch.setattr(suda, "MOST_FOUND", n - 1)
    with pytest.raises(SpecError, match=f"more than {n - 1} minimal sample uniques in the 15 sets"):
        suda2(table)
