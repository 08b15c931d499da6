"""Workbooks: cells are taken as they are, errors of formulas are none, and sheets are named."""

from __future__ import annotations

import gzip
import struct
import sys
import zipfile
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

from data.decoding import decoded
from data.measured import needed
from data.workbooks import Wrong, write_ods, write_xlsx
from unikat.data import Design, Microdata, read
from unikat.errors import UnikatError

pytest.importorskip("python_calamine", reason="the extra 'spreadsheet' is not installed")

Write: TypeAlias = Callable[..., Path]

DESIGN = Design(population_size=1000)
ROWS = [
    ["REGION", "SEX", "AGE", "WORKS", "BORN", "KIDS"],
    ["01", 1, 30, True, date(2001, 2, 3), 0],
    ["1", 2, "85+", False, date(1950, 1, 1), 1.0],
    [None, 2, 41, True, date(1999, 12, 31), None],
    ["01", 1, 30, None, date(2001, 2, 3), 0],
    ["x y", None, "85+", False, date(1977, 7, 7), 2],
]


@pytest.fixture(params=["xlsx", "ods"])
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Write:
    """Write a workbook of either format."""
    written = {"xlsx": write_xlsx, "ods": write_ods}[request.param]
    return lambda sheets, **options: written(tmp_path / f"book.{request.param}", sheets, **options)


def column(microdata: Microdata, name: str) -> list[object]:
    return decoded(microdata.tabulate())[name].tolist()


def refused(source: Path, keys: Sequence[str] = ("SEX", "AGE"), **options: Any) -> str:
    with pytest.raises(UnikatError) as caught:
        read(source, keys, DESIGN, **options)
    return str(caught.value)


def test_cells(write: Write) -> None:
    microdata = read(write({"Data": ROWS}), ["REGION", "SEX", "AGE", "WORKS", "KIDS"], DESIGN)
    assert column(microdata, "REGION") == ["01", "1", None, "01", "x y"]
    assert microdata.keys[1].levels == (1, 2)
    assert column(microdata, "SEX") == [1, 2, 2, 1, None]
    # Numbers and text in one column are text, without a point.
    assert column(microdata, "AGE") == ["30", "85+", "41", "30", "85+"]
    assert column(microdata, "WORKS") == [True, False, True, None, False]
    assert column(microdata, "KIDS") == [0, 1, None, 0, 2]
    added = microdata.with_columns({"risk": [0.0] * 5})
    assert isinstance(added, pa.Table)
    assert added["BORN"].to_pylist() == [row[4] for row in ROWS[1:]]
    assert added["SEX"].to_pylist() == [1, 2, 2, 1, None]


def test_dates_and_decimals(write: Write) -> None:
    rows = [["BORN", "PAY"], *([[date(1980 + i, 1, 1), 100.5 * i] for i in range(12)])]
    keys = read(write({"Data": rows}), "BORN:quantile(2),PAY:cut(300)", DESIGN).keys
    assert keys[0].labels == ("< 1986-01-01", ">= 1986-01-01")
    assert keys[1].labels == ("< 300", ">= 300")
    assert "holds dates or times" in refused(write({"Data": rows}), ["BORN", "PAY:cut(300)"])
    assert "decimal numbers" in refused(write({"Data": rows}), ["PAY", "BORN:quantile(2)"])


def test_room_around_the_data(write: Write) -> None:
    """Empty rows and columns before the data, columns without a name, empty rows at the end."""
    rows = [
        [None, None, None],
        [None, "A", None, "B"],
        [None, 1, "note", 3],
        [None, None, None, None],
        [None, 2, None, 4],
        [None, None, None, None],
    ]
    microdata = read(write({"Data": rows}), "A,B", DESIGN, missing="level")
    assert microdata.n_records == 3
    assert column(microdata, "A") == [1, None, 2]
    assert column(microdata, "B") == [3, None, 4]
    assert microdata.to_frame().column_names == ["A", "B"]


