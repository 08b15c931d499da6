"""Keys that are coded one by one make the table that they make together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unikat import Design, UnikatError, read
from unikat.data.held import Held, hold
from unikat.jobs.form_preview import coded_key, key_table
from unikat.spec.tables import DataSpec

RULES = {"AGE": ["AGE", "AGE:width(5)", "AGE:quantile(3)", "AGE:cut(4,9)"], "B": ["B"], "C": ["C"]}


def one_by_one(data: DataSpec, keys: dict[str, str], held: Held) -> Any:
    alone = [coded_key(data.of_columns([name]), key, name, held) for key, name in keys.items()]
    return key_table(data, keys, alone, lambda: held)


def together(data: DataSpec, keys: dict[str, str], held: Held) -> Any:
    found = read(
        held, list(keys), Design(without_population=True), missing=data.missing,
        missing_values=data.missing_values, fewest_keys=1, constant_keys=True,
    )  # fmt: skip
    return found.tabulate()


def told(make: Any, *asked: Any) -> str:
    """Fingerprint of a table, or what is said if there is none."""
    try:
        return str(make(*asked).fingerprint)
    except UnikatError as error:
        return str(error)


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_keys_coded_alone_make_the_table_that_they_make_together(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 30))

    def column(values: Any) -> Any:
        return data.draw(st.lists(values, min_size=n, max_size=n))

    frame = pd.DataFrame(
        {
            "AGE": pd.array(column(st.integers(0, 12) | st.none()), "Int64"),
            "B": pd.array(column(st.sampled_from(["x", "y", "9"]) | st.none()), "string"),
            "C": pd.array(column(st.integers(1, 3)), "Int64"),
        }
    )
    names = data.draw(st.permutations(["AGE", "B", "C"]))[: data.draw(st.integers(1, 3))]
    keys = {data.draw(st.sampled_from(RULES[name])): name for name in names}
    codes: Any = data.draw(st.sampled_from([(), (9,), {"B": (9,), "AGE": (3, 9)}]))
    how = data.draw(st.sampled_from(["integrate", "level", "wildcard"]))
    spec = DataSpec(missing=how, missing_values=codes)
    if isinstance(codes, dict):
        spec = DataSpec(missing=how, missing_values={k: v for k, v in codes.items() if k in names})
    held = hold(frame, ["AGE", "B", "C"])
    assert told(one_by_one, spec, keys, held) == told(together, spec, keys, held)


def test_a_code_that_another_key_tells_is_a_level_of_keys_coded_alone(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    ages = [a for a in range(40) for _ in range(10)]
    work = [-1.0 if a < 14 else float(a % 3) for a in ages]
    pyreadstat.write_sav(
        pd.DataFrame({"AGE": ages, "WORK": work}),
        tmp_path / "asked.sav",
        variable_value_labels={"WORK": {-1: "not asked", 0: "no", 1: "part", 2: "full"}},
        missing_ranges={"WORK": [-1]},
    )
    held = hold(tmp_path / "asked.sav", ["AGE", "WORK"])
    keys = {"AGE": "AGE", "WORK": "WORK"}
    expected = together(DataSpec(), keys, held)
    # Coded without the other key it is missing.
    assert coded_key(DataSpec(), "WORK", "WORK", held).incomplete.any()
    assert not expected.incomplete.any()
    assert one_by_one(DataSpec(), keys, held).fingerprint == expected.fingerprint
