"""The page of a synthesis: one HTML file that needs no network and has no script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unikat.report.facts.synthesis import ShareFacts, SynthesisSummary
from unikat.report.pages.canvas import Canvas, Drawing, drawing, ticks
from unikat.report.pages.template import fill
from unikat.report.text.synthesis import interval, order_name
from unikat.report.text.words import capital, say
from unikat.spec.provenance import Provenance
from unikat.spec.synthesis import SynthesisSpec
from unikat.synthesis.utility import MarginUtility, OrderUtility

_MOST_MARGINS = 10
"""Margins in a table, those that differ most."""


@dataclass(frozen=True, kw_only=True)
class OrderPart:
    """What the page shows of the margins of one order."""

    name: str
    n_margins: int
    n_looked_at: int
    distance: str
    expected: str
    weighted: str | None
    """Distance by sample weights."""
    ratio: str
    figure: Drawing
    worst: tuple[MarginUtility, ...]


@dataclass(frozen=True, kw_only=True)
class SynthesisPage:
    """The context of `synthesis.html.j2`: every name that the template uses, and no other."""

    title: str
    summary: SynthesisSummary
    """The content of `utility.json`."""
    orders: Sequence[OrderPart]
    shares: Sequence[tuple[str, str, str]]
    """Formula, and the intervals from the original and from the synthetic files."""
    intervals: Drawing | None
    provenance: Provenance
    command: str


def render(summary: SynthesisSummary) -> str:
    """Render the page."""
    data = summary.original.data
    context = SynthesisPage(
        title=say(f"pages.{'synthesis_of' if data else 'synthesis'}", data=data),
        summary=summary,
        orders=[
            OrderPart(
                name=capital(order_name(found.order)),
                n_margins=found.n_margins,
                n_looked_at=found.n_looked_at,
                distance=f"{found.distance:.4f}",
                expected=f"{found.distance_expected:.4f}",
                weighted=(
                    None if found.distance_weighted is None else f"{found.distance_weighted:.4f}"
                ),
                ratio=f"{found.pmse_ratio:.2f}",
                figure=margins(order_name(found.order), found),
                worst=tuple(sorted(found.margins, key=lambda one: -one.pmse_ratio)[:_MOST_MARGINS]),
            )
            for found in summary.margins
        ],
        shares=[
            (share.text, interval(share.original), interval(share.synthetic))
            for share in summary.shares
        ],
        intervals=share_intervals(summary.shares) if summary.shares else None,
        provenance=summary.provenance,
        command=SynthesisSpec.again(),
    )
    return fill("synthesis.html.j2", context)


@drawing
def margins(canvas: Canvas, name: str, found: OrderUtility) -> None:
    """Draw the share of each cell in the synthetic files against that in the original."""
    x, y = np.array(found.cells, np.float64).reshape(-1, 2).T
    most = float(max(x.max(initial=0.0), y.max(initial=0.0), 0.001))
    marks = ticks(0.0, most, 5)
    canvas.y_margin(marks)
    canvas.right -= 10
    canvas.x_range = canvas.y_range = (0.0, most)
    canvas.cursor += 8
    canvas.area(canvas.right - canvas.left if canvas.narrow else 300.0)
    canvas.y_axis(marks)
    canvas.line((canvas.x(0.0), canvas.y(0.0)), (canvas.x(most), canvas.y(most)), "mark-thin")
    for one, other in zip(x, y, strict=True):
        canvas.dot((canvas.x(one), canvas.y(other)), 1.8, "dot dot-0", "")
        canvas.datum("point", x=float(one), y=float(other))
    far = float(np.abs(x - y).max(initial=0.0))
    canvas.describe(
        say("figures.margins.title", name=name),
        [
            say("figures.margins.cells", n=found.n_cells),
            say("figures.margins.largest", difference=far),
        ],
    )
    canvas.x_axis(marks, say("figures.margins.axis"))


@drawing
def share_intervals(canvas: Canvas, shares: Sequence[ShareFacts]) -> None:
    """Draw the intervals of probabilities within households, original above synthetic."""
    canvas.inset()
    canvas.begin_rows(0.0, 1.0)
    said = []
    for share in shares:
        canvas.name(share.text)
        for found, kinds, who in (
            (share.original, ("bar-faint", "bar-mid"), "original"),
            (share.synthetic, ("bar-mid", "bar"), "synthetic"),
        ):
            if found is None or math.isnan(found.estimate):
                continue
            series = say(f"figures.shares.{who}")
            tip = f"{series}: {interval(found)}"
            ends = (max(found.lower, 0.0), found.estimate, min(found.upper, 1.0))
            canvas.interval(ends, canvas.cursor + 6, tip, kinds, series=series)
            said.append(f"{share.text}, {tip}.")
            canvas.cursor += 12
        canvas.cursor += 4
    canvas.describe(say("figures.shares.title"), said)
    canvas.end_rows(say("figures.shares.axis"))