def test_sheets(write: Write) -> None:
    book = write({"Data": ROWS, "Notes": [["Ask", "Bob"], ["x", "y"]], "z" * 60: [["Z"]]})
    message = refused(book)
    assert "zz" not in message
    assert "holds 3 sheets: 'Data', 'Notes'" in message
    assert "--sheet Data (in Python: sheet='Data')" in message
    assert read(book, "SEX,AGE", DESIGN, sheet="Data").n_records == 5
    assert "holds no sheet 'Dta'. Did you mean 'Data'?" in refused(book, sheet="Dta")
    assert "is empty" in refused(write({"Data": [], "Other": ROWS}), sheet="Data")


def test_sheets_of_other_files(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("SEX,AGE\n1,2\n")
    message = refused(path, sheet="Data")
    assert "--sheet (in Python: sheet=) is given" in message
    assert "which has no sheets" in message


def test_errors_of_formulas(write: Write) -> None:
    rows = [["A", "B", "C"], *([[i % 3, i % 2, i] for i in range(8)])]
    rows[3][2], rows[7][2] = Wrong(), Wrong("#N/A")
    book = write({"Data": rows, "Other": [["A", "B"], [Wrong(), 1]]})
    assert read(book, "A,B", DESIGN, sheet="Data").n_records == 8
    message = refused(book, ["A", "C"], sheet="Data")
    assert "column 'C': 2 cell(s) hold an error of a formula" in message
    assert "1 cell(s) hold an error" in refused(book, ["A", "B"], sheet="Other")


def test_errors_are_found_where_places_are_not_written(tmp_path: Path) -> None:
    """Cells may leave out where they are, and then follow each other."""
    body = (
        '<row><c t="inlineStr"><is><t>A</t></is></c><c t="inlineStr"><is><t>B</t></is></c></row>'
        '<row><c><v>1</v></c><c t="e"><v>#REF!</v></c></row>'
    )
    book = write_xlsx(tmp_path / "book.xlsx", {"Data": []}, extra=body)
    assert "column 'B': 1 cell(s)" in refused(book, ["A", "B"])


def test_a_cell_far_away(tmp_path: Path) -> None:
    """Room is made for all cells between the first and the last; the process would be killed."""
    far = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    book = write_xlsx(tmp_path / "book.xlsx", {"Data": ROWS}, extra=far)
    assert "in 1,048,576 rows and 16,384 columns" in refused(book)
    nowhere = '<row r="9"><c r="B1999999994"><v>1</v></c></row>'
    book = write_xlsx(tmp_path / "book.xlsx", {"Data": ROWS}, extra=nowhere)
    assert "cannot be read" in refused(book)
    empty = '<row r="1048576"><c r="XFD1048576" s="1"/></row>'
    book = write_xlsx(tmp_path / "book.xlsx", {"Data": ROWS}, extra=empty)
    assert read(book, "SEX,AGE", DESIGN).n_records == 5
    far = (
        '<table:table-row table:number-rows-repeated="1000000"><table:table-cell '
        'table:number-columns-repeated="16000" office:value-type="float" office:value="1"/>'
        "</table:table-row>"
    )
    book = write_ods(tmp_path / "b.ods", {"Data": ROWS}, extra=far)
    assert "in 1,000,006 rows and 16,000 columns" in refused(book)
    end = (
        '<table:table-row table:number-rows-repeated="1048000"><table:table-cell '
        'table:number-columns-repeated="16000"/></table:table-row>'
    )
    assert read(write_ods(book, {"Data": ROWS}, extra=end), "SEX,AGE", DESIGN).n_records == 5


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is in other units")
def test_memory_keeps_to_its_limit(tmp_path: Path) -> None:
    far = '<row r="1000000"><c r="CV1000000"><v>1</v></c></row>'
    book = write_xlsx(tmp_path / "far.xlsx", {"Data": ROWS}, extra=far)
    message, size = needed(book, "1GB")
    assert "far.xlsx needs more memory than the 1GB allowed" in message
    assert "--memory-limit 4GB (in Python: memory_limit='4GB')" in message
    assert size < 1e8
    # What passes takes about as much as it was reckoned with.
    far = '<row r="30000"><c r="CV30000"><v>1</v></c></row>'
    book = write_xlsx(tmp_path / "near.xlsx", {"Data": ROWS}, extra=far)
    message, size = needed(book, "200MB")
    assert "29,994 row(s) have all 2 keys missing" in message
    assert size < 2.5e8
    rows = (
        '<table:table-row table:number-rows-repeated="90000"><table:table-cell '
        'table:number-columns-repeated="100" office:value-type="float" office:value="1"/>'
        "</table:table-row>"
    )
    message, size = needed(write_ods(tmp_path / "b.ods", {"Data": ROWS}, extra=rows), "200MB")
    assert "b.ods needs more memory" in message
    assert size < 1e8
    packed = tmp_path / "bomb.csv.gz"
    with gzip.open(packed, "wb", compresslevel=1) as file:
        file.write(b"SEX,AGE,NOTE\n")
        for _ in range(100):
            file.write((b"1,2," + b"x" * 95 + b"\n2,3,\n") * 20_000)
    message, size = needed(packed, "100MB")
    assert message == ""
    assert size < 4e8


def sharing(path: Path, n_rows: int, text: str) -> Path:
    """Write a workbook whose cells all have one text that they share."""
    shared = "".join(f"<si><t>{one}</t></si>" for one in ("SEX", "AGE", text))
    names = '<row><c t="s"><v>0</v></c><c t="s"><v>1</v></c></row>'
    rows = names + '<row><c t="s"><v>2</v></c><c t="s"><v>2</v></c></row>' * n_rows
    write_xlsx(path, {"Data": []}, extra=rows)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "xl/sharedStrings.xml",
            f'<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">{shared}</sst>',
        )
    return path


