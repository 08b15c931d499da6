"""Columns of a file that are held in memory, so that a form can tell at once what follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unikat.data.engine import DEFAULT_MEMORY
from unikat.data.profile import Profile, labelled
from unikat.data.readers import open_source
from unikat.data.sources import Declared, TableSource
from unikat.errors import DataError, SpecError, brief
from unikat.interrupts import interruptible

if TYPE_CHECKING:
    import pyarrow as pa


MOST_VALUES = 5_000_000
"""Values of a table of a database that is held."""
_FEW = 1 << 15
"""Values of a text below which codes take less room."""


class Held(TableSource):
    """Some columns of a source, as `read` takes them: with what the source declares of them."""

    def __init__(self, name: str, table: pa.Table, declared: dict[str, Declared]) -> None:
        self._table, self._declared = table, declared
        super().__init__(name, table.column_names, lambda names, _: table.select(names), format="")

    @classmethod
    def joined(cls, parts: Sequence[Held]) -> Held:
        """Put columns of one file side by side."""
        import pyarrow as pa

        columns = {name: part._table.column(name) for part in parts for name in part.columns}
        declared = {name: part._declared[name] for part in parts for name in part.columns}
        return cls(parts[0].name, pa.table(columns), declared)

    def part(self, name: str) -> Held:
        """Take one column."""
        return Held(self.name, self._table.select([name]), {name: self._declared[name]})

    def declared(self, name: str) -> Declared:
        """Tell what the source itself says of a column."""
        return self._declared[name]

    def texts(self, rows: Sequence[int]) -> list[list[str]]:
        """Give the values of some rows, counted from 0, with labels; empty where missing."""
        return [
            [
                ""
                if value is None
                else labelled(
                    str(value), self._declared[name].labels, is_number=isinstance(value, float)
                )
                for name, value in row.items()
            ]
            for row in self._table.take(rows).to_pylist()
        ]

    @property
    def n_records(self) -> int:
        """Rows of the file."""
        return int(self._table.num_rows)


@interruptible
def hold(
    source: Any, names: Sequence[str], *, memory_limit: str = DEFAULT_MEMORY, **reading: Any
) -> Held:
    """Hold columns of a file in memory; texts of few values as codes, which take little of it.

    Parameters
    ----------
    source
        A path or a frame, as `read` takes them.
    names
        Columns, each once.
    memory_limit
        Memory that DuckDB may use.
    **reading
        Format, delimiter, encoding, sheet and table, as `read` takes them.

    Examples
    --------
    >>> import pandas as pd
    >>> hold(pd.DataFrame({"SEX": ["f", "m"], "N": [1, 2]}), ["SEX"]).texts([1])
    [['m']]
    """
    opened = open_source(source, memory_limit=memory_limit, **reading)
    for name in names:
        if name not in opened.columns:
            raise DataError(f"{opened.name} has no column {brief(name)!r}.")
    with opened.session(memory_limit=memory_limit) as connection:
        table = opened.values(connection, names)
    opened.delete_copies()
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            coded = table.column(place).dictionary_encode().unify_dictionaries()
            if coded.num_chunks and len(coded.chunk(0).dictionary) < _FEW:
                table = table.set_column(place, field.name, coded)
    return Held(opened.name, table, {name: opened.declared(name) for name in names})


def hold_table(address: str, seen: Profile, **reading: Any) -> Held:
    """Hold all columns of a table of a database; its rows have no order, so all are read."""
    n_values = seen.n_records * len(seen.columns)
    if n_values > MOST_VALUES:
        raise SpecError(
            f"The table has {n_values:,} values. The workbench counts up to {MOST_VALUES:,} of a "
            "database: choose a view with fewer columns or records, or use a terminal, where the "
            "server counts."
        )
    return hold(address, [one.name for one in seen.columns], **reading)
