"""Excel and OpenDocument spreadsheets, read with python-calamine."""

from __future__ import annotations

import posixpath
import re
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from xml.etree import ElementTree
from xml.parsers import expat

from unikat.data.engine import memory_bytes, too_large
from unikat.data.names import choose_table
from unikat.data.numbers import as_text
from unikat.data.sources import TableSource
from unikat.errors import DataError, SpecError, brief

if TYPE_CHECKING:
    import pyarrow as pa

BYTES_A_CELL = 40
"""Memory that a cell takes, empty ones between others included."""
BYTES_A_BYTE = 2
"""Memory that a byte of the unpacked workbook takes."""
BYTES_A_LETTER = 6.5
"""Memory that a byte of the text of a cell takes, which every cell has for itself."""
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    expat.ExpatError,
    ElementTree.ParseError,
    EOFError,
    KeyError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
)
"""What the standard library raises for files that are no whole workbooks."""


def open_spreadsheet(path: Path, format: str, sheet: str | None, memory_limit: str) -> TableSource:
    """Open one sheet of a workbook: names in its first row that is not empty, a row per record.

    Empty cells are missing. A column of numbers alone holds numbers, whole ones as integers. Where
    numbers and text are mixed all are taken as text. Columns without a name are left out, as are
    empty rows at the end.
    """
    name = brief(path.name)
    try:
        import python_calamine as calamine
    except ImportError:
        raise SpecError(
            f"{path.name} is a spreadsheet, which needs the package python-calamine: install "
            "it with  pip install 'unikat[spreadsheet]',  or save the sheet as CSV."
        ) from None
    room = _Room(name, memory_limit)
    try:
        unpacked = room.unpack(path)
        if format == "ods":
            # Opening it reads all its sheets.
            tables = _OdsScan(path)
            room.check(unpacked, tables)
        book = calamine.load_workbook(str(path))
        sheets = [
            one.name for one in book.sheets_metadata if one.typ == calamine.SheetTypeEnum.WorkSheet
        ]
        chosen = choose_table(sheets, sheet, what="sheet", file=name)
        if format == "ods":
            errors = tables.errors_of[chosen]
        else:
            scanned = _XlsxScan(path, chosen)
            room.check(unpacked, scanned)
            errors = scanned.errors
        cells = book.get_sheet_by_name(chosen)
    except calamine.PasswordError:
        raise DataError(f"{name} is protected by a password; save it without one.") from None
    except (calamine.CalamineError, *_BROKEN):
        raise DataError(
            f"{name} cannot be read as a spreadsheet. The file may be damaged or not of the format "
            "its name says; save it again, or as CSV."
        ) from None
    rows = cells.to_python(nrows=1)
    header = [as_text(cell).strip() for cell in rows[0]] if rows else []
    if not any(header):
        raise DataError(f"{name}, sheet {chosen!r} is empty; its first row must name the columns.")
    # A sheet with a header has a first cell.
    start, first = cells.start or (0, 0)
    places = {column: place for place, column in enumerate(header) if column}

    def check(names: Sequence[str]) -> None:
        for column in names:
            if n_errors := errors[first + places[column]]:
                raise DataError(
                    f"{name}, column {column!r}: {n_errors:,} cell(s) hold an error of a formula, "
                    "such as #DIV/0!, and no value. Correct the formulas, or clear these cells: "
                    "empty cells are missing values."
                )

    def load(names: Sequence[str], n_rows: int | None) -> pa.Table:
        return _loaded(cells, names, [places[column] for column in names], start, n_rows)

    columns = [column for column in header if column]
    return TableSource(name, columns, load, paths=[path], format=format, check=check)


def _loaded(
    cells: Any, names: Sequence[str], places: Sequence[int], start: int, n_rows: int | None
) -> pa.Table:
    """Read columns at some places of a sheet whose header is in row `start`."""
    import pyarrow as pa

    columns: list[list[object]] = [[] for _ in names]
    length = 0
    for number, row in enumerate(cells.iter_rows()):
        if number <= start:
            continue
        if n_rows is not None and number > start + n_rows:
            break
        for column, place in zip(columns, places, strict=True):
            column.append(row[place])
        if any(cell != "" for cell in row):
            length = number - start
    return pa.table(
        {name: as_column(column[:length]) for name, column in zip(names, columns, strict=True)}
    )


