"""Writing records in the format of the file that was read.

CSV, Parquet, Arrow, SPSS, Stata and SAS transport files are written as such, with what the input
says of its columns: the delimiter and the encoding, the schema, the labels and codes that mean
missing. Frames and all other formats (workbooks, databases, R, sas7bdat) become Parquet.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unikat.data.codebook import clipped
from unikat.data.letters import is_letter
from unikat.data.sources import Source
from unikat.data.statistical import StatisticalSource
from unikat.data.text_files import TextSource
from unikat.data.texts import is_text
from unikat.errors import DataError, OutputError, SpecError, option
from unikat.files.writing import create, finish, write_bytes

if TYPE_CHECKING:
    import pyarrow as pa

_STATISTICAL = ("sav", "zsav", "dta", "xpt")
_LARGEST_WHOLE = 2_147_483_620
"""Of the type long of Stata; what is above means missing there."""
_NUMBERS = re.compile(r"F(?P<width>\d+)(\.(?P<decimals>\d+))?")
_LONGEST_LABEL = {"sav": 120, "zsav": 120, "dta": 32_000}
"""Bytes of the label of a code."""


def ending(source: Source) -> str:
    """Return the ending of the names of files in the format of a source, such as ``.csv.gz``."""
    if isinstance(source, TextSource):
        suffixes = source.paths[0].suffixes
        packed = suffixes[-1:] == [".gz"]
        return "".join(suffixes[-2:] if packed else suffixes[-1:]) or ".csv"
    if source.format == "arrow":
        return source.paths[0].suffix or ".arrow"
    if isinstance(source, StatisticalSource) and source.format in _STATISTICAL:
        return f".{source.format}"
    return ".parquet"


def write_records(
    path: Path,
    table: pa.Table,
    source: Source,
    labels: Mapping[str, Mapping[Any, str]] | None = None,
    *,
    letters: Mapping[str, Sequence[str | None]] | None = None,
    sampled: bool = False,
    titles: Mapping[str, str] | None = None,
) -> None:
    """Write a new file of records in the format of a source.

    Parameters
    ----------
    path, table
        Where, and what.
    source
        What the records were made of; a statistical file says more of its columns.
    labels
        Of columns that the source does not have so: what codes mean, in statistical files.
    letters
        By column: letters of Stata such as ``.a``, which say why a record has no value.
    sampled
        The records are some of the source's: labels of values that none of them has are left out,
        since only a record that is held back may have them.
    titles
        Labels of columns that the source does not have, in statistical files.
    """
    if isinstance(source, TextSource):
        _write_csv(path, table, source)
    elif source.format == "arrow":
        _write_arrow(path, table)
    elif isinstance(source, StatisticalSource) and source.format in _STATISTICAL:
        _write_statistical(path, table, source, labels or {}, letters or {}, sampled, titles or {})
    else:
        _write_parquet(path, table)


def write_new(path: Path, table: pa.Table, titles: Mapping[str, str]) -> None:
    """Write a new file of columns that no source has, in the format that its ending names.

    Parameters
    ----------
    path, table
        Where, and what.
    titles
        Labels of the columns, in files of Stata and SPSS.
    """
    import pyarrow.csv

    suffix = path.suffix.lower()
    if suffix == ".csv":
        with create(path) as file:
            pyarrow.csv.write_csv(table, file)
            finish(file)
        return
    if suffix not in (".dta", ".sav", ".zsav"):
        raise OutputError(f"{path.name} has no ending that is written: .csv, .dta or .sav.")
    try:
        import pyreadstat
    except ImportError:
        raise SpecError(
            f"{path.name} needs the package pyreadstat: install it with  "
            "pip install 'unikat[stat]',  or write CSV."
        ) from None
    write_bytes(path, b"")
    frame, labels = table.to_pandas(), [titles.get(name) for name in table.column_names]
    if suffix == ".dta":
        pyreadstat.write_dta(frame, path, column_labels=labels)
    else:
        pyreadstat.write_sav(
            frame,
            path,
            column_labels=labels,
            compress=suffix == ".zsav",
            variable_format=_shown(table, table.column_names),
        )
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _write_csv(path: Path, table: pa.Table, source: TextSource) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=source.delimiter, lineterminator="\n")
    writer.writerow(table.column_names)
    columns = [column.to_pylist() for column in table.columns]
    writer.writerows(zip(*(["" if v is None else v for v in c] for c in columns), strict=True))
    try:
        content = text.getvalue().encode(source.encoding)
    except UnicodeEncodeError:
        raise DataError(
            f"A level of the codebook cannot be written in the encoding of the input, "
            f"{source.encoding}; save the input as UTF-8, {option('encoding', 'utf-8')}."
        ) from None
    if path.suffix.lower() == ".gz":
        # The same records give the same file, at whatever time.
        content = gzip.compress(content, mtime=0)
    write_bytes(path, content)


def _write_arrow(path: Path, table: pa.Table) -> None:
    import pyarrow as pa

    with create(path) as file:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        finish(file)


def _write_parquet(path: Path, table: pa.Table) -> None:
    import pyarrow.parquet as pq

    with create(path) as file:
        pq.write_table(table, file, compression="zstd")
        finish(file)


def _write_statistical(
    path: Path,
    table: pa.Table,
    source: StatisticalSource,
    labels: Mapping[str, Mapping[Any, str]],
    letters: Mapping[str, Sequence[str | None]],
    sampled: bool,
    titles: Mapping[str, str],
) -> None:
    """Write with pyreadstat, which opens the file itself."""
    import pyreadstat

    meta = source.metadata
    names = table.column_names

    def of(mapping: Any) -> dict[str, Any]:
        return {n: mapping[n] for n in names if n in (mapping or {})}

    # A date became the name of a period: the format of dates cannot show it.
    texts = {n for n in names if is_text(table[n].type)}
    texts = {n for n in texts if meta.readstat_variable_types.get(n, "string") != "string"}
    formats = {n: one for n, one in of(meta.original_variable_types).items() if n not in texts}
    own = of(meta.variable_value_labels)
    if sampled:
        own = {name: _labels_shown(table, source, name, said) for name, said in own.items()}
    shared: dict[str, Any] = {
        "file_label": meta.file_label or "",
        "column_labels": [
            titles.get(name) or meta.column_names_to_labels.get(name) for name in names
        ],
    }
    value_labels = (
        {
            name: {
                # The library takes letters without the point.
                (code[1:] if source.keeps_letters and is_letter(code) else code): clipped(
                    label, _LONGEST_LABEL[source.format]
                )
                for code, label in said.items()
            }
            for name, said in (own | dict(labels)).items()
            if said
        }
        if source.format in _LONGEST_LABEL
        else {}
    )
    write_bytes(path, b"")
    frame = table.to_pandas()
    if source.format in ("sav", "zsav"):
        for name in [name for name in names if name not in titles]:
            # A column of text is as wide as its longest value.
            width = source.declared(name).width
            if width is not None and is_text(table[name].type):
                text = frame[name].iloc[0]
                text = text if isinstance(text, str) else ""
                frame[name] = frame[name].astype(object)
                frame.loc[frame.index[0], name] = text + " " * (width - len(text.encode()))
        pyreadstat.write_sav(
            frame,
            path,
            compress=source.format == "zsav",
            variable_value_labels=value_labels,
            missing_ranges=of(meta.missing_ranges),
            variable_measure=of(meta.variable_measure),
            variable_display_width=of(meta.variable_display_width),
            variable_format={
                name: _wide_enough(form, labels.get(name, {})) for name, form in formats.items()
            }
            | _shown(table, list(titles)),
            **shared,
        )
    elif source.format == "dta":
        for name, kind in meta.readstat_variable_types.items():
            # The library reads whole numbers as fractions, and writes these in eight bytes each.
            if kind.startswith("int") and name in names and name not in letters:
                frame[name] = _whole(frame[name])
        for name, found in letters.items():
            letter = np.array([one and one[1:] for one in found], object)
            kept = frame[name].isna() & (letter != None)  # noqa: E711  # element by element
            frame[name] = frame[name].astype(object).mask(kept, letter)
        pyreadstat.write_dta(
            frame,
            path,
            variable_value_labels=value_labels,
            missing_user_values={
                n: sorted({one[1:] for one in found if one}) for n, found in letters.items()
            },
            variable_format=formats,
            **shared,
        )
    else:
        pyreadstat.write_xport(frame, path, **shared)
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _labels_shown(
    table: pa.Table, source: StatisticalSource, name: str, said: Mapping[Any, str]
) -> dict[Any, str]:
    """Labels of the values that a column has, and of those that mean missing."""
    import pyarrow.compute as pc

    kept = {*pc.unique(table[name]).to_pylist(), *source.declared(name).missing_labels}
    return {
        code: label
        for code, label in said.items()
        if code in kept or (isinstance(code, str) and is_letter(code))
    }


def _wide_enough(form: str, codes: Iterable[Any]) -> str:
    """A format of numbers of SPSS that shows all codes; it shows stars where one is too long.

    Examples
    --------
    >>> _wide_enough("F2.0", [1, 165]), _wide_enough("F8.2", [165]), _wide_enough("A6", ["G1"])
    ('F3.0', 'F8.2', 'A6')
    """
    found = _NUMBERS.fullmatch(form)
    if found is None:
        return form
    decimals = int(found["decimals"] or 0)
    needed = max((len(str(int(code))) for code in codes), default=0) + (decimals and decimals + 1)
    return f"F{max(int(found['width']), needed)}.{decimals}"


def _shown(table: pa.Table, names: Sequence[str]) -> dict[str, str]:
    """Formats of SPSS in which small fractions, such as risks, are not shown as 0.00."""
    import pyarrow as pa

    return {name: "F12.5" for name in names if pa.types.is_floating(table[name].type)}


def _whole(column: Any) -> Any:
    """A column of whole numbers as such; as it is, if there is one that Stata cannot hold so."""
    if column.dtype.kind not in "if" or column.abs().max() > _LARGEST_WHOLE:
        return column
    return column.astype("Int32")


WRITTEN = (
    "CSV, Parquet, Arrow, SPSS (.sav, .zsav), Stata (.dta) and SAS transport files (.xpt) are "
    "written in the format of the input, others as Parquet"
)
"""What `ending` says, in words."""


def has_own_format(source: Source) -> bool:
    """Whether files of the format of a source can be written."""
    return source.format in ("csv", "tsv", "parquet", "arrow", *_STATISTICAL)
