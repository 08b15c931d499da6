"""A control file that has records of the original is refused; one of other records is not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat.errors import DataError
from unikat.synthesis.attacks.control import (
    CHANCE,
    Compared,
    Pairs,
    pairs_of,
    same_but_for_names,
    same_records,
)

KEYS = ["A", "B", "C", "D"]


def people(n: int, seed: int) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    codes = np.minimum(generator.geometric(0.3, (n, 4)) - 1, 9)
    frame = pd.DataFrame(codes, columns=KEYS)
    return frame.assign(income=generator.lognormal(8, 1, n).round(), number=np.arange(n))


def attacked(original: pd.DataFrame, control: object, **options: object) -> unikat.Attacks:
    made = people(400, 99)[KEYS]
    asked = {"synthetic": made, "control": control, "keys": KEYS, **options}
    return unikat.attack(original, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "taken",
    [
        lambda frame: frame,
        lambda frame: frame.sample(frac=1.0, random_state=1),
        lambda frame: frame.head(400),
        # Half of it are records of the original, and the rows are numbered anew.
        lambda frame: pd.concat([frame.tail(400), people(400, 3)]).assign(number=range(800)),
        # Without anything but the keys.
        lambda frame: frame[KEYS].sample(500, random_state=2),
    ],
)
def test_records_of_the_original_are_found(taken):
    original = people(2_000, 1)
    with pytest.raises(DataError, match=r"is no control file: it has .* Split the data at random"):
        attacked(original, taken(original))


def test_few_combinations_are_compared_by_all_columns():
    keys = {"keys": ["A", "B"]}
    coarse = people(1_000, 1).assign(A=lambda frame: frame.A % 2, B=lambda frame: frame.B % 2)
    control = coarse.sample(300, random_state=1)
    with pytest.raises(DataError, match=r"has records of The original.*income"):
        attacked(coarse, control, synthetic=coarse.head(10)[["A", "B"]], **keys)
    # Without other columns, a copy is known by its counts alone.
    with pytest.raises(DataError, match="the same records as The original"):
        attacked(coarse[["A", "B"]], coarse[["B", "A"]], synthetic=coarse.head(9), **keys)


def test_a_synthetic_file_is_no_control_file():
    made = people(400, 99)[KEYS]
    with pytest.raises(DataError, match="the same records as The synthetic frame"):
        attacked(people(900, 1), made.sample(frac=1.0, random_state=4))


def test_other_records_are_taken():
    whole = people(3_000, 1)
    parts = whole.sample(frac=1.0, random_state=5)
    assert attacked(parts[:2_000], parts[2_000:]).summary.control is not None
    assert attacked(people(2_000, 1), people(1_000, 2)).summary.control is not None


def renamed(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Give the values of columns other names, in another order."""
    return frame.assign(**{name: "v" + (7 * frame[name] % 11).astype(str) for name in names})


@pytest.mark.parametrize("names", [("A",), ("D",), ("A", "C"), KEYS])
def test_renamed_values_hide_no_copy(names):
    original = people(2_000, 1)[KEYS]
    copy = renamed(original.sample(frac=1.0, random_state=1), *names)
    with pytest.raises(DataError, match=r"same records as The original, but for the names of"):
        attacked(original, copy)


@pytest.mark.parametrize("name", KEYS)
def test_renamed_values_of_one_key_hide_no_records(name):
    original = people(2_000, 1)
    with pytest.raises(DataError, match="has records of The original"):
        attacked(original, renamed(original.sample(500, random_state=1), name))


def test_few_combinations_are_the_same_up_to_names_by_chance():
    """Files of 40 records of two answers each: the counts 20, 20 come often."""
    codes = np.repeat(np.arange(2, dtype=np.int32), 20)[:, np.newaxis]
    assert not same_but_for_names(Compared(("A",), codes, 1 - codes))
    both = people(2_000, 1)[KEYS].to_numpy(np.int32)
    assert same_but_for_names(Compared(tuple(KEYS), both, 9 - both))
    assert not same_but_for_names(Compared(tuple(KEYS), both[:1_000], both[1_000:]))


@pytest.mark.statistical
def test_files_of_other_records_split_half_of_the_pairs_or_fewer():
    """1,000 pairs of independent files of any two laws: the probability is that of chance.

    Below 1/100 lie at most 1% of the pairs of files; 2.2% are more than 3 standard errors above.
    """
    generator = np.random.default_rng(6)
    below = 0
    for _ in range(1_000):
        laws = generator.dirichlet(np.full(600, generator.choice([0.1, 1.0, 30.0])), 2)
        if generator.random() < 0.5:
            laws[1] = laws[0]
        sizes = generator.integers(50, 600, 2)
        ids = [generator.choice(600, n, p=law) for n, law in zip(sizes, laws, strict=True)]
        found = pairs_of(*ids, seed=1)
        assert found.n_split <= found.n
        below += found.probability < 0.01
    assert below / 1_000 < 0.022


def test_the_probability_is_that_of_a_fair_coin():
    assert Pairs(20, 20).probability == 2.0**-20 < CHANCE
    assert Pairs(0, 0).probability == 1.0
    assert same_records(np.array([1, 2, 2]), np.array([2, 1, 2]))
    assert not same_records(np.array([1, 2, 2]), np.array([2, 1, 1]))
