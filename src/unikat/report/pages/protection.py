"""The page of a protection: one HTML file that needs no network and has no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from unikat.protection.released import ColumnChange
from unikat.report.facts.protection import PlanFacts, ProtectionSummary
from unikat.report.pages.canvas import Canvas, Drawing, drawing
from unikat.report.pages.template import fill
from unikat.report.text.numbers import number, percent
from unikat.report.text.protection import (
    joined_rows,
    plan_rows,
    plan_words,
    scenario_rows,
    table_rows,
    verdict_of,
)
from unikat.report.text.verdict import VerdictText
from unikat.spec.protection import ProtectionSpec
from unikat.spec.provenance import Provenance

_LEAD = ("plan", "perturbation", "matches", "refit")
"""Sentences that stand first, by their place."""


@dataclass(frozen=True, kw_only=True)
class ProtectionPage:
    """The context of `protection.html.j2`: every name that the template uses, and no other."""

    title: str
    verdict: VerdictText | None
    """On the target; None if there is none."""
    summary: ProtectionSummary
    """The content of `protect.json`."""
    frontier: Drawing
    plans: Sequence[tuple[str, ...]]
    """Rows of the table of plans."""
    lead: str
    """Sentences below the title."""
    stages: Sequence[str]
    """Before, after by the plan, by the new fit, and after perturbation if there is one."""
    sides: Sequence[tuple[str, ...]]
    """A measure at each stage."""
    tables: Sequence[tuple[str, ...]]
    """What becomes of the user's own tables; empty if none was named."""
    scenarios: Sequence[tuple[str, ...]]
    """Rows of the table of scenarios; none if there are no scenarios."""
    columns: Sequence[ColumnChange]
    joined: Sequence[tuple[str, ...]]
    provenance: Provenance
    command: str


def render(summary: ProtectionSummary) -> str:
    """Render the page."""
    said, perturbed = summary.sentences, summary.perturbation
    sides = [summary.before, summary.chosen.risk, summary.refit]
    stages = ["Before", "After, by the plan", "After, new fit"]
    if perturbed is not None:
        # The first three are of true values.
        sides.append(
            replace(
                summary.chosen.risk,
                tau1=perturbed.tau1,
                tau2=perturbed.tau2,
                n_uniques=perturbed.n_uniques,
                smallest=perturbed.smallest,
            )
        )
        stages[1:] = ["After recoding", "After recoding, new fit", "After perturbation"]

    def ends(name: str) -> list[str]:
        return [
            f"{number(one.mean)} ({number(one.lower)} to {number(one.upper)})"
            for one in (getattr(side, name) for side in sides)
        ]

    verdict = verdict_of(summary)
    context = ProtectionPage(
        title=f"Protection of {summary.data or 'a data frame'}",
        verdict=verdict,
        summary=summary,
        frontier=frontier(summary.plans),
        plans=plan_rows(summary)[1:],
        lead=" ".join(said[place] for place in _LEAD if place in said),
        stages=stages,
        sides=[
            ("τ1, population uniques", *ends("tau1")),
            ("τ2, expected correct matches", *ends("tau2")),
            ("Sample uniques", *(number(side.n_uniques) for side in sides)),
            ("Smallest combination, records", *(number(side.smallest) for side in sides)),
        ],
        tables=table_rows(summary)[1:],
        scenarios=scenario_rows(summary)[1:],
        columns=summary.columns,
        joined=joined_rows(summary)[1:],
        provenance=summary.provenance,
        command=ProtectionSpec.again(),
    )
    return fill("protection.html.j2", context)


@drawing
def frontier(canvas: Canvas, plans: Sequence[PlanFacts]) -> None:
    """Draw τ1 with its interval against the information lost, plan by plan."""
    canvas.inset()
    most = max(plan.risk.tau1.upper for plan in plans) or 1.0
    canvas.begin_rows(0.0, most)
    said = []
    for plan in plans:
        tau1 = plan.risk.tau1
        words = plan_words(plan)
        canvas.name(f"{percent(plan.lost)} lost{', chosen' if plan.chosen else ''}")
        tip = f"{words}: {number(tau1.mean)} ({number(tau1.lower)} to {number(tau1.upper)})"
        kinds = ("bar-mid", "bar") if plan.chosen else ("bar-faint", "bar-mid")
        canvas.interval((tau1.lower, tau1.mean, tau1.upper), canvas.cursor + 6, tip, kinds)
        said.append(f"{percent(plan.lost)} lost, {tip}.")
        canvas.cursor += 16
    canvas.describe("τ1 of each plan, with the information that it loses", said)
    canvas.end_rows("τ1, with its interval")
