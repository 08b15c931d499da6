"""Opening files and frames: `read` turns them into Microdata."""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import shutil
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import IO, Any

from unikat.data.binning import parse_keys
from unikat.data.codebook import load_codebook
from unikat.data.design import Design
from unikat.data.engine import session
from unikat.data.levels import survey
from unikat.data.microdata import Microdata, columns_of
from unikat.data.sources import (
    CsvSource,
    FrameSource,
    IpcSource,
    ParquetSource,
    Source,
    check_columns,
)
from unikat.data.statistical import READERS, StatisticalSource
from unikat.data.table import Missing, check_missing
from unikat.errors import DataError, SpecError, suggest

_FORMATS = {
    "csv": "csv",
    "tsv": "tsv",
    "txt": "csv",
    "parquet": "parquet",
    "pq": "parquet",
    "arrow": "arrow",
    "feather": "arrow",
    "ipc": "arrow",
    **{name: name for name in READERS},
}
_NAMES = {"spss": "sav", "stata": "dta", "sas": "sas7bdat", **_FORMATS}
_MAGIC = {
    b"PAR1": "Parquet (format='parquet')",
    b"ARROW1": "Arrow (format='arrow')",
    b"FEA1": "an old Feather format, which is not read; write it again",
    b"\x1f\x8b": "gzip; add .gz to its name",
    b"PK\x03\x04": "a zip archive or an Excel workbook; unpack it or save it as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save it as CSV",
    b"$FL2": "SPSS (format='sav')",
    b"$FL3": "SPSS (format='zsav')",
    b"<stata_dta>": "Stata (format='dta')",
    b"HEADER RECORD***": "SAS transport (format='xpt')",
}
_DELIMITERS = ",;\t|"
_HEAD = 1 << 16


def read(
    source: Any,
    keys: str | Sequence[str],
    design: Design,
    *,
    codebook: str | PathLike[str] | Mapping[str, Any] | None = None,
    missing: Missing = "integrate",
    missing_values: object = (),
    delimiter: str | None = None,
    encoding: str | None = None,
    format: str | None = None,
    constant_keys: bool = False,
) -> Microdata:
    """Read microdata and find the levels of their keys.

    Values are taken as they are: codes in text keep their leading zeros, an empty string is
    missing, text such as ``NA`` or ``null`` is refused until it is named as a missing value or in
    the codebook, and so is text that differs from other text by surrounding blanks only, and a
    key's levels are the values that occur and those the codebook declares. Levels are in the order
    of the codebook if it declares them, of the categories if the column is categorical, else sorted
    (by number where all look like numbers). Neither categories nor value labels declare levels,
    since both often outlive the records that had them.

    Parameters
    ----------
    source
        A path: CSV or TSV (``.csv``, ``.tsv``, ``.txt``, also ``.gz``), Parquet (also a folder or
        a pattern such as ``"parts/*.parquet"``, in order of name), Arrow, Feather or IPC, SPSS,
        Stata, SAS (these with the extra ``stat``); or a pandas or polars DataFrame, a polars
        LazyFrame (collected), a pyarrow Table, a DuckDB relation (brought into memory, since its
        rows need not come in the same order twice).
    keys
        Key variables, as a list or separated by commas. Numbers can be grouped:
        ``"AGE:quantile(10)"`` makes ten groups of about as many records (fewer with ties),
        ``"AGE:width(5)"`` makes 0-4, 5-9, ..., and ``"INCOME:cut(0,1000,5000)"`` makes
        below 0, [0, 1000), [1000, 5000), and 5000 and above, so that nothing falls outside.
        Groups without records are not levels.
    design
        How the sample was drawn: the population size, and the columns of weights and strata.
    codebook
        Declared levels, labels and missing codes; see
        :func:`unikat.data.codebook.load_codebook`. Levels and labels concern keys that are not
        grouped; missing codes all.
    missing
        What a missing key is: ``"integrate"`` (unknown, integrated over), ``"level"`` (a level of
        its own), ``"wildcard"`` (matches every level). NaN counts as missing.
    missing_values
        Further codes that mean missing, such as ``[-1]`` for all keys, or ``{"AGE": [-1, 999]}``.
    delimiter
        Character between fields of a CSV file; found out from the header if None.
    encoding
        Encoding of a CSV or statistical file; UTF-8 if None (byte order marks are understood),
        respectively what the statistical file states.
    format
        ``"csv"``, ``"tsv"``, ``"parquet"``, ``"arrow"``, ``"sav"``, ``"zsav"``, ``"dta"``,
        ``"sas7bdat"`` or ``"xpt"``, if the name of the file does not say it.
    constant_keys
        Whether a key may have the same level in every row, as in a register of one sex; in a
        sample it carries no information and is refused.

    Returns
    -------
    Microdata
        Rows in their order, not yet counted.

    Raises
    ------
    DataError
        If the file or frame cannot be read, or a key cannot be used.
    SpecError
        If an option is wrong.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"SEX": ["m", "f", "f"], "AGE": [31, 44, 68]})
    >>> microdata = read(frame, "SEX, AGE:cut(40,65)", Design(population_size=100))
    >>> [key.labels for key in microdata.keys]
    [('f', 'm'), ('< 40', '40-64', '>= 65')]
    """
    check_missing(missing)
    if not isinstance(design, Design):
        raise SpecError("design must be a Design, such as Design(population_size=1_000_000).")
    entries = load_codebook(codebook)
    opened = _open(source, delimiter=delimiter, encoding=encoding, format=format)
    specs = parse_keys(keys, opened.columns, opened.name)
    names = [spec.name for spec in specs]
    codes = _missing_values(missing_values, names, opened)
    _check_design(design, opened)
    with session(opened.files, name=opened.name) as connection:
        opened.attach(connection, columns_of(names, design))
        n_records, coded = survey(
            connection,
            opened,
            specs,
            codebook=entries,
            missing_values=codes,
            missing=missing,
            constant_keys=constant_keys,
        )
    design.check(n_records)
    return Microdata(
        name=opened.name,
        keys=tuple(column.key for column in coded),
        n_records=n_records,
        n_missing=tuple(column.n_missing for column in coded),
        design=design,
        missing=missing,
        _source=opened,
        _coded=tuple(coded),
    )


