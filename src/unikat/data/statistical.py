"""SPSS, Stata and SAS files, with their value labels and user-missing codes."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unikat.data.engine import DEFAULT_MEMORY, memory_bytes, within
from unikat.data.sources import Declared, TableSource
from unikat.errors import DataError, SpecError, brief, option

if TYPE_CHECKING:
    import pyarrow as pa

READERS = {
    "sav": ("SPSS", "read_sav"),
    "zsav": ("SPSS", "read_sav"),
    "dta": ("Stata", "read_dta"),
    "sas7bdat": ("SAS", "read_sas7bdat"),
    "xpt": ("SAS transport", "read_xport"),
}
_WITH_LETTERS = ("dta", "sas7bdat")
"""Formats that have letters which say why a number is missing."""
_PART = 4
"""Rows are read in parts, whose values take at most one in so many of the bytes allowed."""
_NUMBER, _TEXT = 48, 80
"""Bytes of a value while it is read: in the library, as an object of Python, and in the table."""


class StatisticalSource(TableSource):
    """A file of a statistical package, read with pyreadstat: it has a codebook of its own.

    Codes that the file itself declares missing (SPSS ranges; letters such as .a in Stata and SAS)
    are asked for and then treated as missing, with their numbers counted. Left to itself
    pyreadstat turns them into empty values without a word.
    """

    def __init__(
        self, path: Path, format: str, encoding: str | None, memory_limit: str = DEFAULT_MEMORY
    ) -> None:
        self.name, self._path = brief(path.name), path.resolve()
        try:
            import pyreadstat
        except ImportError:
            raise SpecError(
                f"{path.name} is a {READERS[format][0]} file, which needs the package pyreadstat: "
                "install it with  pip install 'unikat[stat]',  or save the file as CSV or Parquet."
            ) from None
        self._reader = getattr(pyreadstat, READERS[format][1])
        self._errors = (pyreadstat.ReadstatError, pyreadstat.PyreadstatError)
        self.format = format
        self._limit = memory_limit
        self.keeps_letters = format == "dta"
        self.holds_labels = format in ("sav", "zsav", "dta")
        self._letters: dict[str, list[str | None]] = {}
        self._options: dict[str, Any] = {"encoding": encoding} if encoding else {}
        # The transport format has no way to say which of its codes are missing.
        if format != "xpt":
            self._options["user_missing"] = True
        _, self.metadata = self._read(metadataonly=True)
        if not all(isinstance(name, str) for name in self.metadata.column_names):
            raise self._damaged()
        super().__init__(
            self.name, self.metadata.column_names, self.load, paths=[path], format=format
        )

    def declared(self, name: str) -> Declared:
        """Tell what the source itself says of a column."""
        labels: Mapping[Any, str] = self.metadata.variable_value_labels.get(name, {})
        codes, ranges = [], []
        for part in getattr(self.metadata, "missing_ranges", {}).get(name, []):
            low, high = part["lo"], part["hi"]
            if low == high:
                codes.append(_plain(low))
            else:
                ranges.append((float(low), float(high)))
        measure = getattr(self.metadata, "variable_measure", {}).get(name)
        return Declared(
            ordered=True if measure == "ordinal" else None,
            measure=measure if measure in ("nominal", "ordinal", "scale") else "",
            title=self.metadata.column_names_to_labels.get(name) or "",
            labels={self._said(code): label for code, label in labels.items()},
            missing=tuple(codes),
            missing_ranges=tuple(ranges),
            missing_labels={
                self._said(code) if self._is_letter(code) else code: label
                for code, label in labels.items()
                if self._is_letter(code)
                or _plain(code) in codes
                or (not isinstance(code, str) and any(low <= code <= high for low, high in ranges))
            },
            width=int(self.metadata.variable_storage_width[name])
            if self.format in ("sav", "zsav")
            else None,
        )

    def _is_letter(self, code: Any) -> bool:
        return self.format in _WITH_LETTERS and isinstance(code, str)

    def _said(self, code: Any) -> str:
        return f".{code}" if self._is_letter(code) else str(_plain(code))

    def letters(self, names: Sequence[str]) -> dict[str, list[str | None]]:
        """Letters that say why numbers are missing, by row of columns that have some."""
        if self.format not in _WITH_LETTERS:
            return {}
        if new := [name for name in names if name not in self._letters]:
            read: dict[str, list[str | None]] = {name: [] for name in new}
            for columns, meta in self._parts(new):
                for name in new:
                    if name in meta.missing_user_values:
                        read[name] += [
                            sys.intern(f".{value}") if isinstance(value, str) else None
                            for value in columns[name]
                        ]
                    else:
                        read[name] += [None] * len(columns[name])
            self._letters |= {
                name: letters if any(letters) else [] for name, letters in read.items()
            }
        return {name: found for name in names if (found := self._letters[name])}

    def load(self, names: Sequence[str], n_rows: int | None = None) -> pa.Table:
        """Read the named columns from the file; with `n_rows` these first rows alone."""
        import pyarrow as pa

        def batches() -> Iterator[pa.RecordBatch]:
            for columns, meta in self._parts(names, n_rows):
                yield from self._table(columns, meta, names).to_batches()

        held = within(batches(), self.name, self._limit, "Leave out columns that are not needed")
        tables = [pa.Table.from_batches([one]) for one in held]
        if not tables:
            return self._table({name: [] for name in names}, None, names)
        try:
            # A part without any value of a column has no type for it.
            return pa.concat_tables(tables, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            raise self._several_types(None) from None

    def _table(self, columns: Mapping[str, list[Any]], meta: Any, names: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        arrays = {}
        for name in names:
            values = columns[name]
            # Stata's and SAS's extended missing values arrive as letters among the numbers.
            if meta is not None and name in meta.missing_user_values:
                values = [None if isinstance(value, str) else value for value in values]
            try:
                arrays[name] = pa.array(values, from_pandas=True)
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                raise self._several_types(name) from None
        return pa.table(arrays)

    def _several_types(self, name: str | None) -> DataError:
        where = "" if name is None else f", column {name!r}"
        return DataError(
            f"{self.name}{where}: its values are of several types; convert the column to one type "
            "in the program that wrote the file."
        )

    def _parts(
        self, names: Sequence[str], n_rows: int | None = None
    ) -> Iterator[tuple[dict[str, list[Any]], Any]]:
        """Read columns part by part: the library takes room for all rows that a header tells.

        It refuses a file that has fewer.
        """
        widths = self.metadata.variable_storage_width
        texts = self.metadata.readstat_variable_types
        row = sum(
            _TEXT + int(widths[name]) if texts[name] == "string" else _NUMBER for name in names
        )
        size = max(1, int(memory_bytes(self._limit) / _PART / max(row, 1)))
        told, done = self.metadata.number_rows, 0
        wanted = n_rows if told is None or n_rows is not None else told
        while wanted is None or done < wanted:
            limit = size if wanted is None else min(size, wanted - done)
            columns, meta = self._read(
                usecols=list(names), output_format="dict", row_offset=done, row_limit=limit
            )
            found = len(columns[names[0]])
            yield columns, meta
            done += found
            if found < limit:
                break

    def _read(self, **options: Any) -> tuple[Any, Any]:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", ".*is duplicated", UserWarning)
                found: tuple[Any, Any] = self._reader(str(self._path), **options, **self._options)
                return found
        except UserWarning:
            raise DataError(
                f"{self.name} has several columns of one name. Rename them in the program that "
                "wrote the file."
            ) from None
        except UnicodeDecodeError:
            raise DataError(
                f"{self.name}: its text is not in the encoding the file states. Say how it is "
                f"encoded, for example {option('encoding', 'latin-1')}, or cp1252."
            ) from None
        except (*self._errors, ArithmeticError, LookupError, TypeError, ValueError):
            # A damaged file takes the reader to places that it is not prepared for.
            raise self._damaged() from None

    def _damaged(self) -> DataError:
        return DataError(
            f"{self.name} cannot be read as {READERS[self.format][0]}. The file may be damaged, "
            "encrypted or not of the format its name says, or its text needs an encoding: "
            f"{option('encoding', 'latin-1')}. Or write it again, for example as CSV."
        )


def _plain(code: Any) -> Any:
    return int(code) if isinstance(code, float) and code.is_integer() else code
