"""The cell table, its design and its keys, against counts made record by record."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from unikat.data import CellTable, Design, Key, read
from unikat.data.patterns import pattern_ids
from unikat.data.split import split
from unikat.errors import DataError, SpecError
from unikat.kernels.zeros import Diagram
from unikat.studies.designs import Population


def keys_of(sizes: list[int]) -> list[Key]:
    return [Key.of_size(f"K{j}", size) for j, size in enumerate(sizes)]


def draw(rng: np.random.Generator, sizes: list[int], n: int, share_missing: float) -> np.ndarray:
    codes = np.stack([rng.integers(0, size, n) for size in sizes], axis=1)
    codes[rng.random(codes.shape) < share_missing] = -1
    return codes


def naive_matches(codes: np.ndarray, pattern: np.ndarray) -> int:
    return sum(
        all(a == b or a == -1 or b == -1 for a, b in zip(record, pattern, strict=True))
        for record in codes
    )


@pytest.mark.parametrize("sizes", [[4], [3, 2, 4], [2] * 30, [60_000] * 5, [7, 90_000, 3, 90_000]])
@pytest.mark.parametrize("share_missing", [0.0, 0.3])
def test_from_codes_counts_patterns(sizes: list[int], share_missing: float) -> None:
    rng = np.random.default_rng(3)
    codes = draw(rng, sizes, 200, share_missing)
    codes = np.concatenate([codes, codes[:40]])
    table = CellTable.from_codes(codes, keys_of(sizes), population_size=10**12)
    expected = Counter(map(tuple, codes.tolist()))
    assert [tuple(cell) for cell in table.cells.tolist()] == sorted(expected)
    assert table.counts.tolist() == [expected[cell] for cell in sorted(expected)]
    assert (table.cells[table.record_cell] == codes).all()
    assert (table.cells.dtype, table.counts.dtype, table.record_cell.dtype) == (
        np.int32,
        np.int64,
        np.int32,
    )
    assert (table.n_records, table.n_keys, table.n_cells) == (240, len(sizes), len(expected))
    assert table.n_levels == tuple(sizes)
    assert table.n_missing == tuple((codes == -1).sum(axis=0))
    assert table.incomplete.tolist() == [-1 in cell for cell in sorted(expected)]
    assert table.n_uniques == sum(n == 1 and -1 not in cell for cell, n in expected.items())


@pytest.mark.parametrize("sizes", [[3, 2, 4], [2, 2, 2, 2, 3], [50_000, 2, 50_000, 50_000, 9]])
@pytest.mark.parametrize("share_missing", [0.0, 0.1, 0.5])
def test_matches_are_those_of_the_naive_count(sizes: list[int], share_missing: float) -> None:
    rng = np.random.default_rng(5)
    codes = draw(rng, sizes, 150, share_missing)
    table = CellTable.from_codes(codes, keys_of(sizes), 1000, missing="wildcard")
    expected = [naive_matches(codes, cell) for cell in table.cells]
    assert table.matches.tolist() == expected
    alone = (codes[:, None] == codes).all(axis=2).sum(axis=1) == 1
    masked = [naive_matches(codes, row) > 1 for row in codes] & alone & (codes >= 0).all(axis=1)
    assert table.n_masked_uniques == masked.sum()
    assert CellTable.from_codes(codes, keys_of(sizes), 1000).n_masked_uniques == 0
    assert table.unique.tolist() == [n == 1 for n in expected]
    assert table.n_uniques == expected.count(1)
    if share_missing == 0:
        assert (table.matches == table.counts).all()


def test_pattern_ids_order_rows_lexicographically() -> None:
    rng = np.random.default_rng(8)
    codes = draw(rng, [99_000] * 6, 300, 0.2)
    ids = pattern_ids(codes, [99_000] * 6)
    assert np.argsort(ids, kind="stable").tolist() == sorted(range(300), key=lambda i: [*codes[i]])


def test_fingerprint_is_that_of_the_content() -> None:
    codes = np.array([[0, 1], [1, 0], [0, 1]])
    keys = keys_of([2, 2])
    table = CellTable.from_codes(codes, keys, 100)
    again = CellTable.from_codes(codes[::-1], keys, 100)
    assert table.fingerprint == again.fingerprint
    assert pickle.loads(pickle.dumps(table)).fingerprint == table.fingerprint
    others = [
        CellTable.from_codes(codes[:2], keys, 100),
        CellTable.from_codes(codes, keys, 101),
        CellTable.from_codes(codes, keys_of([2, 3]), 100),
        CellTable.from_codes(codes, [Key.of_size("A", 2), keys[1]], 100),
        CellTable.from_codes(1 - codes, keys, 100),
    ]
    assert len({table.fingerprint, *(other.fingerprint for other in others)}) == 6
    # Fixed for ever: results are found again by it.
    assert table.fingerprint.startswith("f64c3312e253a2b5")


def test_missing_level_is_counted_as_missing() -> None:
    keys = [
        Key(name="A", levels=(1, 2, None), labels=("1", "2", "missing")),
        Key.of_size("B", 2),
    ]
    table = CellTable.from_codes([[0, 1], [2, 1], [2, 0]], keys, 10, missing="level")
    assert (keys[0].missing_level, keys[1].missing_level) == (2, None)
    assert table.n_missing == (2, 0)
    assert not table.incomplete.any()


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ([[0], [1]], "shape (n_records, 2)"),
        (np.empty((0, 2), dtype=int), "no records"),
        ([[0.0, 1.0]], "must be integers"),
        ([[0, 2], [0, 5]], "Key 'K1': 2 codes lie outside -1 to 1"),
        ([[-2, 1]], "Key 'K0': 1 codes lie outside"),
    ],
)
def test_bad_codes_are_refused(codes: object, message: str) -> None:
    with pytest.raises(DataError) as caught:
        CellTable.from_codes(codes, keys_of([2, 2]), 100)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_level_table_takes_no_missing_codes() -> None:
    with pytest.raises(DataError, match="outside 0 to 1"):
        CellTable.from_codes([[0, -1]], keys_of([2, 2]), 100, missing="level")


def test_unknown_treatment_of_missing_values() -> None:
    with pytest.raises(SpecError, match="Did you mean 'wildcard'"):
        CellTable.from_codes([[0]], keys_of([2]), 100, missing="wildcards")  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1, 10**12, 10**15, 2**62 - 1, np.int64(5), 1e6])
def test_population_sizes(size: int) -> None:
    given = Design(population_size=size).population_size
    assert given == int(size)
    assert type(given) is int


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (None, "The population size is needed: the number of units"),
        (0, "at least 1; got 0"),
        (-5, "at least 1; got -5"),
        (2.5, "whole number of units; got 2.5"),
        ("1000", "whole number of units; got '1000'"),
        (True, "whole number"),
        (float("nan"), "whole number"),
        (float("inf"), "whole number"),
        (2**62, "below 2**62"),
    ],
)
def test_bad_population_sizes(size: object, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        Design(population_size=size)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_population_smaller_than_sample() -> None:
    with pytest.raises(SpecError, match=r"is 2, but the data hold 3 records"):
        CellTable.from_codes([[0], [1], [1]], keys_of([2]), 2)
    assert CellTable.from_codes([[0], [1], [1]], keys_of([2]), 3).population_size == 3


def test_key_checks() -> None:
    with pytest.raises(SpecError, match="2 levels but 1 labels"):
        Key(name="A", levels=(1, 2), labels=("x",))
    with pytest.raises(SpecError, match="more than once"):
        Key(name="A", levels=(1, 1), labels=("x", "y"))


def test_possible_cells_are_part_of_the_fingerprint_only_where_there_are_any() -> None:
    table = CellTable.from_codes([[0, 1], [1, 0]], keys_of([2, 2]), 100)
    # As it was before tables knew of possible cells.
    assert table.fingerprint.startswith("debbed05045ea7a2")
    diagram = Diagram(
        order=np.array([0, 1]),
        first=np.array([0, 1, 2, 3]),
        child=np.array([[1, 1], [2, -1]], dtype=np.int32),
    )
    same = Diagram(*(part.copy() for part in diagram))
    other = diagram._replace(child=np.array([[1, 1], [-1, 2]], dtype=np.int32))
    prints = [replace(table, zeros=zeros).fingerprint for zeros in (diagram, same, other)]
    assert prints[0] == prints[1]
    assert len({table.fingerprint, *prints}) == 3


def test_coded_records_take_possible_cells() -> None:
    diagram = Diagram(
        order=np.array([0]), first=np.array([0, 1, 2]), child=np.array([[1, -1]], dtype=np.int32)
    )
    table = CellTable.from_codes([[0], [0]], keys_of([2]), 100, zeros=diagram)
    assert table.zeros is diagram
    kept, left_out = split(table, 0.5, 1)
    assert kept.zeros is left_out.zeros is diagram
    units = Population.of(table).sample(np.array([1]))
    assert units.table.zeros is diagram


def test_a_population_that_is_not_known_is_asked_for_where_it_is_needed() -> None:
    frame = pd.DataFrame({"SEX": [1, 2, 2], "AGE": [3, 3, 4]})
    table = read(frame, ["SEX", "AGE"], Design(without_population=True)).tabulate()
    assert table.population_size is None
    assert table.n_uniques == 3
    assert "population not known" in repr(table)
    known = replace(table, population_size=30)
    assert known.n_units == 30
    assert known.fingerprint != table.fingerprint
    for needed in (lambda: table.n_units, lambda: table.weights, lambda: table.cell_weights):
        with pytest.raises(SpecError, match="The population size is needed"):
            needed()