def _check_design(design: Design, source: Source) -> None:
    """Refuse columns of the design that the data do not have."""
    for name in design.columns:
        if name not in source.columns:
            raise DataError(
                f"{source.name} has no column {name!r}, which the design names."
                + suggest(name, source.columns)
            )


def _missing_values(
    given: object, names: Sequence[str], source: Source
) -> dict[str, tuple[object, ...]]:
    if not isinstance(given, Mapping):
        given = dict.fromkeys(names, given)
    result = {}
    for name, codes in given.items():
        if name not in source.columns:
            raise SpecError(
                f"missing_values names {name!r}, which is no column of {source.name}."
                + suggest(str(name), source.columns)
            )
        if isinstance(codes, str) or not isinstance(codes, (Sequence, set, frozenset)):
            codes = (codes,)
        result[str(name)] = tuple(codes)
    return result


def _open(
    source: Any, *, delimiter: str | None, encoding: str | None, format: str | None
) -> Source:
    if isinstance(source, (str, PathLike)):
        return _open_path(Path(source), delimiter=delimiter, encoding=encoding, format=format)
    return _open_frame(source)


def _open_frame(source: Any) -> Source:
    import duckdb
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    name = "The data frame"
    if isinstance(source, duckdb.DuckDBPyRelation):
        name = "The relation"
        frame = nw.from_native(source.to_arrow_table(), eager_only=True)
        return FrameSource(frame, kind="relation", name=name)
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    # Narwhals refuses repeated names in words of its own, and takes names that are no strings.
    if isinstance(source, pa.Table):
        check_columns(source.column_names, name)
    elif type(source).__module__.startswith("pandas") and hasattr(source, "columns"):
        unnamed = sum(not isinstance(column, str) for column in source.columns)
        if unnamed:
            raise DataError(
                f"{name} has {unnamed} column name(s) that are not strings; name the columns, "
                "for example frame.columns = frame.columns.astype(str)."
            )
        check_columns(list(source.columns), name)
    frame = nw.from_native(source, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        return FrameSource(frame.collect(), kind="lazy", name=name)
    if isinstance(frame, nw.DataFrame):
        return FrameSource(frame, kind="eager", name=name)
    raise DataError(
        f"Data of type {type(source).__name__} cannot be read; give a path, a pandas or polars "
        "data frame, a pyarrow table or a DuckDB relation."
    )


def _open_path(
    path: Path, *, delimiter: str | None, encoding: str | None, format: str | None
) -> Source:
    kind = _named_format(format)
    if path.is_dir():
        return _open_parts(sorted(path.rglob("*.parquet")), f"The folder {path.name}", kind)
    if not path.exists() and any(char in str(path) for char in "*?["):
        parts = sorted(Path(part) for part in glob.glob(str(path), recursive=True))
        return _open_parts(parts, f"The pattern {path.name}", kind)
    if not path.is_file():
        raise DataError(f"There is no file {path}.{_similar(path)} Check the path.")
    suffixes = [suffix.lower().lstrip(".") for suffix in path.suffixes]
    if suffixes and suffixes[-1] == "gz":
        suffixes.pop()
    kind = kind or _FORMATS.get(suffixes[-1] if suffixes else "")
    if kind is None:
        raise SpecError(
            f"The name {path.name} does not say its format; name it with format=, one of "
            f"{', '.join(sorted(set(_FORMATS.values())))}. An Excel workbook is to be saved as CSV."
        )
    head = _head(path)
    if not head:
        raise DataError(f"{path.name} is empty (0 bytes); give a file with a header and records.")
    _check_magic(path, kind, head)
    if kind in ("csv", "tsv"):
        tab = "\t" if kind == "tsv" else None
        return _open_csv(path, delimiter=delimiter or tab, encoding=encoding)
    if kind == "parquet":
        return ParquetSource([path], path.name)
    if kind == "arrow":
        return _open_ipc(path)
    return StatisticalSource(path, kind, encoding)


def _named_format(format: str | None) -> str | None:
    if format is None:
        return None
    kind = _NAMES.get(format.lower().lstrip("."))
    if kind is None:
        raise SpecError(
            f"format={format!r} is not known; use one of "
            f"{', '.join(sorted(set(_FORMATS.values())))}.{suggest(format, _NAMES)}"
        )
    return kind


def _open_parts(parts: list[Path], name: str, kind: str | None) -> Source:
    if not parts:
        raise DataError(f"{name} holds no Parquet files; check the path.")
    strange = [part for part in parts if _FORMATS.get(part.suffix.lower().lstrip(".")) != "parquet"]
    if kind not in (None, "parquet") or (strange and kind is None):
        raise DataError(
            f"{name} holds {len(strange)} file(s) that are not Parquet; several files can be read "
            "together only as Parquet."
        )
    return ParquetSource(parts, name)


def _similar(path: Path) -> str:
    try:
        return suggest(path.name, (other.name for other in path.parent.iterdir()))
    except OSError:
        return f" The folder {path.parent} is not there either."


def _head(path: Path) -> bytes:
    """First bytes of the file, unpacked."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if path.suffix.lower() == ".gz":
            with gzip.open(path) as file:
                head = file.read(_HEAD)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(f"{path.name} is not a complete gzip file, as its name says.") from None
    except OSError as error:
        raise DataError(f"{path.name} cannot be opened ({error.strerror}).") from None
    return head


def _check_magic(path: Path, kind: str, head: bytes) -> None:
    expected = {"parquet": b"PAR1", "arrow": b"ARROW1"}.get(kind)
    found = next((what for magic, what in _MAGIC.items() if head.startswith(magic)), None)
    text = kind in ("csv", "tsv")
    if (text and found) or (expected and not head.startswith(expected)):
        raise DataError(
            f"{path.name} is to be read as {kind}, but its content is not: it looks like "
            f"{found or 'something else'}. Name the right format with format=, or rename the file."
        )


def _open_ipc(path: Path) -> Source:
    import pyarrow as pa
    import pyarrow.feather as feather

    try:
        return IpcSource(path, feather.read_table(path, memory_map=True))
    except (pa.ArrowException, OSError):
        raise DataError(
            f"{path.name} cannot be read as an Arrow file; it may be damaged. Write it again."
        ) from None


def _open_csv(path: Path, *, delimiter: str | None, encoding: str | None) -> Source:
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise SpecError(
            f"delimiter={delimiter!r} must be one character, such as ',' or ';' or '\\t'."
        )
    text, chosen = path, encoding or _mark(_head(path))
    try:
        plain = codecs.lookup(chosen).name in ("utf-8", "utf-8-sig", "ascii")
    except LookupError:
        raise SpecError(
            f"encoding={encoding!r} is not known; use for example 'utf-8', 'latin-1' or 'cp1252'."
        ) from None
    if plain and b"\0" in _head(path):
        raise DataError(
            f"{path.name} is to be read as CSV but holds binary data; it is another format, or in "
            "an encoding such as UTF-16 (encoding='utf-16')."
        )
    scratch = Path(tempfile.mkdtemp(prefix="unikat-"))
    try:
        if not plain:
            # DuckDB would download an extension for most encodings.
            text = scratch / "utf8.csv"
            _transcode(path, text, chosen)
        columns, found = _header(text, path.name, delimiter)
        return CsvSource(path, text=text, columns=columns, delimiter=found, scratch=scratch)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def _mark(head: bytes) -> str:
    """Encoding told by a byte order mark, else UTF-8."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return "utf-8"


def _text_of(path: Path, encoding: str) -> IO[str]:
    """Open a text file, gzipped or not, with its line ends as they are."""
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding=encoding, newline="")
    return path.open(encoding=encoding, newline="")


