"""Dates that are recoded to longer periods, and written: nested, ordered, and read again."""

from __future__ import annotations

import itertools
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from data.workbooks import write_xlsx
from unikat.data import Design, read
from unikat.data.structure import Structure, order_of
from unikat.data.writers import ending, write_records
from unikat.errors import SpecError
from unikat.language.dates import STEPS
from unikat.protection.hierarchies import own_recodings
from unikat.protection.recoding import level_counts, parse_recoding, recode_key
from unikat.protection.released import released
from unikat.spec.plan import PlanKey

DESIGN = Design(population_size=10_000)


def people(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    birth = [date(1931, 1, 1) + timedelta(int(day)) for day in rng.integers(0, 25_000, n)]
    birth = [None if rng.random() < 0.03 else day for day in birth]
    return pd.DataFrame({"BIRTH": birth, "SEX": rng.integers(1, 3, n).astype(float)})


def saved(kind: str, folder: Path) -> Path:
    frame, path = people(), folder / f"a.{kind}"
    if kind == "csv":
        texts = [None if day is None else f"{day:%d/%m/%Y}" for day in frame["BIRTH"]]
        frame.assign(BIRTH=texts).to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path)
    elif kind == "xlsx":
        rows = frame.astype(object).where(frame.notna(), None).values.tolist()
        write_xlsx(path, {"all": [list(frame.columns), *rows]})
    else:
        pyreadstat = pytest.importorskip("pyreadstat", reason="the extra 'stat' is not installed")
        {"sav": pyreadstat.write_sav, "dta": pyreadstat.write_dta}[kind](frame, path)
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx", "sav", "dta"])
def test_a_recoded_date_is_written_and_read_again(kind: str, tmp_path: Path) -> None:
    microdata = read(saved(kind, tmp_path), ["BIRTH:month", "SEX"], DESIGN)
    table = microdata.tabulate()
    codes = table.cells[table.record_cell]
    for rule in (None, "quarter", "years(5)"):
        recoding = parse_recoding(table, {} if rule is None else {"BIRTH": rule})
        made = released(microdata, codes, recoding)
        path = tmp_path / f"{rule}{ending(microdata.source)}"
        write_records(path, made.table, microdata.source, made.labels, letters=made.letters)
        again = read(path, ["BIRTH", "SEX"], DESIGN).tabulate()
        after = recoding.table(table)
        assert again.n_uniques == after.n_uniques
        assert again.n_missing == table.n_missing
        assert again.n_missing[0]
        assert [str(level) for level in again.keys[0].levels] == list(after.keys[0].labels)
        if rule != "years(5)":
            coarser = read(path, ["BIRTH:year", "SEX"], DESIGN).tabulate()
            assert (
                coarser.n_uniques == parse_recoding(table, {"BIRTH": "year"}).table(table).n_uniques
            )


def test_each_step_is_a_function_of_the_finer_one() -> None:
    for first in ("day", "month", "quarter", "year", "years(5)"):
        table = read(people(), [f"BIRTH:{first}", "SEX"], DESIGN).tabulate()
        key, counts = table.keys[0], level_counts(table)[0]
        assert Structure.of(key).why == "dates"
        assert order_of(key) == list(range(key.n_levels))
        own = own_recodings(key, counts)
        later = [step for step in STEPS if STEPS.index(step) > [*STEPS, "day"].index(first) % 5]
        steps = STEPS if first == "day" else later
        assert [one.text for one in own[1 : 1 + len(steps)]] == [*steps]
        for fine, coarse in itertools.pairwise(own[: 1 + len(steps)]):
            assert coarse.is_coarser(fine)
        for one in own[1 : 1 + len(steps)]:
            # Groups are in the order of time, and the same rule makes them of other records.
            assert (np.diff(one.groups) >= 0).all()
            assert one.key is not None
            assert one.key.labels == tuple(sorted(one.key.labels))
            direct = read(people(), [f"BIRTH:{one.text}", "SEX"], DESIGN)
            assert direct.keys[0].labels == one.key.labels
            assert PlanKey(name="BIRTH", key="BIRTH", rule=one.rule).rule == one.text


def test_levels_that_lie_in_several_periods_are_refused() -> None:
    table = read(people(), ["BIRTH:years(5)", "SEX"], DESIGN).tabulate()
    counts = level_counts(table)
    for j, rule in ((0, "year"), (0, "years(3)"), (0, "month(2)"), (1, "year")):
        with pytest.raises(SpecError):
            recode_key(table.keys[j], counts[j], rule)
