"""Small workbooks, written part by part so that each oddity of the formats can be had."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr


class Wrong(NamedTuple):
    """A formula that gives an error."""

    error: str = "#DIV/0!"


Row = Sequence[object]

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_DOCUMENT = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_EPOCH = date(1899, 12, 30)


def write_xlsx(path: Path, sheets: Mapping[str, Sequence[Row]], *, extra: str = "") -> Path:
    """Write a workbook; `extra` is XML that goes behind the rows of every sheet."""
    names = list(sheets)
    listed = "".join(
        f'<sheet name={quoteattr(name)} sheetId="{i}" r:id="rId{i}"/>'
        for i, name in enumerate(names, start=1)
    )
    relations = "".join(
        f'<Relationship Id="rId{i}" Type="{_DOCUMENT}/worksheet" Target="worksheets/s{i}.xml"/>'
        for i in range(1, len(names) + 1)
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default '
        'Extension="xml" ContentType="application/xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" '
        f'Type="{_DOCUMENT}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_DOCUMENT}"><sheets>{listed}'
        "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">{relations}'
        f'<Relationship Id="rId99" Type="{_DOCUMENT}/styles" Target="styles.xml"/></Relationships>',
        # The second style is that of dates.
        "xl/styles.xml": f'<styleSheet xmlns="{_MAIN}"><cellXfs count="2"><xf numFmtId="0"/>'
        '<xf numFmtId="14" applyNumberFormat="1"/></cellXfs></styleSheet>',
    }
    for i, rows in enumerate(sheets.values(), start=1):
        body = "".join(_xlsx_row(number, row) for number, row in enumerate(rows, start=1))
        parts[f"xl/worksheets/s{i}.xml"] = (
            f'<worksheet xmlns="{_MAIN}"><sheetData>{body}{extra}</sheetData></worksheet>'
        )
    return _pack(path, parts)


def write_ods(path: Path, sheets: Mapping[str, Sequence[Row]], *, extra: str = "") -> Path:
    """Write an OpenDocument workbook; `extra` is XML that goes behind the rows of every sheet."""
    spaces = " ".join(
        f'xmlns:{name}="urn:{place}"'
        for name, place in {
            "office": "oasis:names:tc:opendocument:xmlns:office:1.0",
            "table": "oasis:names:tc:opendocument:xmlns:table:1.0",
            "text": "oasis:names:tc:opendocument:xmlns:text:1.0",
            "calcext": "org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0",
        }.items()
    )
    tables = "".join(
        f"<table:table table:name={quoteattr(name)}>"
        + "".join(
            f"<table:table-row>{''.join(map(_ods_cell, row))}</table:table-row>" for row in rows
        )
        + f"{extra}</table:table>"
        for name, rows in sheets.items()
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    manifest = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
    return _pack(
        path,
        {
            "mimetype": kind,
            "content.xml": f'<office:document-content {spaces} office:version="1.2"><office:body>'
            f"<office:spreadsheet>{tables}</office:spreadsheet></office:body>"
            "</office:document-content>",
            "META-INF/manifest.xml": f'<manifest:manifest xmlns:manifest="{manifest}">'
            f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/>'
            "</manifest:manifest>",
        },
    )


def _pack(path: Path, parts: Mapping[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return path


def _xlsx_row(number: int, row: Row) -> str:
    cells = "".join(_xlsx_cell(f"{chr(65 + j)}{number}", value) for j, value in enumerate(row))
    return f'<row r="{number}">{cells}</row>'


def _xlsx_cell(place: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, Wrong):
        return f'<c r="{place}" t="e"><f>1/0</f><v>{value.error}</v></c>'
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, date):
        return f'<c r="{place}" s="1"><v>{(value - _EPOCH).days}</v></c>'
    if isinstance(value, (int, float)):
        return f'<c r="{place}"><v>{value}</v></c>'
    return f'<c r="{place}" t="inlineStr"><is><t>{escape(str(value))}</t></is></c>'


def _ods_cell(value: object) -> str:
    if value is None:
        return "<table:table-cell/>"
    if isinstance(value, Wrong):
        kind, text = 'string" office:string-value="" calcext:value-type="error', value.error
    elif isinstance(value, bool):
        kind, text = f'boolean" office:boolean-value="{str(value).lower()}', str(value).upper()
    elif isinstance(value, date):
        kind, text = f'date" office:date-value="{value.isoformat()}', value.isoformat()
    elif isinstance(value, (int, float)):
        kind, text = f'float" office:value="{value}', str(value)
    else:
        kind, text = "string", escape(str(value))
    return (
        f'<table:table-cell office:value-type="{kind}"><text:p>{text}</text:p></table:table-cell>'
    )