def _transcode(path: Path, target: Path, encoding: str) -> None:
    try:
        with (
            _text_of(path, encoding) as lines,
            target.open("w", encoding="utf-8", newline="") as out,
        ):
            shutil.copyfileobj(lines, out, 1 << 20)
    except UnicodeError:
        raise DataError(
            f"{path.name} is not in the encoding {encoding}; give the one it was saved in, for "
            "example encoding='latin-1', or save it as UTF-8."
        ) from None


def _header(text: Path, name: str, delimiter: str | None) -> tuple[list[str], str]:
    """Names of the columns, and the delimiter: the one that splits the header most."""
    rows: dict[str, list[str]] = {}
    try:
        with _text_of(text, "utf-8-sig") as lines:
            for char in delimiter or _DELIMITERS:
                lines.seek(0)
                rows[char] = next(csv.reader(lines, delimiter=char), [])
    except UnicodeDecodeError:
        raise DataError(
            f"{name}, first lines: the text is not UTF-8. Say how it is encoded, for example "
            "encoding='latin-1' or encoding='cp1252', or save it as UTF-8."
        ) from None
    except csv.Error:
        raise DataError(f"{name}: the header line is not that of a CSV file.") from None
    found = max(rows, key=lambda char: len(rows[char]))
    names = [column.strip() for column in rows[found]]
    if not any(names):
        raise DataError(f"{name} begins with an empty line; the first line must name the columns.")
    return names, found