def as_column(cells: Sequence[object]) -> pa.Array:
    """Bring cells of any types into one column: their common type, or text if they have none.

    None and empty text are missing, and numbers that are all whole are integers.

    Examples
    --------
    >>> as_column([1.0, "", 3.0]).to_pylist()
    [1, None, 3]
    >>> as_column([1.0, "85+", "01"]).to_pylist()
    ['1', '85+', '01']
    """
    import pyarrow as pa

    values = [None if cell == "" else cell for cell in cells]
    kinds = {type(value) for value in values if value is not None}
    if kinds == {float}:
        numbers = pa.array(values, pa.float64())
        try:
            return numbers.cast(pa.int64())
        except pa.ArrowInvalid:
            return numbers
    if kinds == {date, datetime}:
        return pa.array(values, pa.timestamp("us"))
    if len(kinds) > 1:
        values = [None if value is None else as_text(value) for value in values]
    return pa.array(values)


class _Room:
    """The memory that a workbook may take."""

    def __init__(self, name: str, memory_limit: str) -> None:
        self._name = name
        self._limit = memory_limit
        self._most = memory_bytes(memory_limit)

    def unpack(self, path: Path) -> int:
        """Return the bytes of the unpacked workbook, counted, since declared sizes may be wrong."""
        size = 0
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                with archive.open(member) as file:
                    while part := file.read(2**20):
                        size += len(part)
                        if BYTES_A_BYTE * size > self._most:
                            self._refuse("its parts are large once they are unpacked")
        return size

    def check(self, unpacked: int, found: _Scan) -> None:
        """Refuse cells far away from the others, for which room is made, and texts told often."""
        cells = BYTES_A_CELL * found.n_rows * found.n_columns
        if cells + BYTES_A_BYTE * unpacked > self._most:
            self._refuse(f"it has cells in {found.n_rows:,} rows and {found.n_columns:,} columns")
        if cells + BYTES_A_BYTE * unpacked + BYTES_A_LETTER * found.n_letters > self._most:
            self._refuse(f"its cells have {found.n_letters / 1e6:,.0f} MB of text")

    def _refuse(self, why: str) -> NoReturn:
        raise too_large(
            self._name,
            self._limit,
            why,
            "Delete what stands far away from the data and sheets that are not needed, save the "
            "sheet as CSV",
        )