def repeated(path: Path, n_rows: int, text: str) -> Path:
    """Write a table of OpenDocument one of whose cells stands for many."""
    rows = (
        f'<table:table-row table:number-rows-repeated="{n_rows}"><table:table-cell '
        'table:number-columns-repeated="2" office:value-type="string">'
        f"<text:p>{text}</text:p></table:table-cell></table:table-row>"
    )
    return write_ods(path, {"Data": [["SEX", "AGE"]]}, extra=rows)


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is in other units")
@pytest.mark.parametrize("write", [sharing, repeated])
def test_a_text_counts_for_each_cell_that_has_it(
    write: Callable[[Path, int, str], Path], tmp_path: Path
) -> None:
    """Cells that share a text of a megabyte took six gigabytes, from a file of 3 kB."""
    path = tmp_path / f"book.{'xlsx' if write is sharing else 'ods'}"
    message, size = needed(write(path, 1000, "x" * 1_000_000), "1GB")
    assert path.stat().st_size < 10_000
    assert "needs more memory than the 1GB allowed" in message
    assert "2,000 MB of text" in message
    assert size < 1e8
    # What passes takes no more than was allowed.
    message, size = needed(write(path, 1000, "x" * 20_000), "300MB")
    assert "has the same level in every row" in message
    assert 4e7 < size < 3e8


def test_sizes_that_are_declared_wrong(write: Write) -> None:
    """The unpacked bytes are counted."""
    book = write({"Data": [*ROWS, ["x" * 3_000_000]]})
    whole, declared = book.read_bytes(), 0
    with zipfile.ZipFile(book) as archive:
        declared = max(member.file_size for member in archive.infolist())
    assert "once they are unpacked" in refused(book, memory_limit="5MB")
    book.write_bytes(whole.replace(struct.pack("<I", declared), struct.pack("<I", 10)))
    assert "cannot be read" in refused(book, memory_limit="5MB")


def test_damaged_workbooks(write: Write, tmp_path: Path) -> None:
    book = write({"Data": ROWS})
    whole = book.read_bytes()
    book.write_bytes(whole[: len(whole) // 2])
    assert "cannot be read as a spreadsheet" in refused(book)
    book.write_bytes(b"PK\x03\x04 and nothing else")
    assert "cannot be read as a spreadsheet" in refused(book)
    book.write_bytes(b"\xd0\xcf\x11\xe0 the old format")
    assert "with a password; save it as .xlsx" in refused(book)


def test_without_the_package(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    book = write({"Data": ROWS})
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    assert "pip install 'unikat[spreadsheet]'" in refused(book)
