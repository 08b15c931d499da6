"""What a published file keeps of tables, against records spread one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat.errors import DataError
from unikat.protection.recoding import parse_recoding
from unikat.protection.utility import Tables
from unikat.spec.protection import ProtectionSpec


def people(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    age = rng.integers(0, 30, n).astype(float)
    age[rng.random(n) < 0.05] = np.nan
    return pd.DataFrame(
        {
            "age": age,
            "sex": rng.choice(["f", "m"], n),
            "region": rng.choice(list("abcd"), n, p=[0.5, 0.3, 0.15, 0.05]),
            "income": np.where(rng.random(n) < 0.5, "low", "high"),
        }
    )


def tables_of(frame: pd.DataFrame, wanted: tuple[tuple[str, ...], ...] = ()):
    design = unikat.Design(population_size=10 * len(frame))
    microdata = unikat.read(frame, ["age", "sex", "region"], design)
    table = microdata.tabulate()
    codes = table.cells[table.record_cell]
    return table, codes, Tables.of(microdata, table.keys, codes, wanted)


def slowly(original: pd.DataFrame, shown: pd.DataFrame, groups: dict, names: tuple) -> float:
    """Spread every published record over the levels of its groups, and compare shares."""
    known = original[list(names)].dropna()
    expected: dict = {}
    for row in shown[list(names)].dropna().itertuples(index=False):
        levels = []
        for name, group in zip(names, row, strict=True):
            column = known[name]
            inside = column[column.map(groups[name]) == group]
            levels.append(inside.value_counts(normalize=True).items())
        for cell in itertools.product(*levels):
            share = np.prod([one for _, one in cell])
            key = tuple(level for level, _ in cell)
            expected[key] = expected.get(key, 0.0) + share
    counts = known.groupby(list(names)).size()
    total, m = len(known), sum(expected.values())
    cells = set(expected) | set(counts.index)
    return 0.5 * sum(abs(counts.get(c, 0) / total - expected.get(c, 0.0) / m) for c in cells)


@pytest.mark.parametrize("suppressed", [False, True])
def test_tables_are_those_of_records_spread_one_by_one(suppressed: bool) -> None:
    frame = people()
    wanted = (("age", "income"), ("sex", "region", "income"))
    table, codes, tables = tables_of(frame, wanted)
    recoding = parse_recoding(
        table, {"age": "width(10)", "region": {"c": "rest", "d": "rest"}, "sex": None}
    )
    groups = {
        "age": lambda age: age // 10,
        "sex": lambda _: 0,
        "region": lambda one: "rest" if one in "cd" else one,
        "income": lambda one: one,
    }
    shown = pd.DataFrame({name: frame[name].map(group) for name, group in groups.items()})
    shown["age"] = frame["age"] // 10
    published = None
    if suppressed:
        gone = np.random.default_rng(8).random((len(frame), 2)) < 0.2
        published = np.where(gone, -1, recoding.codes(codes))
        shown.loc[gone[:, 0], "age"] = np.nan
        shown.loc[gone[:, 1], "region"] = None
    found = tables.kept(recoding, published)
    pairs = list(itertools.combinations(("age", "sex", "region"), 2))
    slow = [slowly(frame, shown, groups, pair) for pair in pairs]
    assert found.distance == pytest.approx(np.mean(slow), abs=1e-12)
    for one, names in zip(found.tables, wanted, strict=True):
        assert one.variables == names
        assert one.distance == pytest.approx(slowly(frame, shown, groups, names), abs=1e-12)


def test_a_file_as_it_is_keeps_all_and_coarser_files_keep_less_of_dependent_keys() -> None:
    frame = people()
    frame["region"] = np.array(list("abcd"))[(frame["age"].fillna(0) // 8).astype(int)]
    table, _, tables = tables_of(frame)
    kept = [
        tables.kept(parse_recoding(table, rules))
        for rules in ({}, {"age": "width(4)"}, {"age": "width(20)"}, {"age": None})
    ]
    assert kept[0].distance == kept[0].pmse_ratio == 0.0
    assert kept[0].distance_expected > 0.0
    distances = [one.distance for one in kept]
    assert distances == sorted(distances)
    assert distances[-1] > distances[1]


def test_tables_of_the_user_are_read_and_checked() -> None:
    values = {"keys": "age,sex", "target": "k >= 2", "tables": "age,sex; sex,income"}
    assert ProtectionSpec.parse(values).tables == (("age", "sex"), ("sex", "income"))
    for wrong in ("age", "age,age"):
        with pytest.raises(unikat.SpecError, match="two columns or more"):
            ProtectionSpec.parse({**values, "tables": wrong})
    with pytest.raises(DataError, match="incom"):
        tables_of(people(), (("age", "incom"),))


def test_what_a_second_sample_differs_by_is_that_of_drawn_samples() -> None:
    """Whatever the plan: it is a property of the original table and the number of records."""
    frame = people(600)
    table, _, tables = tables_of(frame, (("sex", "region"),))
    found = [
        tables.kept(parse_recoding(table, rules)).tables[0]
        for rules in ({}, {"region": None}, {"region": {"c": "rest", "d": "rest"}})
    ]
    assert len({one.distance_expected for one in found}) == 1
    counts = frame.groupby(["sex", "region"]).size().to_numpy()
    rng = np.random.default_rng(6)
    shares = counts / counts.sum()
    # Both samples are drawn, from shares like those of the file.
    drawn = rng.multinomial(len(frame), shares, (2, 4000)) / len(frame)
    expected = 0.5 * np.abs(drawn[0] - drawn[1]).sum(axis=1).mean()
    assert found[0].distance_expected == pytest.approx(expected, rel=0.03)
    # Only a plan that hides the dependence of the two moves the table.
    assert found[0].pmse_ratio == 0.0 < found[2].pmse_ratio < found[1].pmse_ratio
