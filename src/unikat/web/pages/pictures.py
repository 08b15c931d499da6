"""Small pictures of the workbench, without words in them: what they show stands beside them."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from unikat.report.pages.canvas import Canvas, drawing, span, ticks
from unikat.report.text.numbers import number

_WIDTH, _HEIGHT, _GAP = 96.0, 24.0, 1.0


def bars(shares: Sequence[float], name: str) -> Markup:
    """Draw how the records of a column are distributed over its levels.

    Examples
    --------
    >>> "<rect" in bars((1.0, 0.5), "SEX"), str(bars((), "SEX"))
    (True, '')
    """
    if not shares:
        return Markup("")
    width = _WIDTH / len(shares)
    drawn = "".join(
        f'<rect class="bar" x="{i * width:.1f}" y="{_HEIGHT * (1 - share):.1f}" '
        f'width="{max(width - _GAP, 1):.1f}" height="{max(_HEIGHT * share, 0.5):.1f}"/>'
        for i, share in enumerate(shares)
    )
    return Markup(
        f'<svg class="unikat bars" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" '
        f'preserveAspectRatio="none"><title>Distribution of {escape(name)}</title>{drawn}</svg>'
    )


@drawing
def settling(canvas: Canvas, points: Sequence[tuple[int, float]]) -> None:
    """Draw the mean of τ1 against the sweeps after which it was that, as it settles."""
    last = number(points[-1][1])
    canvas.describe(
        "Mean of τ1 so far, by sweeps", [f"{last} after {points[-1][0]:,} sweeps of each chain."]
    )
    canvas.x_range = (float(points[0][0]), float(max(points[-1][0], points[0][0] + 1)))
    low, high = span([[value for _, value in points]], 0.2, 0.5)
    canvas.y_range = (max(low, 0.0), high)
    marks = ticks(*canvas.y_range, 4)
    canvas.y_margin(marks)
    canvas.cursor += 8
    canvas.area(130)
    canvas.y_axis(marks)
    canvas.path([(canvas.x(x), canvas.y(y)) for x, y in points], "chain chain-0 curve", "")
    canvas.x_axis(canvas.x_ticks(5, whole=True), "sweeps of each chain")
