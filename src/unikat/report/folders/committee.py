"""The pages for a committee as a document of Word."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from unikat.errors import SpecError, visible
from unikat.report.text.committee import SIGNED, Facts, told
from unikat.report.text.language import wording
from unikat.report.text.words import say


def word_document(found: Facts) -> bytes:
    """Make the document, without pictures; its sentences and numbers are those of the pages.

    Raises
    ------
    SpecError
        If python-docx is not installed.
    """
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
    made.styles["Normal"].font.size = Pt(9)

    def heading(code: str) -> None:
        made.add_heading(say(code), 2)

    def sentences(texts: Sequence[str], style: str | None = None) -> None:
        for text in texts:
            made.add_paragraph(visible(text), style)

    made.add_paragraph(visible(content.title))
    made.add_heading(visible(content.question), 1)
    if content.verdict is not None:
        box = made.add_table(1, 1, "Table Grid").cell(0, 0).paragraphs[0]
        box.add_run(visible(content.verdict.title)).bold = True
        box.add_run(f" {visible(content.verdict.sentence)}")
    sentences([content.answer])
    if content.rows:
        heading("titles.risk")
        _table(made, ["", *content.sides], content.rows)
    if content.limits:
        heading("titles.limits")
        _table(made, content.limits_head, content.limits)
    if content.done or content.keys:
        heading("titles.what_was_done")
        sentences(content.done)
    if content.keys:
        names = [say(f"committee.column.{name}") for name in ("key", "done", "cost")]
        _table(made, names, [(one.name, one.done, one.cost) for one in content.keys])
    heading("committee.left")
    sentences(content.left, "List Bullet")
    heading("committee.assumptions")
    sentences(content.assumptions, "List Bullet")
    sentences([say("committee.technical", provenance=found.provenance)])
    _table(made, [say(f"committee.sign.{name}") for name in SIGNED], [("\n\n",) * len(SIGNED)])
    stream = io.BytesIO()
    made.save(stream)
    return stream.getvalue()


def _table(made: Any, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = made.add_table(1 + len(rows), len(head), "Table Grid")
    for line, row in zip(table.rows, [head, *rows], strict=True):
        for cell, text in zip(line.cells, row, strict=True):
            cell.text = visible(text)
