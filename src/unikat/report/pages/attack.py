"""The page of an attack: one HTML file that needs no network and has no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unikat.report.facts.attack import AttackSummary
from unikat.report.pages import attack_figures as figures
from unikat.report.pages.canvas import Drawing
from unikat.report.pages.template import fill
from unikat.report.text import attack as text
from unikat.report.text.numbers import level
from unikat.report.text.words import say
from unikat.spec.attack import AttackSpec
from unikat.spec.provenance import Provenance


@dataclass(frozen=True, kw_only=True)
class AttackPage:
    """The context of `attack.html.j2`: every name that the template uses, and no other."""

    title: str
    summary: AttackSummary
    """The content of `attack.json`."""
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    """Table of all attacks."""
    findings: Sequence[str]
    """One for each attack."""
    figure: Drawing
    level: str
    """Probability of the intervals, such as 95%."""
    provenance: Provenance
    command: str
    """What repeats the attack."""


def render(summary: AttackSummary) -> str:
    """Render the page of an attack, a complete HTML document."""
    return fill("attack.html.j2", context(summary))


def context(summary: AttackSummary) -> AttackPage:
    """Gather what the page shows."""
    return AttackPage(
        title=say("pages.attack_of", data=summary.original.name),
        summary=summary,
        head=text.head(),
        rows=[text.row(result) for result in summary.attacks],
        findings=[summary.sentences[f"attacks.{place}"] for place in range(len(summary.attacks))],
        figure=figures.rates([result for result in summary.attacks if result.n]),
        level=level(summary.level),
        provenance=summary.provenance,
        command=AttackSpec.again(),
    )
