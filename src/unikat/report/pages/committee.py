"""Two A4 pages for a committee: one HTML file that prints right, needs no network and no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from unikat.report.facts.protection import ProtectionSummary
from unikat.report.pages.canvas import Drawing
from unikat.report.pages.release_figures import Side, posteriors
from unikat.report.pages.template import fill
from unikat.report.text.committee import SIGNED, Facts, Told, told
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
        picture=sides_drawn(content, found) if content.risks else None,
        bars=[
            (bars(row.shares.before), bars([share for _, share in row.shares.after]))
            for row in content.keys
        ],
        signed=[say(f"committee.sign.{name}") for name in SIGNED],
        provenance=found.provenance,
    )
    return fill("committee.html.j2", context)


def sides_drawn(content: Told, found: Facts) -> Drawing:
    """Draw τ1 at each side, with the limit where it is of all keys."""
    pairs = zip(content.sides, content.risks, strict=True)
    sides = [Side(name, one.tau1, one.tau1_bins) for name, one in pairs]
    of_all = isinstance(found, ProtectionSummary) and found.target
    return posteriors(sides, of_all.limit if of_all else None)


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
