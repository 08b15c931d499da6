"""Two A4 pages for a committee: one HTML file that prints right, needs no network and no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from unikat.report.facts.protection import RiskFacts
from unikat.report.pages.canvas import Canvas, Drawing, drawing
from unikat.report.pages.template import fill
from unikat.report.text.committee import SIGNED, Facts, Told, told
from unikat.report.text.numbers import estimated
from unikat.report.text.words import say
from unikat.spec.provenance import Provenance

_WIDTH, _HEIGHT, _MOST = 132.0, 26.0, 44
"""Of the picture of a key, and its most bars."""


@dataclass(frozen=True, kw_only=True)
class CommitteePage:
    """The context of `committee.html.j2`: every name that the template uses, and no other."""

    title: str
    told: Told
    picture: Drawing | None
    """τ1 at each side; None without an estimate."""
    bars: Sequence[tuple[Markup, Markup]]
    """Of each key, before and after."""
    signed: Sequence[str]
    provenance: Provenance


def render(found: Facts) -> str:
    """Render the two pages."""
    content = told(found)
    context = CommitteePage(
        title=content.title,
        told=content,
        picture=posteriors(content.sides, content.risks) if content.risks else None,
        bars=[
            (bars(row.shares.before), bars([share for _, share in row.shares.after]))
            for row in content.keys
        ],
        signed=[say(f"committee.sign.{name}") for name in SIGNED],
        provenance=found.provenance,
    )
    return fill("committee.html.j2", context)


def bars(shares: Sequence[float]) -> Markup:
    """Draw how records spread over levels, in their order; neighbours are joined if they are many.

    The height of the picture is the largest share, so that the same height is not the same share.
    """
    if not shares:
        return Markup("")
    parts = [part.sum() for part in np.array_split(np.asarray(shares), min(len(shares), _MOST))]
    most, width = max(max(parts), 1e-9), _WIDTH / len(parts)
    drawn = "".join(
        f'<rect class="bar-mid" x="{i * width:.1f}" y="{_HEIGHT * (1.0 - part / most):.1f}" '
        f'width="{max(width - 1.0, 0.8):.1f}" height="{_HEIGHT * part / most:.1f}"/>'
        for i, part in enumerate(parts)
    )
    return Markup(  # numbers alone
        f'<svg class="unikat bars" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" aria-hidden="true">'
        f"{drawn}</svg>"
    )


@drawing
def posteriors(canvas: Canvas, sides: Sequence[str], risks: Sequence[RiskFacts]) -> None:
    """Draw the posterior distribution of τ1 at each side, one below the other on one scale."""
    most = max(max(one.tau1.upper, *(high for _, high, _ in one.tau1_bins), 1.0) for one in risks)
    canvas.inset()
    canvas.x_range = (0.0, 1.04 * most)
    said = []
    for side, one in zip(sides, risks, strict=True):
        words = f"{side}: {estimated(one.tau1.mean, one.tau1)}"
        said.append(f"{words}.")
        canvas.words(words, "strong", canvas.left, "start")
        canvas.cursor += 6
        canvas.area(58)
        canvas.y_range = (0.0, max((share for *_, share in one.tau1_bins), default=1.0))
        for low, high, share in one.tau1_bins:
            x, y = canvas.x(max(low, 0.0)), canvas.y(share)
            inside = one.tau1.lower - 0.5 <= (low + high) / 2 <= one.tau1.upper + 0.5
            box = (x, y, canvas.x(high) - x - 0.6, canvas.bottom - y)
            canvas.rect(box, "bar" if inside else "bar-faint")
        if not one.tau1_bins:
            values = (one.tau1.lower, one.tau1.mean, one.tau1.upper)
            canvas.interval(values, canvas.bottom - 14, words, ("bar-faint", "bar"))
        canvas.line((canvas.left, canvas.bottom), (canvas.right, canvas.bottom), "axis")
        canvas.cursor += 16
    canvas.describe(say("committee.picture"), said)
    canvas.bottom = canvas.cursor - 16
    canvas.x_axis(canvas.x_ticks(8), say("figures.τ1"))
