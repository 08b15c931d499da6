"""Lists that one text holds."""

from __future__ import annotations

import time

import pytest

from unikat.data import Design, read
from unikat.errors import DataError
from unikat.spec.splitting import split_keys


def test_items_are_split_outside_of_parentheses() -> None:
    assert split_keys("A, B:cut(0, 5) ,C,") == ["A", "B:cut(0, 5)", "C"]
    assert split_keys("a: f(x; y); b", ";") == ["a: f(x; y)", "b"]
    assert split_keys(": a", ":", empty=True) == ["", "a"]


def test_a_name_of_many_characters_is_refused_at_once() -> None:
    import pandas as pd

    long = "k" * 70_000
    started = time.process_time()
    frame = pd.DataFrame({long: [1, 2, 1], "B": [1, 1, 2]})
    with pytest.raises(DataError, match="column 1 has 70,000 characters; names have at most 2,000"):
        read(frame, f"{long},B", Design(population_size=100))
    assert len(split_keys("(," * 35_000 + ")," * 35_000 + ",B")) == 2
    assert time.process_time() - started < 5