class _Scan(ABC):
    """What the XML of a sheet says and the reader does not: extent, text, errors of formulas."""

    def __init__(self, path: Path, sheet: str = "") -> None:
        self.errors = Counter[int]()
        """Cells with errors, by the position of their column."""
        self.n_rows = 0
        self.n_columns = 0
        self.n_letters = 0
        """Bytes of the texts of all cells: a text that cells share is counted for each."""
        self._sheet = sheet
        self._row = self._column = -1
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        with zipfile.ZipFile(path) as archive, archive.open(self._member(archive)) as file:
            parser.ParseFile(file)

    @abstractmethod
    def _member(self, archive: zipfile.ZipFile) -> str:
        """Return the file of the archive that holds the sheet."""

    @abstractmethod
    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Look at the beginning of an element."""

    @abstractmethod
    def _end(self, tag: str) -> None:
        """Look at the end of an element."""

    @abstractmethod
    def _text(self, text: str) -> None:
        """Look at text, perhaps a part of it."""


class _XlsxScan(_Scan):
    _lengths: list[int]
    """Bytes of the texts that cells share."""
    _number: str | None
    """Which of them the cell names, as far as it is read; None: it names none."""
    _reads: bool
    """Whether what follows is the value of a cell, and not a formula."""

    def _member(self, archive: zipfile.ZipFile) -> str:
        self._lengths = _lengths_of_shared(archive)
        self._number = None
        self._reads = False
        relations = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
        targets = {relation.get("Id"): relation.get("Target", "") for relation in relations}
        for element in ElementTree.fromstring(archive.read("xl/workbook.xml")).iter():
            if element.tag.endswith("}sheet") and element.get("name") == self._sheet:
                number = next(v for k, v in element.attrib.items() if k.endswith("}id"))
                return posixpath.normpath(posixpath.join("/xl", targets[number])).lstrip("/")
        raise KeyError(self._sheet)

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = tag.rpartition(":")[2]
        self._reads = name in ("v", "t")
        if name == "row":
            # Places may be left out, and then follow each other.
            self._row = int(attributes.get("r", self._row + 2)) - 1
            self._column = -1
        elif name == "c":
            self._column += 1
            if "r" in attributes:
                place = re.fullmatch("([A-Z]{1,3})([0-9]{1,7})", attributes["r"])
                if place is None:
                    raise ValueError("no place of a sheet")
                self._row = int(place[2]) - 1
                self._column = _column_number(place[1])
            self.errors[self._column] += attributes.get("t") == "e"
            self._number = "" if attributes.get("t") == "s" else None
        elif name in ("v", "is"):
            # Empty cells that only have a format take no room.
            self.n_rows = max(self.n_rows, self._row + 1)
            self.n_columns = max(self.n_columns, self._column + 1)

    def _text(self, text: str) -> None:
        if not self._reads:
            return
        if self._number is None:
            self.n_letters += len(text.encode())
        else:
            self._number += text

    def _end(self, tag: str) -> None:
        self._reads = False
        if self._number and tag.rpartition(":")[2] == "c":
            self.n_letters += self._lengths[int(self._number)]


def _lengths_of_shared(archive: zipfile.ZipFile) -> list[int]:
    """Bytes of each text that the cells of a workbook may share."""
    lengths: list[int] = []

    def start(tag: str, _: Mapping[str, str]) -> None:
        if tag.rpartition(":")[2] == "si":
            lengths.append(0)

    def text(part: str) -> None:
        if lengths:
            lengths[-1] += len(part.encode())

    for name in archive.namelist():
        if name.lower() == "xl/sharedstrings.xml":
            parser = expat.ParserCreate()
            parser.buffer_text = True
            parser.StartElementHandler, parser.CharacterDataHandler = start, text
            with archive.open(name) as file:
                parser.ParseFile(file)
    return lengths


class _OdsScan(_Scan):
    """All sheets: their extent is that of the sheets below each other."""

    errors_of: dict[str, Counter[int]]
    """Cells with errors of each sheet."""
    _times: int
    """Cells that the cell stands for."""
    _rows: int
    """Rows that the row stands for."""

    def _member(self, archive: zipfile.ZipFile) -> str:
        self.errors_of = {}
        self._times = self._rows = 0
        return "content.xml"

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "table:table":
            self.errors = self.errors_of.setdefault(attributes.get("table:name", ""), Counter())
            self._row = self.n_rows
        elif tag == "table:table-row":
            # Position behind the row and its repetitions.
            self._rows = int(attributes.get("table:number-rows-repeated", 1))
            self._row += self._rows
            self._column = 0
        elif tag in ("table:table-cell", "table:covered-table-cell"):
            self.errors[self._column] += attributes.get("calcext:value-type") == "error"
            columns = int(attributes.get("table:number-columns-repeated", 1))
            self._column += columns
            self._times = self._rows * columns
            if "office:value-type" in attributes:
                self.n_rows = max(self.n_rows, self._row)
                self.n_columns = max(self.n_columns, self._column)

    def _text(self, text: str) -> None:
        self.n_letters += self._times * len(text.encode())

    def _end(self, tag: str) -> None:
        if tag in ("table:table-cell", "table:covered-table-cell"):
            self._times = 0


def _column_number(letters: str) -> int:
    """Position of a column from its letters: A is 0, AA is 26."""
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1
