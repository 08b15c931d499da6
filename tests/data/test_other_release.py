"""Links between two releases, against a twin that goes from record to record."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from unikat.data.releases import linked
from unikat.errors import DataError

LEVELS = (2, 3)


def two(seed: int, n: int = 12, m: int = 10) -> tuple[Any, Any, Any, Any]:
    """Records of two releases, of which some persons are in both, some with other values."""
    rng = np.random.default_rng(seed)
    whole = np.column_stack([rng.integers(-1, levels, 20) for levels in LEVELS])
    first, second = rng.permutation(20)[:n], rng.permutation(20)[:m]
    theirs = whole[second].copy()
    theirs[rng.random(m) < 0.2, 0] = 2  # a level that the first file lacks
    return whole[first], theirs, first, second


def twin(ours: Any, theirs: Any, first: Any, second: Any) -> list[tuple[int, float, bool]]:
    """Partner, probability and uniqueness, by counting which of all choices are right."""
    found = []
    for i, record in enumerate(ours.tolist()):
        same = [j for j, other in enumerate(theirs.tolist()) if other == record]
        right = [j for j in same if second[j] == first[i]]
        partner = next((j for j, person in enumerate(second) if person == first[i]), -1)
        alone = sum(other == record for other in ours.tolist()) == 1 == len(same)
        found.append((partner, len(right) / len(same) if same else 0.0, alone))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_links_are_those_of_the_twin(seed: int) -> None:
    ours, theirs, first, second = two(seed)
    found = linked(ours, theirs, LEVELS, (first, second))
    wanted = twin(ours, theirs, first, second)
    assert list(zip(*(one.tolist() for one in found), strict=True)) == wanted
    assert found.certain.tolist() == [right == 1.0 and alone for _, right, alone in wanted]


def test_a_planted_count_of_the_wrong_file_is_found() -> None:
    """One over the records of the first file is another number."""
    wrong = 0
    for seed in range(20):
        ours, theirs, first, second = two(seed)
        found = linked(ours, theirs, LEVELS, (first, second))
        here = np.array([(ours == record).all(axis=1).sum() for record in ours])
        wrong += not np.allclose(found.right, np.where(found.right > 0.0, 1.0 / here, 0.0))
    assert wrong > 10


def test_of_the_same_persons_one_of_each_group_is_linked_right() -> None:
    rng = np.random.default_rng(4)
    ours = np.column_stack([rng.integers(0, levels, 40) for levels in LEVELS])
    order = rng.permutation(40)
    found = linked(ours, ours[order], LEVELS, (np.arange(40), order))
    groups = {tuple(record) for record in ours.tolist()}
    assert found.right.sum() == pytest.approx(len(groups))


def test_who_is_who_is_known_where_both_have_the_values_once() -> None:
    ours = np.array([*product(range(2), range(3)), (0, 0)])
    found = linked(ours, ours[::-1], LEVELS)
    assert found.partner.tolist() == [-1, 5, 4, 3, 2, 1, -1]
    assert found.right.tolist() == [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    assert found.certain.sum() == 5
    with pytest.raises(DataError, match="2 record"):
        linked(ours, np.array([*ours[1:].tolist(), [1, 2]]), LEVELS)
