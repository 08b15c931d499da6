"""What a form tells while it is filled in: groups of a key, and the size that a design tells.

It imports the room `data` alone, so that the first answer does not wait for what fits models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unikat.data import CellTable, Design, read
from unikat.data.dates import day_sql, digits_sql
from unikat.data.engine import quoted
from unikat.data.held import Held
from unikat.data.keys import MISSING
from unikat.data.sampling import make_sampling
from unikat.errors import SpecError
from unikat.interrupts import interruptible
from unikat.language.dates import DateForm
from unikat.spec.missing import missing_codes_of
from unikat.spec.tables import DataSpec, DesignSpec

_FIRST_VALUES = 3
"""Values whose days are shown."""


@dataclass(frozen=True, kw_only=True)
class Groups:
    """How the records of a file fall into the groups of one key."""

    labels: tuple[str, ...]
    counts: tuple[int, ...]
    """Records of each group."""
    n_missing: int


@interruptible
def groups(data: DataSpec, key: str, column: str, held: Held) -> Groups:
    """Group a column by the rule of its key.

    Parameters
    ----------
    data
        How the file is read; missing codes may be told by key.
    key
        The key as `--keys` has it, such as ``AGE:width(5)``.
    column
        Its column.
    held
        That column.

    Examples
    --------
    >>> import pandas as pd
    >>> from unikat.data.held import hold
    >>> held = hold(pd.DataFrame({"AGE": [3, 8, 11, None]}), ["AGE"])
    >>> groups(DataSpec(), "AGE:width(10)", "AGE", held)
    Groups(labels=('0-9', '10-19'), counts=(2, 1), n_missing=1)
    """
    # Missing values as a level are counted with the others.
    table = _tabulated(data.model_copy(update={"missing": "level"}), {key: column}, held)
    (only,) = table.keys
    counts = [0] * only.n_levels
    for code, count in zip(table.cells[:, 0].tolist(), table.counts.tolist(), strict=True):
        counts[code] = count
    n_missing = 0 if only.missing_level is None else counts.pop()
    return Groups(labels=only.labels[: len(counts)], counts=tuple(counts), n_missing=n_missing)


@dataclass(frozen=True, kw_only=True)
class DatesRead:
    """What a form reads of a column."""

    form: str
    n_other: int
    """Values that have another form."""
    first: tuple[tuple[str, str], ...]
    """Values, of those first that forms read as different days, and their days; empty: none."""


@interruptible
def dates_read(
    data: DataSpec, column: str, forms: Sequence[DateForm], held: Held
) -> tuple[DatesRead, ...]:
    """Tell what each of some forms reads of a column.

    Examples
    --------
    >>> import pandas as pd
    >>> from unikat.data.held import hold
    >>> held = hold(pd.DataFrame({"BIRTH": ["03/11/1987", "13/04/2001"]}), ["BIRTH"])
    >>> forms = [DateForm.of("DD/MM/YYYY"), DateForm.of("MM/DD/YYYY")]
    >>> [(one.form, one.n_other) for one in dates_read(DataSpec(), "BIRTH", forms, held)]
    [('DD/MM/YYYY', 0), ('MM/DD/YYYY', 1)]
    """
    codes = ", ".join(quoted(str(code)) for code in missing_codes_of(data.missing_values, column))
    with held.session([column]) as connection:
        known = "nullif(c0::VARCHAR, '')"
        if codes:
            known = f"CASE WHEN {known} NOT IN ({codes}) THEN {known} END"
        rows = f"(SELECT {digits_sql(known)} AS v, row_number() OVER () AS row FROM source)"
        days = ", ".join(day_sql("v", form) for form in forms)
        counted = connection.execute(
            "SELECT "
            + ", ".join(f"count(v) - count({day_sql('v', form)})" for form in forms)
            + f" FROM {rows}"
        ).fetchall()[0]
        first = connection.execute(
            f"SELECT v, {days} FROM (SELECT v, min(row) AS row FROM {rows} WHERE v IS NOT NULL "
            # Those that the forms read as different days come first.
            f"GROUP BY v ORDER BY len(list_distinct([{days}])) < 2, row LIMIT {_FIRST_VALUES}) "
            "ORDER BY row"
        ).fetchall()
    return tuple(
        DatesRead(
            form=str(form),
            n_other=int(n_other),
            first=tuple((row[0], "" if row[1 + j] is None else str(row[1 + j])) for row in first),
        )
        for j, (form, n_other) in enumerate(zip(forms, counted, strict=True))
    )


@dataclass(frozen=True, kw_only=True)
class KeyCounts:
    """What a file tells of its keys together."""

    n_records: int
    n_incomplete: int
    """Records with a missing key."""
    n_uniques: int
    """Sample uniques."""
    n_cells: int
    """Combinations without a missing key that occur."""
    smallest: int
    """Records of the smallest combination without a missing key; 0 if there is none."""


@interruptible
def coded_key(data: DataSpec, key: str, column: str, held: Held) -> CellTable:
    """Tabulate one key alone, from which `key_table` makes that of any keys."""
    return _tabulated(data, {key: column}, held, empty_rows=True)


@interruptible
def key_table(
    data: DataSpec,
    keys: Mapping[str, str],
    alone: Sequence[CellTable],
    held: Callable[[], Held],
) -> CellTable:
    """Tabulate keys of which each was coded alone: so a tick reads and codes one column.

    Parameters
    ----------
    data
        How the file is read.
    keys
        Column of each key, by the key as `--keys` has it.
    alone
        The table of each key alone (`coded_key`).
    held
        Gives the columns of all keys.

    Examples
    --------
    >>> import pandas as pd
    >>> from unikat.data.held import hold
    >>> held = hold(pd.DataFrame({"AGE": [3, 8, 11], "SEX": [1, 1, 2]}), ["AGE", "SEX"])
    >>> keys = {"AGE:width(10)": "AGE", "SEX": "SEX"}
    >>> alone = [coded_key(DataSpec(), *key, held) for key in keys.items()]
    >>> key_counts(key_table(DataSpec(), keys, alone, lambda: held)).n_uniques
    1
    """
    parts = [table.keys[0] for table in alone]
    # Who has a labelled code that is declared missing, other keys may tell (`data.not_asked`).
    told = any(code.label is not None for key in parts for code in key.declared)
    codes = np.column_stack([table.cells[table.record_cell, 0] for table in alone])
    if told or (codes == MISSING).all(axis=1).any():
        return _tabulated(data, keys, held())
    return alone[0].with_keys(parts, codes)


def key_counts(table: CellTable) -> KeyCounts:
    """Count the combinations of a table."""
    whole = table.counts[~table.incomplete]
    return KeyCounts(
        n_records=table.n_records,
        n_incomplete=table.n_records - int(whole.sum()),
        n_uniques=table.n_uniques,
        n_cells=len(whole),
        smallest=int(whole.min(initial=table.n_records)) if len(whole) else 0,
    )


def _tabulated(
    data: DataSpec, keys: Mapping[str, str], held: Held, *, empty_rows: bool = False
) -> CellTable:
    data = data.of_columns(keys.values())
    found = read(
        held,
        list(keys),
        Design(without_population=True),
        codebook=data.codebook,
        missing=data.missing,
        missing_values=data.missing_values,
        decimal=data.decimal,
        levels=data.levels,
        groups=data.groups,
        dates=data.dates,
        fewest_keys=1,
        constant_keys=True,
        empty_rows=empty_rows,
    )
    return found.tabulate()


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the columns of a design tell of the population."""

    n_records: int
    population_size: int
    n_strata: int
    """Strata; 0 if none are named."""
    weighted: bool
    """Whether weights or inclusion probabilities tell it."""


@interruptible
def population_told(design: DesignSpec, held: Held) -> Told:
    """Sum the weights, or the sizes of the strata.

    Examples
    --------
    >>> import pandas as pd
    >>> from unikat.data.held import hold
    >>> held = hold(pd.DataFrame({"W": [30.0, 12.5]}), ["W"])
    >>> population_told(DesignSpec(weights="W"), held).population_size
    42
    """
    asked = Design(**design.model_dump(exclude={"household"}))
    columns = {name: f"c{j}" for j, name in enumerate(asked.columns)}
    with held.session(list(columns)) as connection:
        sampling, size = make_sampling(connection, asked, columns, held.name)
    if sampling is None or size is None:
        raise SpecError("Neither weights nor sizes of strata are named.")
    return Told(
        n_records=len(sampling.weights),
        population_size=size,
        n_strata=0 if design.strata is None else sampling.n_strata,
        weighted=bool(design.weights or design.inclusion),
    )
