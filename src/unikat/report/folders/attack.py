"""The table of an attack that knows all other records: ρ by record, variable and prior."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from unikat._typing import Int32, Int64
from unikat.data.table import CellTable
from unikat.synthesis.attacks.posterior import Question, Told
from unikat.synthesis.attacks.rates import AnyHousehold

_FIRST = ("unit", "household", "record", "f", "variable", "prior")


def records_table(
    told: Sequence[Told],
    table: CellTable,
    records: Int32,
    names: Sequence[str],
    household: AnyHousehold,
) -> pa.Table:
    """Return the rows of `attack-records.parquet`.

    Records of the original that are alike have one row in common, with the number of the first.

    Parameters
    ----------
    told
        What is learned of combinations, or of households and of the persons in them.
    table
        The original as the intruder knows it.
    records, names
        (n_records, n_columns): rows of the original, and the names of their columns.
    household
        (n_records,): household of each row.
    """
    parts = []
    for one in told:
        columns = dict(one.records)
        place = columns.pop("place")
        own = {name: values[place] for name, values in _numbers(one, table).items()}
        if one.question.codes is not None:
            own["record"] = _rows(one.question, table, records, names, household)[place]
        parts.append(pa.table({**own, **columns}))
    found = pa.concat_tables(parts, promote_options="default")
    missing = [name for name in _FIRST if name not in found.column_names]
    for name in missing:
        found = found.append_column(name, pa.nulls(found.num_rows, pa.int64()))
    rest = [name for name in found.column_names if name not in _FIRST]
    found = found.select([*_FIRST, *rest])
    for name in ("rho", "rank"):
        place = found.column_names.index(name)
        values = found[name].to_numpy()
        found = found.set_column(place, name, pa.array(values, mask=np.isnan(values)))
    return found


def _numbers(told: Told, table: CellTable) -> dict[str, Int64]:
    """Number of the first household or record, and how many are alike."""
    cell = told.question.cell
    first = np.unique(table.record_cell, return_index=True)[1][cell]
    if told.facts.unit == "combination":
        return {"record": first, "f": table.counts[cell]}
    if told.facts.unit == "household":
        return {"household": first, "f": table.counts[cell]}
    return {"household": first}


def _rows(
    question: Question,
    table: CellTable,
    records: Int32,
    names: Sequence[str],
    household: AnyHousehold,
) -> Int64:
    """First row of a person's household that has his values, (n,)."""
    assert table.layout is not None
    assert household is not None
    assert question.codes is not None
    first = np.unique(table.record_cell, return_index=True)[1][question.cell]
    order = np.argsort(household, kind="stable")
    starts = np.searchsorted(household[order], np.arange(table.n_records + 1))
    values = records[:, [names.index(key.name) for key in table.layout.person_keys]]
    found = np.empty(len(first), np.int64)
    for i, (home, codes) in enumerate(zip(first, question.codes, strict=True)):
        rows = order[starts[home] : starts[home + 1]]
        alike = ((values[rows] == codes) | (codes < 0)).all(axis=1)
        found[i] = rows[alike][0]
    return found
