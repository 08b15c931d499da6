"""Paths and formats of files: what their names and first bytes tell."""

from __future__ import annotations

import gzip
import stat
import zlib
from pathlib import Path
from typing import Literal

from unikat.data.statistical import READERS
from unikat.errors import (
    DataError,
    SpecError,
    UnikatError,
    brief,
    has_surrogates,
    may_be_address,
    option,
    suggest,
)
from unikat.spec.addresses import no_address

FORMATS = {
    "csv": "csv",
    "tsv": "tsv",
    "txt": "csv",
    "parquet": "parquet",
    "pq": "parquet",
    "arrow": "arrow",
    "feather": "arrow",
    "ipc": "arrow",
    "xlsx": "xlsx",
    "xlsm": "xlsx",
    "ods": "ods",
    "sqlite": "sqlite",
    "sqlite3": "sqlite",
    "db": "sqlite",
    "duckdb": "duckdb",
    "rds": "rds",
    "rdata": "rdata",
    "rda": "rdata",
    **{name: name for name in READERS},
}
_NAMES = {"spss": "sav", "stata": "dta", "sas": "sas7bdat", "excel": "xlsx", **FORMATS}
SHEETS = ("xlsx", "ods")
DATABASES = ("sqlite", "duckdb")
TABLES = (*DATABASES, "rdata")
_MAGIC = {
    b"PAR1": f"Parquet: {option('format', 'parquet')}",
    b"ARROW1": f"Arrow: {option('format', 'arrow')}",
    b"FEA1": "an old Feather format, which is not read; write it again",
    b"\x1f\x8b": "gzip; add .gz to its name",
    b"PK\x03\x04": f"a spreadsheet: {option('format', 'xlsx')}, or ods. Or a zip archive; unpack "
    "it",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook, or one with a password; save it as .xlsx without "
    "one",
    b"SQLite format 3\0": f"SQLite: {option('format', 'sqlite')}",
    b"$FL2": f"SPSS: {option('format', 'sav')}",
    b"$FL3": f"SPSS: {option('format', 'zsav')}",
    b"<stata_dta>": f"Stata: {option('format', 'dta')}",
    b"HEADER RECORD***": f"SAS transport: {option('format', 'xpt')}",
}
_BEGINNINGS = {
    "parquet": b"PAR1",
    "arrow": b"ARROW1",
    "xlsx": b"PK",
    "ods": b"PK",
    "sqlite": b"SQLite format 3\0",
}
_HEAD = 1 << 16


def named_format(format: str | None) -> str | None:
    """Format that the user names, by its usual name (SpecError)."""
    if format is None:
        return None
    kind = _NAMES.get(format.lower().lstrip("."))
    if kind is None:
        raise SpecError(
            f"{option('format', brief(format))} is not known; use one of "
            f"{', '.join(sorted(set(FORMATS.values())))}.{suggest(format, _NAMES)}"
        )
    return kind


def format_of(path: Path) -> str | None:
    """Format of a file by its name."""
    suffixes = [suffix.lower().lstrip(".") for suffix in path.suffixes]
    packed = suffixes[-1:] == ["gz"]
    ending = suffixes[:-1] if packed else suffixes
    return FORMATS.get(ending[-1]) if ending else None


def checked_format(path: Path, kind: str | None, *, name: str | None = None) -> str:
    """Format of a file, which is not empty and begins as such files do."""
    kind, name = kind or format_of(path), name or brief(path.name)
    if kind is None:
        raise SpecError(
            f"The name {name} does not say its format; name it with {option('format')}, one of "
            f"{', '.join(sorted(set(FORMATS.values())))}. Save workbooks of other kinds (.xls) as "
            ".xlsx."
        )
    head = head_of(path, name)
    if not head:
        raise DataError(f"{name} is empty (0 bytes); give a file with a header and records.")
    if path.suffix.lower() == ".gz" and kind not in ("csv", "tsv"):
        raise DataError(f"{name} is packed, which only text files may be; unpack it.")
    is_duckdb = head[8:12] == b"DUCK"
    # Both kinds of databases are often called .db.
    if kind == "sqlite" and is_duckdb:
        return "duckdb"
    found = next((what for magic, what in _MAGIC.items() if head.startswith(magic)), None)
    if is_duckdb:
        found = f"DuckDB: {option('format', 'duckdb')}"
    expected = _BEGINNINGS.get(kind)
    wrong = not is_duckdb if kind == "duckdb" else expected and not head.startswith(expected)
    if wrong or (kind in ("csv", "tsv") and found):
        raise DataError(
            f"{name} is to be read as {kind}, but its content is not: it looks like "
            f"{found or 'something else'}. Name the right format with {option('format')}, or "
            "rename the file."
        )
    return kind


def head_of(path: Path, name: str) -> bytes:
    """First bytes of the file, unpacked; messages call it `name`."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if path.suffix.lower() == ".gz":
            with gzip.open(path) as file:
                head = file.read(_HEAD)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(f"{name} is not a complete gzip file, as its name says.") from None
    except OSError as error:
        raise DataError(f"{name} cannot be opened ({error.strerror}).") from None
    return head


def check_packed(path: Path, name: str) -> None:
    """Refuse a damaged gzip file (DataError): DuckDB does not compare its checksum."""
    try:
        with gzip.open(path) as file:
            while file.read(1 << 20):
                pass
    except (EOFError, OSError, zlib.error):
        raise DataError(
            f"{name} is not a complete gzip file, as its name says; it is damaged. Pack it again."
        ) from None


def what_is(path: Path) -> Literal["file", "folder"] | None:
    """Tell what a path leads to, None if to nothing."""
    if has_surrogates(str(path.absolute())):
        raise DataError(
            f"The path {brief(str(path))} is not UTF-8 text; rename the file or the folder."
        )
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        raise DataError(
            f"The path {brief(str(path))} holds a character that no path may hold (NUL)."
        ) from None
    except OSError as error:
        raise DataError(f"{brief(str(path))} cannot be opened ({error.strerror}).") from None
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise DataError(
            f"{brief(str(path))} is a device or a pipe; write the data to a file and name that."
        )
    return "folder" if stat.S_ISDIR(mode) else "file"


def no_file(path: Path) -> UnikatError:
    """Say that there is no such file, and suggest one of the same kind with a similar name.

    What looks like the address of a database is told as that, and not quoted.
    """
    if may_be_address(path):
        return no_address(
            "There is no file of this name, and as the address of a database it cannot be "
            "understood"
        )
    name = brief(str(path))
    kind = format_of(path)
    try:
        others = [
            other.name
            for other in path.parent.iterdir()
            if format_of(other) is not None and kind in (None, format_of(other))
        ]
    except (FileNotFoundError, NotADirectoryError):
        folder = brief(str(path.parent))
        return DataError(
            f"There is no file {name}. The folder {folder} is not there either. Check the path."
        )
    except OSError:
        others = []
    return DataError(f"There is no file {name}.{suggest(path.name, others)} Check the path.")
