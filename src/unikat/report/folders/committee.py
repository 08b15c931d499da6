"""The pages for a committee as a document of Word."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from unikat.errors import SpecError, visible
from unikat.report.pages.colours import LIGHT
from unikat.report.text.committee import SIGNED, Facts, told
from unikat.report.text.language import office, wording
from unikat.report.text.words import say


def word_document(found: Facts) -> bytes:
    """Make the document, without pictures; its sentences and numbers are those of the pages."""
    try:
        from docx import Document
        from docx.oxml.ns import qn
        from docx.shared import Mm, Pt
    except ImportError:
        raise SpecError(
            "A document of Word needs python-docx. Install it with  pip install 'unikat[word]',  "
            "or print committee.html."
        ) from None
    content, made = told(found), Document()
    # So that Word checks the spelling in the language of the text.
    made.styles.element.find(f".//{qn('w:lang')}").set(qn("w:val"), wording("numbers.locale"))
    made.core_properties.language = wording("numbers.locale")
    made.core_properties.title = visible(content.title)
    made.core_properties.author = "unikat"
    page = made.sections[0]
    page.page_width, page.page_height = Mm(210), Mm(297)
    page.left_margin = page.right_margin = Mm(18)
    page.top_margin = page.bottom_margin = Mm(15)
    for name, size in (("Normal", 10), ("Heading 1", 14), ("Heading 2", 11)):
        style = made.styles[name]
        style.font.size, style.font.color.rgb = Pt(size), _colour("ink")
        fonts = style.element.get_or_add_rPr().get_or_add_rFonts()
        fonts.attrib.clear()  # those of the theme go before a name
        for script in ("ascii", "hAnsi", "cs", "eastAsia"):
            fonts.set(qn(f"w:{script}"), "Arial")
    made.styles["Normal"].paragraph_format.space_after = Pt(4)
    made.styles["Heading 1"].paragraph_format.space_before = Pt(4)

    def heading(code: str) -> Any:
        return made.add_heading(say(code), 2)

    def sentences(texts: Sequence[str], style: str | None = None) -> None:
        for text in texts:
            made.add_paragraph(visible(text), style)

    made.add_paragraph(visible(content.title))
    made.add_heading(visible(content.question), 1)
    if content.verdict is not None:
        box = _table(made, [], [("",)]).cell(0, 0).paragraphs[0]
        title = box.add_run(visible(content.verdict.title))
        title.bold, title.font.size = True, Pt(12)
        title.font.color.rgb = _colour(_COLOURS[content.verdict.css])
        title.add_break()
        box.add_run(visible(content.verdict.sentence))
    made.add_paragraph(visible(content.answer)).paragraph_format.space_before = Pt(8)
    if content.rows:
        heading("titles.risk")
        _table(made, [say("titles.measure"), *content.sides], content.rows)
    if content.limits:
        heading("titles.limits")
        _table(made, content.limits_head, content.limits)
    # As in print: what it was decided by is on the first page, what it rests on is on the second.
    second = heading("titles.what_was_done" if content.done or content.keys else "committee.left")
    second.paragraph_format.page_break_before = True
    if content.done or content.keys:
        sentences(content.done)
        if content.keys:
            names = [say(f"committee.column.{name}") for name in ("key", "done", "cost")]
            _table(made, names, [(one.name, one.done, one.cost) for one in content.keys])
        heading("committee.left")
    sentences(content.left, "List Bullet")
    heading("committee.assumptions")
    sentences(content.assumptions, "List Bullet")
    sentences([say("committee.technical", provenance=found.provenance)])
    if (terms := office()) is not None:
        sentences([say("remarks.terms", source=terms.source)])
    _table(made, [say(f"committee.sign.{name}") for name in SIGNED], [("\n\n\n",) * len(SIGNED)])
    stream = io.BytesIO()
    made.save(stream)
    return stream.getvalue()


_COLOURS = {"met": "safe", "not-met": "mark", "not-known": "bad-ink"}
"""Of a verdict, as on the page."""


def _colour(name: str) -> Any:
    from docx.shared import RGBColor

    return RGBColor.from_string(LIGHT[name].removeprefix("#").upper())


def _table(made: Any, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """Add a table as wide as the text, whose columns have room by their longest text."""
    from docx.enum.table import WD_TABLE_ALIGNMENT
    from docx.oxml import OxmlElement
    from docx.shared import Pt

    lines = [*([head] if head else []), *rows]
    table = made.add_table(len(lines), len(lines[0]), "Table Grid")
    table.autofit, table.alignment = False, WD_TABLE_ALIGNMENT.CENTER
    room = [min(max(12, *map(len, texts)), 32) + 6 for texts in zip(*lines, strict=True)]
    page = made.sections[0]
    width = page.page_width - page.left_margin - page.right_margin
    for column, share in zip(table.columns, room, strict=True):
        column.width = int(width * share / sum(room))
    for place, (line, row) in enumerate(zip(table.rows, lines, strict=True)):
        above = line._tr.get_or_add_trPr()
        above.append(OxmlElement("w:cantSplit"))
        for cell, column, text in zip(line.cells, table.columns, row, strict=True):
            cell.text, cell.width = visible(text), column.width
            shape = cell.paragraphs[0].paragraph_format
            shape.space_before = shape.space_after = Pt(1)
            if place == 0 and head:
                cell.paragraphs[0].runs[0].bold = shape.keep_with_next = True
        if place == 0 and head:
            above.append(OxmlElement("w:tblHeader"))
    return table
