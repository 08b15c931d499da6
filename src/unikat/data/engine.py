"""DuckDB sessions that are bounded in memory, private on disk, and cut off from everything else."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from unikat.errors import DataError, SpecError, option
from unikat.files.scratch import scratch_folder
from unikat.interrupts import stopped_by

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

DEFAULT_MEMORY = "1GB"
_SIZE = re.compile(r"\s*[0-9.]")
"""How a size begins: without a limit is what DuckDB takes `-1GB` and `none` for."""


def quoted(text: str) -> str:
    """SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def literals(texts: Sequence[str]) -> str:
    """SQL list of string literals."""
    return "[" + ", ".join(map(quoted, texts)) + "]"


def pattern(path: Path) -> str:
    """Pattern that fits this file alone: DuckDB takes every path as a pattern."""
    return re.sub(r"[*?\[]", r"[\g<0>]", str(path))


@contextmanager
def session(
    files: Sequence[Path],
    *,
    name: str,
    memory_limit: str = DEFAULT_MEMORY,
    threads: int | None = None,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB connection that may read `files` and write to its own scratch folder only.

    The scratch folder is readable by its owner alone, lies where `tempfile` puts it (set TMPDIR
    to choose the disk), and is deleted at the end. DuckDB's errors leave as DataError without
    the values they quote.

    Parameters
    ----------
    memory_limit
        DuckDB's own limit, such as ``"1GB"``; beyond it, it spills to the scratch folder.
    threads
        Number of threads; None takes all processors.
    """
    import duckdb

    if threads is not None and threads < 1:
        raise SpecError(f"threads must be at least 1; got {threads}.")
    with scratch_folder() as scratch, translated(name):
        work = scratch / "work.duckdb"
        (scratch / "spill").mkdir(mode=0o700)
        connection = duckdb.connect(
            str(work),
            # Extensions would be fetched from the internet.
            config={
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "temp_directory": str(scratch / "spill"),
                "preserve_insertion_order": True,
                # A table could otherwise be a variable of Python.
                "python_enable_replacements": False,
            },
        )
        if os.name == "posix":
            # It stays open, and is gone when the process is, however it ends.
            work.unlink()
        try:
            _limit_memory(connection, memory_limit)
            if threads is not None:
                connection.execute(f"SET threads = {int(threads)}")
            _hide_progress(connection)
            # The order matters: what is allowed must be named before access is closed.
            connection.execute(f"SET allowed_directories = {literals([str(scratch)])}")
            connection.execute(f"SET allowed_paths = {literals(_spellings(files))}")
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            with stopped_by(connection.interrupt):
                yield connection
        finally:
            connection.close()


def _limit_memory(connection: duckdb.DuckDBPyConnection, memory_limit: str) -> None:
    import duckdb

    try:
        if not _SIZE.match(str(memory_limit)):
            raise ValueError
        connection.execute(f"SET memory_limit = {quoted(str(memory_limit))}")
    except (duckdb.Error, RuntimeError, ValueError):
        # RuntimeError: a text that is not UTF-8.
        raise SpecError(
            f"The memory limit {memory_limit!r} is not a size; write a number and a unit, "
            f"such as {option('memory_limit', '2GB')}."
        ) from None


def memory_bytes(memory_limit: str) -> float:
    """Bytes of a memory limit, as DuckDB understands it.

    Examples
    --------
    >>> round(memory_bytes("1GB") / 1e9, 2)
    1.0
    """
    import duckdb

    with duckdb.connect() as connection:
        _limit_memory(connection, memory_limit)
        said = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    number, unit = str(said[0][0]).split()
    return float(number) * 1024.0 ** ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB").index(unit)


def too_large(name: str, memory_limit: str, why: str, remedy: str) -> DataError:
    """Say that what is brought into memory needs more than the limit."""
    return DataError(
        f"{name} needs more memory than the {memory_limit} allowed: {why}. {remedy}, or raise the "
        f"limit with {option('memory_limit', '4GB')}."
    )


def within(
    batches: Iterable[pa.RecordBatch],
    name: str,
    memory_limit: str,
    remedy: str = "Make a table or view of fewer columns",
) -> Iterator[pa.RecordBatch]:
    """Pass batches on as they come, until they need more memory than the limit (DataError)."""
    held, most = 0, memory_bytes(memory_limit)
    for batch in batches:
        held += batch.nbytes
        if held > most:
            why = "its rows are brought into memory, and there are more"
            raise too_large(name, memory_limit, why, remedy)
        yield batch


def _hide_progress(connection: duckdb.DuckDBPyConnection) -> None:
    """Switch DuckDB's own bar off, where there is one."""
    shown = connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()
    # In a notebook without ipywidgets there is none, and DuckDB refuses any setting.
    if shown[0][0]:
        connection.execute("SET enable_progress_bar = false")


def _spellings(files: Sequence[Path]) -> list[str]:
    return list(dict.fromkeys(text for file in files for text in (str(file), pattern(file))))


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Turn DuckDB's errors, which quote lines of the file, into messages without values."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException:
        raise DataError(
            f"{name} needs more memory than allowed, even with spilling to disk. Raise the limit "
            f"with {option('memory_limit', '4GB')}, use fewer threads or fewer levels, or set "
            "TMPDIR to a disk with more room."
        ) from None
    except duckdb.Error as error:
        raise DataError(_explain(name, str(error), type(error).__name__)) from None


def _explain(name: str, message: str, kind: str) -> str:
    if kind == "PermissionException":
        return (
            f"{name} cannot be read: a view or a query asks for another file or for the network, "
            "and only the file that was named is read. Copy what it needs into a table of that "
            "file."
        )
    line = re.search(r"Line: (\d+)", message)
    where = f"{name}, line {line[1]}" if line else name
    if re.search(r"utf-?8|unicode", message, re.IGNORECASE):
        return (
            f"{where}: the text is not UTF-8. Say how it is encoded, for example "
            f"{option('encoding', 'latin-1')}, or cp1252, or save it as UTF-8."
        )
    found = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message)
    if found:
        return (
            f"{where}: the header names {found[1]} columns but the line has {found[2]} fields. "
            "Check the line, or give the delimiter if another one is used: "
            f"{option('delimiter', ';')}."
        )
    if "unterminated quote" in message:
        return (
            f"{where}: a quotation mark opens and does not close. Double the quotation marks "
            "inside quoted fields, or remove the stray one."
        )
    if "maximum line size" in message.lower():
        return f"{where}: a line is too long for a data file; is a quotation mark left open?"
    if re.search(r"no space left|failed to offload|could not write", message, re.IGNORECASE):
        return (
            f"{name}: the disk that holds temporary files is full; free some room or set TMPDIR "
            "to another disk."
        )
    if "column with name" in message.lower() or "schema mismatch" in message.lower():
        return f"{name}: its files do not all have the same columns; read them one at a time."
    return (
        f"{where} cannot be read ({kind}). The file may be damaged or not of the format its name "
        f"says; write it again from its source, or name the format: {option('format', 'csv')}."
    )
