"""Tests of membership: against slow twins, a planted copier, and their rate of false alarms."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

import naive
from synthesis.attacks.test_model_free import files_of, records, run, setting_of, simulated
from unikat._typing import Int32
from unikat.synthesis.attacks import membership
from unikat.synthesis.attacks.files import Files
from unikat.synthesis.attacks.membership import BANDWIDTHS, density_ratio, detection, recognised
from unikat.synthesis.attacks.rates import nearer_of
from unikat.synthesis.attacks.run import AttackResult

SCORES = Path(__file__).with_name("synth-mia-housing.csv")


def people(n: int, generator: np.random.Generator) -> Int32:
    """Records of five keys that depend on each other; most combinations are rare."""
    a = generator.integers(0, 12, n)
    b = (a + generator.integers(0, 3, n)) % 9
    c, d = generator.integers(0, 15, n), generator.integers(0, 8, n)
    return np.stack([a, b, c, d, (c + generator.integers(0, 2, n)) % 5], 1).astype(np.int32)


def members_of(files: Files, **options: Any) -> dict[tuple[str, str | None], AttackResult]:
    """Results of the tests of membership, by name and false alarms."""
    found = run(files, **options)
    return {(one.name, one.target): one for one in found if one.name in membership.TESTS}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(2, 12))
def test_the_density_is_that_of_its_slow_twin_and_adds_up_to_one(seed, n, n_synthetic):
    files = files_of(records(seed, n), records(seed + 1, n_synthetic), records(seed + 2, 4))
    every = np.array(list(itertools.product(*map(range, files.n_levels))), np.int32)
    generator = np.random.default_rng(seed)
    margins = [generator.dirichlet(np.ones(k)) for k in files.n_levels]
    for bandwidth in (0.5, 0.02):
        found = membership._log_density(
            setting_of(files, n_threads=2), files.synthetic[0], every, margins, bandwidth
        )
        slow = [
            naive.smoothed_density(cell, files.synthetic[0].tolist(), margins, bandwidth)
            for cell in every.tolist()
        ]
        assert np.exp(found) == pytest.approx(slow)
        assert np.exp(found).sum() == pytest.approx(1.0)


def test_the_score_is_the_ratio_of_the_densities_at_the_other_half():
    """Every record is scored by a half of the control file that it is not in, and by no other."""
    generator = np.random.default_rng(4)
    original, synthetic, control = (people(n, generator) for n in (30, 40, 24))
    setting = setting_of(files_of(original, synthetic, control))
    # Levels that occur.
    n_levels = [len(set(column)) for column in np.vstack((original, synthetic, control)).T.tolist()]
    assert n_levels == list(setting.files.n_levels)
    own, other = density_ratio(3)(setting, synthetic)
    draw = np.random.default_rng(np.random.SeedSequence(3, spawn_key=(5,)))
    control_half, half = draw.permutation(24) % 2, draw.permutation(30) % 2
    for side, of_side, codes in ((own, half, original), (other, control_half, control)):
        for i, record in enumerate(codes.tolist()):
            reference = control[control_half != of_side[i]].tolist()
            margins = [
                [([r[j] for r in reference].count(v) + 0.5) / (12 + 0.5 * n) for v in range(n)]
                for j, n in enumerate(n_levels)
            ]

            def density(cell: list[int], file: list[list[int]], bandwidth: float) -> float:
                return naive.smoothed_density(cell, file, margins, bandwidth)  # noqa: B023

            made = synthetic.tolist()
            best = max(
                BANDWIDTHS, key=lambda b: sum(math.log(density(r, made, b)) for r in reference)
            )
            ratio = density(record, made, best) / density(record, reference, best)
            assert side[i] == pytest.approx(-math.log(ratio))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=12),
    st.lists(st.integers(0, 4), min_size=1, max_size=12),
    st.sampled_from([0.01, 0.05, 0.1, 0.3, 1.0]),
)
def test_ties_are_told_apart_by_lot_so_that_the_false_alarms_are_as_asked(ours, theirs, share):
    """The detection is the curve of all limits, straight between them."""
    first, second = recognised(np.array(ours, float), np.array(theirs, float), share)
    assert second.mean() == pytest.approx(share)
    points = [(0.0, 0.0)]
    for limit in sorted({*ours, *theirs}):
        points.append(tuple(np.mean([v <= limit for v in side]) for side in (theirs, ours)))
    steep = [(x, y) for x, y in points if x <= share + 1e-12]
    later = [(x, y) for x, y in points if x > share + 1e-12]
    expected = steep[-1][1]
    if later:
        (x, y), (x2, y2) = steep[-1], later[0]
        expected = y + (y2 - y) * (share - x) / (x2 - x)
    # Where limits have the same false alarms, the last is as good as the first for nobody.
    lowest = min(y for x, y in steep if x == steep[-1][0])
    assert lowest - 1e-9 <= first.mean() <= expected + 1e-9 or later == []


def test_with_few_control_records_no_rate_of_false_alarms_is_claimed():
    generator = np.random.default_rng(1)
    files = files_of(people(600, generator), people(600, generator), people(120, generator))
    shares = {target for _, target in members_of(files)}
    assert shares == {None, "5% false alarms", "10% false alarms"}
    # Of 40 households of three persons as well.
    together = Files(**{**vars(files), "control_household": np.arange(120) // 3})
    assert {target for _, target in members_of(together)} == {None}


def test_a_generator_that_copies_is_caught_and_a_second_sample_is_not():
    """A tenth of the records copied, the rest of another sample: the rare ones give it away."""
    generator = np.random.default_rng(2)
    original, other, control = (people(1000, generator) for _ in range(3))
    partial = other.copy()
    partial[:100] = original[generator.choice(1000, 100, replace=False)]
    whole = members_of(files_of(original, original, control))
    assert [key for key, one in whole.items() if not one.found] == []
    assert whole["density ratio", "10% false alarms"].rate.value > 0.5
    some = members_of(files_of(original, partial, control))
    # Of ten control records beyond its limit that test cannot be sure.
    missed = {("density ratio", "1% false alarms")}
    assert {key for key, one in some.items() if not one.found} <= missed
    found = members_of(files_of(original, other, control))
    assert [key for key, one in found.items() if one.found] == []


def test_planted_a_control_file_that_is_its_own_reference_raises_an_alarm(monkeypatch):
    """Without the halves a control record is in the reference itself, and looks like no member."""
    generator = np.random.default_rng(3)
    files = files_of(*(people(1000, generator) for _ in range(3)))
    monkeypatch.setattr(
        membership, "_halves", lambda units, _: np.full(len(units), 0, dtype=np.int64)
    )
    inner = membership._log_ratio
    monkeypatch.setattr(
        membership,
        "_log_ratio",
        lambda setting, made, _, tried: inner(setting, made, files.control, tried),
    )
    assert members_of(files)["density ratio", None].found


def test_several_files_are_averaged_and_threads_do_not_matter():
    original, synthetic, control = simulated()
    one, other = files_of(original, synthetic, control), files_of(original, control, control)
    both = Files(**{**vars(one), "synthetic": one.synthetic + other.synthetic})
    for key, two in members_of(both).items():
        first, second = members_of(one)[key], members_of(other)[key]
        assert two.rate.value == pytest.approx((first.rate.value + second.rate.value) / 2)
        assert two.by_file == (*first.by_file, *second.by_file)
    assert members_of(both, n_threads=3) == members_of(both)


@pytest.mark.parametrize(
    ("score", "pairs", "at_a_tenth"), [("dcr", 0.527, 0.145), ("domias", 0.684, 0.270)]
)
def test_pairs_and_detection_are_those_that_synth_mia_publishes(score, pairs, at_a_tenth):
    """Synth-MIA 2025, notebook "Deploying multiple MIA attacks", 200 members and 200 others.

    The scores are recomputed from its example files: the distance to the nearest synthetic record,
    and the log of two Gaussian kernel densities' ratio.
    """
    table = pd.read_csv(SCORES)
    sign = 1.0 if score == "dcr" else -1.0
    ours, theirs = (sign * table.loc[table.member == one, score].to_numpy() for one in (1, 0))
    assert nearer_of(ours[None], theirs[None], 0.95).value == pytest.approx(pairs, abs=5e-4)
    assert recognised(ours, theirs, 0.1)[0].mean() == pytest.approx(at_a_tenth, abs=5e-4)


@pytest.mark.statistical
@pytest.mark.parametrize(("shift", "n", "m"), [(0.0, 500, 500), (1.0, 500, 500), (2.0, 300, 1000)])
def test_the_interval_of_the_detection_covers_it(shift, n, m):
    """Scores of normal laws a shift apart, whose curve is known: 400 trials of each rate."""
    generator = np.random.default_rng(5)
    for share in membership.FALSE_ALARMS:
        truth = ndtr(shift + ndtri(share))
        found = [
            detection(
                generator.normal(-shift, 1.0, (1, n)),
                generator.normal(0.0, 1.0, (1, m)),
                share,
                0.95,
            )
            for _ in range(400)
        ]
        covered = np.mean([one.lower <= truth <= one.upper for one in found if one is not None])
        assert covered > 0.92, (shift, share)
        assert np.mean([one.lower > truth for one in found if one is not None]) < 0.06


@pytest.mark.slow
@pytest.mark.statistical
def test_independent_files_raise_few_false_alarms():
    """Of 300 tries at most 6% of each test are found; 2.5% are expected."""
    found: dict[Any, int] = {}
    for repeat in range(300):
        generator = np.random.default_rng(repeat)
        files = files_of(*(people(500, generator) for _ in range(3)))
        for key, one in members_of(files, seed=repeat).items():
            found[key] = found.get(key, 0) + one.found
    assert max(found.values()) <= 18, found
