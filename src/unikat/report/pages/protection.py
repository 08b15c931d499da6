"""The page of a protection: one HTML file that needs no network and has no script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from unikat.protection.released import ColumnChange
from unikat.report.facts.protection import ProtectionSummary
from unikat.report.pages.canvas import Canvas, Drawing, drawing, line_height, tick_text
from unikat.report.pages.template import fill
from unikat.report.text.columns import column_rows
from unikat.report.text.numeric import linkage_rows, numeric_rows
from unikat.report.text.plan_words import plan_words
from unikat.report.text.protection import (
    LEAD,
    beyond,
    joined_rows,
    plan_rows,
    risk_rows,
    scenario_rows,
    table_rows,
    verdict_of,
)
from unikat.report.text.sentences import first
from unikat.report.text.verdict import VerdictText
from unikat.report.text.words import say
from unikat.spec.limits import Limit
from unikat.spec.protection import ProtectionSpec
from unikat.spec.provenance import Provenance


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
    numeric: Sequence[Sequence[tuple[str, ...]]]
    """Tables of continuous variables, of what was done and of linkage, each with its head; none if
    nothing was changed."""
    columns: Sequence[ColumnChange]
    joined: Sequence[tuple[str, ...]]
    others: Sequence[tuple[str, ...]]
    """Rows of the table of columns that are no keys."""
    provenance: Provenance
    command: str


def render(summary: ProtectionSummary) -> str:
    """Render the page."""
    said, perturbed = summary.sentences, summary.perturbation is not None
    sides = [("before", summary.before)]
    if summary.keys_stay:
        pass
    elif summary.released is None:
        sides.append(("by_plan", summary.chosen.risk))
    else:
        if summary.chosen.recodings:
            sides.append(("recoded", summary.chosen.risk))
        sides.append(("after", summary.released))
    if not summary.keys_stay and (not perturbed or summary.chosen.recodings):
        # A fit takes values for true.
        sides.append((f"refit_{'recoded' if perturbed else 'protected'}", summary.refit))
    verdict = verdict_of(summary)
    context = ProtectionPage(
        title=say(
            f"pages.{'protection_of' if summary.data else 'protection'}",
            begins=first(summary.converged),
            data=summary.data,
        ),
        verdict=verdict,
        summary=summary,
        frontier=frontier(summary),
        plans=plan_rows(summary)[1:],
        lead=" ".join(said[place] for place in LEAD if place in said),
        stages=[say(f"pages.side.{stage}", beyond=beyond(summary)) for stage, _ in sides],
        sides=risk_rows([side for _, side in sides], households=summary.households),
        tables=table_rows(summary)[1:],
        scenarios=scenario_rows(summary)[1:],
        numeric=[numeric_rows(found), linkage_rows(found)] if (found := summary.numeric) else [],
        columns=summary.columns,
        joined=joined_rows(summary)[1:],
        others=column_rows(summary.other_columns, summary.left_over)[1:],
        provenance=summary.provenance,
        command=ProtectionSpec.again(),
    )
    return fill("protection.html.j2", context)


_MARKS = (0, *(part * 10**power for power in range(9) for part in (1, 2, 5)))


@drawing
def frontier(canvas: Canvas, found: ProtectionSummary) -> None:
    """Draw τ1 of every plan with its interval against the information lost, and the target.

    Equal steps up are about equal factors, so that small numbers are seen beside large ones.
    """
    points = [
        (
            say(
                f"figures.plans.{'chosen_plan' if plan.chosen else 'plan'}",
                lost=plan.lost,
                plan=plan_words(plan),
            ),
            plan.lost,
            plan.risk.tau1,
            plan.chosen,
        )
        for plan in found.plans
    ]
    if found.released is not None:
        words = say("figures.plans.chosen_plan", lost=found.lost, plan=beyond(found))
        points = [(*one[:3], False) for one in points]
        points.append((words, found.lost, found.released.tau1, True))
    limit = None if found.target is None else Limit.of(found.target.limit)
    bound = limit.bound if limit is not None and limit.plain.startswith("tau1") else None
    most = max([tau1.upper for _, _, tau1, _ in points] + [bound or 0.0, 1.0])
    marks = [mark for mark in _MARKS if mark <= 1.05 * most]
    canvas.y_margin(marks)
    canvas.left += 12
    canvas.right -= 16
    canvas.words(say("figures.plans.tau1", level=found.level), "caption", 0.0, "start")
    canvas.cursor += 8
    canvas.area(260)
    canvas.y_range = (0.0, math.log1p(1.05 * most))
    canvas.x_range = (0.0, 100.0 * max(1.02 * max(lost for _, lost, _, _ in points), 0.01))
    last = math.inf
    for mark in marks:
        height = canvas.y(math.log1p(mark))
        canvas.line((canvas.left, height), (canvas.right, height), "grid")
        if last - height >= line_height("label"):
            canvas.text(canvas.left - 7, height + 4, tick_text(mark), anchor="end")
            last = height
    said = []
    if bound is not None and limit is not None:
        height = canvas.y(math.log1p(bound))
        canvas.line((canvas.left, height), (canvas.right, height), "mark")
        which = "interval" if limit.of_interval else "estimate"
        words = say(f"figures.plans.target_{which}", bound=tick_text(bound))
        canvas.text(canvas.right, height - 5, words, anchor="end", kind="tiny")
        said.append(f"{words}.")
    for words, lost, tau1, chosen in sorted(points, key=lambda point: point[3]):
        tip = say("figures.plans.tip", words=words, tau1=tau1)
        x = canvas.x(100.0 * lost)
        low, middle, high = (
            canvas.y(math.log1p(value)) for value in (tau1.lower, tau1.mean, tau1.upper)
        )
        canvas.rect(
            (x - 2.0, high, 4.0, max(low - high, 1.0)), "bar-mid" if chosen else "bar-faint", tip
        )
        canvas.dot((x, middle), 6.0 if chosen else 3.5, "bar" if chosen else "bar-mid", tip)
        if chosen:
            canvas.text(x + 9, middle + 4, say("figures.plans.chosen"), anchor="start", kind="tiny")
        said.append(f"{tip}.")
    canvas.describe(say("figures.plans.title"), said)
    canvas.x_axis(canvas.x_ticks(6), say("figures.plans.axis"))
