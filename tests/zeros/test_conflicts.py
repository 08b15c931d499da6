"""Records that break a rule, against all completions of every record tried one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from unikat.data import CellTable, Key
from unikat.data.design import Sampling
from unikat.errors import DataError, SpecError
from unikat.zeros import Zeros
from unikat.zeros.conflicts import (
    CONDITIONS_TOGETHER,
    TOGETHER,
    OnConflict,
    apply_zeros,
    find_conflicts,
)

KEYS = [Key.of_size("AGE", 5), Key.of_size("SEX", 2), Key.of_size("EDUC", 3)]
RULES = ["AGE < 2 and EDUC == 2", "SEX == 1 and AGE == 4", "SEX == 0 and EDUC == 1 and AGE == 0"]


def draw(n: int = 300, share: float = 0.2, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, key.n_levels, n) for key in KEYS], axis=1)
    codes[rng.random(codes.shape) < share] = -1
    return codes


def completions(record: np.ndarray) -> list[tuple[int, ...]]:
    levels = [
        range(key.n_levels) if code < 0 else (code,) for key, code in zip(KEYS, record, strict=True)
    ]
    return list(product(*levels))


def broken(cell: tuple[int, ...], rules: range = range(3)) -> bool:
    age, sex, educ = cell
    told = (
        age < 2 and educ == 2,
        sex == 1 and age == 4,
        sex == 0 and educ == 1 and age == 0,
    )
    return any(told[rule] for rule in rules)


def forbidden(record: np.ndarray, rules: range = range(3)) -> bool:
    return all(broken(cell, rules) for cell in completions(record))


def a_table(codes: np.ndarray, **options: object) -> CellTable:
    return CellTable.from_codes(codes, KEYS, 10_000, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("at_once", [1, 1_000_000])
def test_broken_conditions_of_a_table_are_those_of_every_record_by_itself(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unikat.zeros.conflicts._MOST_AT_ONCE", at_once)
    rows = [(1, 0, None), (1, 1, None), (None, 1, 2), (4, None, None)]
    frame = pd.DataFrame(
        [
            {k.name: None if c is None else str(c) for k, c in zip(KEYS, r, strict=True)}
            for r in rows
        ]
    )
    codes = draw(share=0.3)
    found = find_conflicts(a_table(codes), Zeros.of(["SEX == 0 and AGE == 3"], KEYS, [frame]))
    assert found.conditions(0) == ()

    def holds(row: tuple[int | None, ...], cell: tuple[int, ...]) -> bool:
        return all(a is None or a == b for a, b in zip(row, cell, strict=True))

    expected: dict[str, list[int]] = {}
    texts = ["AGE == 1 and SEX == 0", "AGE == 1 and SEX == 1", "SEX == 1 and EDUC == 2", "AGE == 4"]
    for number, record in enumerate(codes, start=1):
        cells = completions(record)
        names = [
            text for row, text in zip(rows, texts, strict=True) if all(holds(row, c) for c in cells)
        ]
        if not names and all(any(holds(row, c) for row in rows) for c in cells):
            names = [CONDITIONS_TOGETHER]
        for name in names:
            expected.setdefault(name, []).append(number)
    told = {one.text: one.rows.tolist() for one in found.conditions(1)}
    assert told == expected
    assert CONDITIONS_TOGETHER in told
    shares = {one.text: one.share for one in found.conditions(1)}
    assert shares["AGE == 4"] == pytest.approx(1 / 5)
    assert shares["AGE == 1 and SEX == 0"] == pytest.approx(1 / 10)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5])
def test_conflicts_are_those_of_every_record_by_itself(share: float) -> None:
    codes = draw(share=share)
    table = a_table(codes)
    found = find_conflicts(table, Zeros.of(RULES, KEYS))
    expected = np.array([forbidden(record) for record in codes])
    assert found.n_records == expected.sum() > 0
    alone = []
    for position, rule in enumerate(found.rules[:3]):
        rows = np.flatnonzero([forbidden(r, range(position, position + 1)) for r in codes]) + 1
        assert found.rows(position).tolist() == rows.tolist()
        assert (rule.text, rule.n_records) == (RULES[position], len(rows))
        assert rule.first_rows == tuple(rows[:5].tolist())
        alone += rows.tolist()
    left = sorted(set((np.flatnonzero(expected) + 1).tolist()) - set(alone))
    assert found.rows(3).tolist() == left
    assert (found.rules[-1].text == TOGETHER) == bool(left)


def test_no_single_rule_forbids_what_several_do() -> None:
    rules = ["SEX == 0 and AGE == 0", "SEX == 1 and AGE == 0"]
    table = a_table(np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]]))
    found = find_conflicts(table, Zeros.of(rules, KEYS))
    assert [(rule.text, rule.first_rows) for rule in found.rules] == [
        (rules[0], (3,)),
        (rules[1], ()),
        (TOGETHER, (1,)),
    ]
    missing = apply_zeros(table, Zeros.of(rules, KEYS), "missing").table
    assert missing.cells[missing.record_cell].tolist() == [[-1, -1, 0], [1, 0, 0], [-1, -1, 1]]


def test_stop_tells_rows_and_remedies_and_no_value() -> None:
    codes = np.array([[3, 0, 0], *[[1, 0, 2]] * 9, [4, 1, 0]])
    keys = [
        Key(name=k.name, levels=k.levels, labels=tuple(f"v{i}" for i in k.levels)) for k in KEYS
    ]
    table = CellTable.from_codes(codes, keys, 100)
    zeros = Zeros.of([("the young", RULES[0]), (None, RULES[1])], keys)
    with pytest.raises(DataError) as caught:
        apply_zeros(table, zeros, name="people.csv")
    said = str(caught.value)
    assert said.startswith("10 of 11 records break a rule of what is impossible, in people.csv:")
    assert "the young: 9 rows (2, 3, 4, 5, 6, ...)" in said
    assert "SEX == 1 and AGE == 4: 1 row (11)" in said
    for word in ("--zeros-conflict drop", "--zeros-conflict missing", "unikat zeros check"):
        assert word in said
    assert "v1" not in said


def test_a_table_without_conflicts_only_gets_the_diagram() -> None:
    table = a_table(np.array([[3, 0, 0], [2, -1, 1]]))
    handled = apply_zeros(table, Zeros.of(RULES, KEYS))
    assert table.zeros is None
    assert handled.table.zeros is not None
    assert np.array_equal(handled.table.cells, table.cells)
    assert handled.table.fingerprint != table.fingerprint
    assert (handled.n_dropped, handled.n_set_missing) == (0, 0)
    assert handled.kept.all()
    assert not handled.in_conflict.any()


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_drop_leaves_the_other_records_as_they_are(share: float) -> None:
    codes = draw(share=share)
    handled = apply_zeros(a_table(codes), Zeros.of(RULES, KEYS), "drop")
    kept = np.array([not forbidden(record) for record in codes])
    table = handled.table
    same = a_table(codes[kept])
    assert np.array_equal(handled.kept, kept)
    assert handled.n_dropped == (~kept).sum()
    assert table.zeros is not None
    for name in ("cells", "counts", "record_cell"):
        assert np.array_equal(getattr(table, name), getattr(same, name))
        assert getattr(table, name).dtype == getattr(same, name).dtype


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("treatment", ["integrate", "wildcard"])
def test_missing_sets_keys_until_every_record_is_possible(share: float, treatment: str) -> None:
    codes = draw(share=share)
    handled = apply_zeros(a_table(codes, missing=treatment), Zeros.of(RULES, KEYS), "missing")
    table = handled.table
    after = table.cells[table.record_cell]
    in_conflict = np.array([forbidden(record) for record in codes])
    assert np.array_equal(handled.in_conflict, in_conflict)
    assert handled.n_set_missing == in_conflict.sum()
    assert np.array_equal(after[~in_conflict], codes[~in_conflict])
    # Keys are set missing, none is given another value; and nothing impossible remains.
    assert ((after == codes) | (after == -1)).all()
    assert not any(forbidden(record) for record in after)
    same = a_table(after, missing=treatment)
    assert np.array_equal(table.cells, same.cells)
    assert np.array_equal(table.counts, same.counts)
    assert np.array_equal(table.record_cell, same.record_cell)


def test_only_the_keys_of_the_broken_rule_are_set_missing() -> None:
    table = a_table(np.array([[1, 0, 2], [4, 1, 0]]))
    conditions = pd.DataFrame({"AGE": ["1", "4"], "SEX": [None, "1"], "EDUC": ["2", None]})
    for zeros in (Zeros.of(RULES, KEYS), Zeros.of([], KEYS, tables=[conditions])):
        after = apply_zeros(table, zeros, "missing").table
        assert after.cells[after.record_cell].tolist() == [[-1, 0, -1], [-1, -1, 0]]


def test_missing_as_a_level_is_set_where_there_is_one() -> None:
    levels = (0, 1, 2, None)
    keys = [
        Key(name="AGE", levels=levels, labels=("0", "1", "2", "missing")),
        Key(name="EDUC", levels=levels, labels=("0", "1", "2", "missing")),
        Key.of_size("SEX", 2),
    ]
    table = CellTable.from_codes([[0, 2, 0], [1, 3, 1]], keys, 100, missing="level")
    handled = apply_zeros(table, Zeros.of(["AGE == 0 and EDUC == 2"], keys), "missing").table
    assert handled.cells[handled.record_cell].tolist() == [[3, 3, 0], [1, 3, 1]]
    with pytest.raises(DataError, match="no record lacks 'SEX', so there is no such level"):
        apply_zeros(table, Zeros.of(["SEX == 0 and EDUC == 2"], keys), "missing")
    stubborn = ["AGE == 0 and EDUC == 2", "AGE is missing and EDUC is missing"]
    with pytest.raises(DataError, match="a rule forbids the missing level"):
        apply_zeros(table, Zeros.of(stubborn, keys), "missing")


def test_wrong_options_are_refused() -> None:
    table = a_table(np.array([[1, 0, 2]]))
    zeros = Zeros.of(RULES, KEYS)
    with pytest.raises(SpecError, match="Did you mean 'drop'"):
        apply_zeros(table, zeros, "dropp")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="Every record in the data breaks a rule"):
        apply_zeros(table, zeros, "drop")
    other = [Key.of_size("AGE", 5), Key.of_size("SEX", 2), Key.of_size("WORK", 3)]
    with pytest.raises(SpecError, match="other keys"):
        apply_zeros(table, Zeros.of(["AGE < 2 and WORK == 1"], other))


@pytest.mark.parametrize("on_conflict", ["drop", "missing"])
def test_a_million_rows(on_conflict: OnConflict) -> None:
    codes = np.repeat(draw(5_000, 0.05), 200, axis=0)
    expected = np.repeat([forbidden(record) for record in codes[::200]], 200)
    handled = apply_zeros(a_table_of_million(codes), Zeros.of(RULES, KEYS), on_conflict)
    conflicts = handled.conflicts
    assert conflicts.n_records == expected.sum()
    rows = np.unique(np.concatenate([conflicts.rows(r) for r in range(len(conflicts.rules))]))
    assert np.array_equal(rows, np.flatnonzero(expected) + 1)
    assert Counter(handled.kept.tolist())[False] == handled.n_dropped
    assert len(conflicts.message("the data")) < 2_000


def a_table_of_million(codes: np.ndarray) -> CellTable:
    return CellTable.from_codes(codes, KEYS, 10_000_000)


def test_a_class_of_the_design_must_keep_a_record():
    """Leaving out all records of a stratum would leave its units without any that they are like."""
    keys = [Key.of_size("AGE", 90), Key.of_size("MARRIED", 2)]
    table = CellTable.from_codes([[30, 1], [5, 1], [40, 0]], keys, population_size=100)
    zeros = Zeros.of(["AGE < 14 and MARRIED == 1"], keys)
    for strata, kept in (([0, 1, 0], False), ([0, 0, 1], True)):
        sampling = Sampling(
            weights=np.array([10.0, 20.0, 70.0]),
            strata=np.array(strata, np.int32),
            sizes=np.array([50.0, 50.0]),
            from_weights=False,
        )
        drawn = replace(table, sampling=sampling)
        if not kept:
            with pytest.raises(DataError, match="1 of 2 classes"):
                apply_zeros(drawn, zeros, "drop")
            continue
        handled = apply_zeros(drawn, zeros, "drop").table
        assert handled.sampling is not None
        assert handled.sampling.weights.tolist() == [10.0, 70.0]
        assert handled.sampling.strata.tolist() == [0, 1]
