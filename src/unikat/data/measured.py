"""Continuous variables: columns of numbers that are no keys, read and written as the file does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from unikat._typing import Float64
from unikat.data.binning import KeySpec
from unikat.data.codebook import load_codebook
from unikat.data.columns import Column, may_hold_numbers
from unikat.data.levels import describe
from unikat.data.microdata import Microdata
from unikat.data.numbers import number_meant
from unikat.data.texts import is_text
from unikat.errors import DataError, brief, option

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_DECIMALS = 6


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """A column of numbers."""

    name: str
    values: Float64
    """(n_records,); NaN where the file, the codebook or the user says that there is none."""
    decimals: int | None
    """Behind the point; None: more than six."""
    n_labelled: int
    """Values that have a label and are numbers all the same."""
    decimal: str
    """What stands before the decimals, where the column is text."""

    @classmethod
    def of(
        cls,
        microdata: Microdata,
        name: str,
        codebook: str | PathLike[str] | Mapping[str, Any] | None = None,
        missing_values: tuple[object, ...] = (),
    ) -> Measured:
        """Read a column; codes that mean missing are no numbers."""
        with microdata.attached(name) as connection:
            (type_name,) = describe(connection)[:1]
            if not may_hold_numbers(type_name):
                raise DataError(
                    f"{microdata.name}, column {brief(name)!r} has the type {type_name}, which "
                    f"holds no numbers; leave it out of {option('numeric')}."
                )
            column = Column(
                connection,
                microdata.source,
                KeySpec(name=name),
                0,
                type_name,
                load_codebook(codebook),
                {name: missing_values} if missing_values else {},
                microdata.n_records,
                "column",
            )
            values = column.measured()
        labelled = (number_meant(code) for code in (*column.declared.labels, *column.entry.labels))
        return cls(
            name=name,
            values=values,
            decimals=_decimals(values),
            n_labelled=int(np.isin(values, [code for code in labelled if code is not None]).sum()),
            decimal=column.decimal or ".",
        )

    def rounded(self, values: Float64) -> Float64:
        """Return numbers with as many decimals as the column has."""
        return values if self.decimals is None else np.round(values, self.decimals) + 0.0

    def written(self, column: pa.ChunkedArray, values: Float64) -> pa.Array:
        """Write changed numbers into the column that was read, in its type; NaN as missing.

        Codes that mean missing stay as they stand. All numbers of a text are written alike, or
        those that a group's mean happens to be would be told by the way they are written.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        plain = column.combine_chunks()
        if pa.types.is_dictionary(plain.type):
            plain = plain.cast(plain.type.value_type)
        known = np.isfinite(self.values)
        changed = known & (values != self.values)
        if not changed.any():
            return plain
        gone = changed & ~np.isfinite(values)
        new = np.where(known & ~gone, values, 0.0)
        if is_text(plain.type):
            form = ".15g" if self.decimals is None else f".{self.decimals}f"
            texts = [f"{value:{form}}".replace(".", self.decimal) for value in new]
            found, changed = pa.array(texts, plain.type), known
        elif pa.types.is_integer(plain.type):
            bounds = np.iinfo(plain.type.to_pandas_dtype())
            # The next number below 2**63 that a fraction can hold is 1,024 less.
            top = np.nextafter(float(bounds.max), 0.0) if bounds.bits == 64 else bounds.max
            found = pa.array(np.clip(np.rint(new), bounds.min, top)).cast(plain.type)
        else:
            found = pa.array(new).cast(plain.type, safe=False)
        found = pc.if_else(pa.array(gone), pa.scalar(None, plain.type), found)
        return pc.if_else(pa.array(changed), found, plain)


def _decimals(values: Float64) -> int | None:
    """Decimals that numbers are written with."""
    known = np.abs(values[np.isfinite(values)])
    for decimals in range(_MOST_DECIMALS + 1):
        scaled = known * 10.0**decimals
        if np.isclose(scaled, np.rint(scaled), rtol=1e-12, atol=0.0).all():
            return decimals
    return None
