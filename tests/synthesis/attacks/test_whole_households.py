"""Attacks on whole households: against a slow twin, planted copies, and a second sample."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthesis.attacks.test_model_free import files_of, records, run
from unikat._typing import Int32, Int64
from unikat.synthesis.attacks.files import Files
from unikat.synthesis.attacks.rates import Rate
from unikat.synthesis.attacks.run import OF_HOUSEHOLDS, AttackResult
from unikat.synthesis.attacks.whole_households import whole_households


def homes(n: int, generator: np.random.Generator) -> tuple[Int32, Int64]:
    """Persons with five keys in n households of one to five, and the household of each."""
    household = np.repeat(np.arange(n), generator.integers(1, 6, n))
    levels = (3, 2, 6, 4, 2)
    keys = np.stack([generator.integers(0, k, len(household)) for k in levels], axis=1)
    keys[:, 0] = generator.integers(0, 3, n)[household]
    return keys.astype(np.int32), household


def of_homes(original: Any, synthetic: Any, control: Any) -> Files:
    """Files of an attack that tell who lives together."""
    found = files_of(original[0], synthetic[0], control[0])
    return replace(
        found,
        household=original[1],
        synthetic_household=(synthetic[1],),
        control_household=control[1],
    )


def found_of(files: Files, **options: Any) -> dict[tuple[str, str | None], bool]:
    """Which attacks on households succeed."""
    results = run(files, **options)
    return {
        (one.name, one.target): one.found for one in results if one.name.endswith(OF_HOUSEHOLDS)
    }


def copied(original: Any, other: Any, n: int) -> Any:
    """Return another sample in which the first n households are those of the original."""
    first, rest = original[1] < n, other[1] >= n
    keys = np.concatenate((original[0][first], other[0][rest]))
    return keys, np.concatenate((original[1][first], other[1][rest]))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_households_are_alike_if_their_members_are(seed):
    """In any order, and each member as often; of a key its values alone count."""
    generator = np.random.default_rng(seed)
    parts = []
    for n in (8, 6, 5):
        keys, household = records(int(generator.integers(10**6)), n, (2, 2)), np.arange(n)
        household[n // 2 :] = generator.integers(0, n // 2, n - n // 2)
        parts.append((keys, household))
    files = of_homes(*parts)
    found = whole_households(files)
    assert found is not None
    cells = np.concatenate((found.original, found.synthetic[0], found.control))
    groups = [
        [keys[household == h].tolist() for h in range(household.max() + 1)]
        for keys, household in parts
    ]
    assert [len(one) for one in groups] == [
        len(one) for one in (found.original, found.synthetic[0], found.control)
    ]
    everyone = [home for part in groups for home in part]
    for column in range(3):
        told = [
            sorted(map(tuple, home)) if column == 2 else sorted(person[column] for person in home)
            for home in everyone
        ]
        alike = [[one == other for one in told] for other in told]
        assert (cells[:, column][:, None] == cells[:, column]).tolist() == alike


def test_households_are_attacked_only_if_every_file_tells_them():
    generator = np.random.default_rng(1)
    files = of_homes(*(homes(30, generator) for _ in range(3)))
    assert found_of(files)
    assert not found_of(replace(files, control_household=None))
    assert not found_of(replace(files, synthetic_household=(None,)))
    # Without a control file it is not asked.
    alone = replace(files, control=files.control[:0], control_household=None)
    assert {name for name, _ in found_of(alone)} == {
        f"replicated uniques{OF_HOUSEHOLDS}", f"linkability{OF_HOUSEHOLDS}"
    }  # fmt: skip


def test_the_order_of_persons_and_of_households_does_not_matter():
    generator = np.random.default_rng(2)
    original, other, control = (homes(200, generator) for _ in range(3))
    made = copied(original, other, 50)
    order = generator.permutation(len(made[1]))
    names = generator.permutation(int(made[1].max()) + 1)
    turned = made[0][order], names[made[1][order]]
    one, two = run(of_homes(original, made, control)), run(of_homes(original, turned, control))
    for a, b in zip(one, two, strict=True):
        assert a.rate.value == pytest.approx(b.rate.value), a.name


def test_a_tenth_of_households_copied_whole_is_found_and_a_second_sample_is_not():
    generator = np.random.default_rng(3)
    original, other, control = (homes(600, generator) for _ in range(3))
    made = copied(original, other, 60)
    # The persons of these households are in many others too, so that attacks on persons see little.
    found = found_of(of_homes(original, made, control))
    assert [key for key, success in found.items() if not success] == []
    clean = found_of(of_homes(original, other, control))
    assert [key for key, success in clean.items() if success] == []
    results = {one.name: one for one in run(of_homes(original, made, control))}
    replicated = results[f"replicated uniques{OF_HOUSEHOLDS}"]
    cells = whole_households(of_homes(original, made, control))
    assert cells is not None
    counts = [np.bincount(one[:, -1], minlength=10_000) for one in (cells.original, made_of(cells))]
    assert replicated.rate.value == ((counts[0] == 1) & (counts[1] == 1)).sum() / 600
    # Households are the units: as many trials as there are households.
    assert replicated.n == (counts[1] == 1).sum()


def made_of(files: Files) -> Int32:
    return files.synthetic[0]


def test_a_household_of_two_alike_persons_is_not_one_of_a_single_one():
    persons = np.zeros((3, 2), np.int32)
    found = whole_households(of_homes(*((persons, np.array([0, 0, 1])) for _ in range(3))))
    assert found is not None
    for codes in (found.original, *found.synthetic, found.control):
        assert (codes[0] != codes[1]).all()


def test_an_excess_that_is_a_matter_of_rounding_is_none():
    """The probability of being alone in a file that is a little smaller can be 1e-15."""
    nearly = Rate(value=1.6e-15, lower=4e-16, upper=9e-15)
    excess = Rate(value=1.6e-15, lower=2e-16, upper=9e-15)
    result = AttackResult(
        name="singling out by one key", target=None, n=1.0, rate=nearly, by_file=(1.6e-15,),
        compared=nearly, baseline=Rate(value=0.0, lower=0.0, upper=0.0), kind="control",
        excess=excess,
    )  # fmt: skip
    assert not result.found
    assert replace(result, excess=Rate(value=0.02, lower=0.001, upper=0.04)).found


@pytest.mark.slow
@pytest.mark.statistical
def test_second_samples_of_households_raise_few_false_alarms():
    """Of 200 tries at most 7% of each attack are found; 2.5% are expected."""
    counts: dict[Any, int] = {}
    for repeat in range(200):
        generator = np.random.default_rng(repeat)
        files = of_homes(*(homes(500, generator) for _ in range(3)))
        for key, success in found_of(files, seed=repeat, n_attacks=500).items():
            counts[key] = counts.get(key, 0) + success
    assert max(counts.values()) <= 14, counts
